import pytest
from tests.unit.server.local import outgoing, send
from tests.unit.web.local import Site
from tests.waiting import wait_until

from dueline.server.process import BrokerProcess

HOUR_MS = 3_600_000


@pytest.fixture
def filled(broker: BrokerProcess) -> BrokerProcess:
    for number in range(10):
        topic = "a" if number % 2 else "b"
        send(
            broker,
            outgoing(
                str(number),
                topic=topic,
                KEYS=f"k{number}",
                TIMER_DELAY_MS=str(HOUR_MS + number),
                region="eu" if number < 5 else "us",
            ),
        )
    return broker


def finished(site: Site, order: dict[str, object]) -> dict[str, int]:
    """The answers of a job that has ended."""
    started = site.ask("POST", "/api/v1/jobs", order)
    assert started.status == 200, started.text
    path = f"/api/v1/jobs/{started.json['number']}"

    def ended() -> dict[str, int] | None:
        job = site.get(path).json
        return job["answers"] if job["state"] == "done" else None

    return wait_until(ended, "the end of the job")


@pytest.mark.usefixtures("filled")
def test_pages_together_are_what_is_counted(site: Site) -> None:
    query, seen, cursor = "topic=a&property=region%3Deu", list[str](), ""
    assert site.get(f"/api/v1/pending/count?{query}").json["count"] == 2
    while True:
        page = site.get(f"/api/v1/pending?{query}&limit=1{cursor}").json
        seen += [row["keys"] for row in page["rows"]]
        if page["cursor"] is None:
            break
        cursor = f"&cursor={page['cursor']}"

    assert seen == ["k1", "k3"]


@pytest.mark.usefixtures("filled")
def test_what_matches_is_cancelled_moved_shifted_and_delivered(
    site: Site, broker: BrokerProcess
) -> None:
    assert finished(site, {"action": "cancel", "filter": {"topic": "b"}})["done"] == 5
    move: dict[str, object] = {"action": "reschedule", "filter": {"key": "k1"}, "deliver_at": "+5h"}
    assert finished(site, move)["done"] == 1
    assert (
        finished(site, {"action": "shift", "filter": {"key": "k3"}, "shift": "-30m"})["done"] == 1
    )
    (row,) = site.get("/api/v1/pending?key=k5").json["rows"]
    assert finished(site, {"action": "deliver", "numbers": [row["number"]]})["done"] == 1

    rows = site.get("/api/v1/pending").json["rows"]
    now_ms = broker.clock.now_ms()
    away_h = {row["keys"]: round(2 * (row["due_ms"] - now_ms) / HOUR_MS) / 2 for row in rows}
    assert away_h.pop("k5", 0) == 0, "due now: it may be on its way already"
    assert away_h == {"k3": 0.5, "k7": 1, "k9": 1, "k1": 5}
    assert [each["action"] for each in site.get("/api/v1/jobs").json["jobs"]] == [
        *("deliver", "shift", "reschedule", "cancel")
    ]


@pytest.mark.usefixtures("filled")
def test_the_road_counts_by_time_and_topic(site: Site) -> None:
    road = site.get("/api/v1/road?start=now&end=%2B2h&bucket_ms=3600000").json
    of_a = site.get("/api/v1/road?start=now&end=%2B2h&bucket_ms=3600000&topic=a").json

    assert sum(road["counts"]) == 10
    assert {name: sum(counts) for name, counts in road["topics"].items()} == {"a": 5, "b": 5}
    assert sum(of_a["counts"]) == 5


def test_the_same_token_starts_one_job(site: Site) -> None:
    order = {"action": "cancel", "filter": {}, "token": "once"}
    numbers = {site.ask("POST", "/api/v1/jobs", order).json["number"] for _ in range(3)}

    assert len(numbers) == 1


@pytest.mark.parametrize(
    "order",
    [
        {"action": "cancel"},
        {"action": "cancel", "filter": {}, "numbers": [1]},
        {"action": "explode", "filter": {}},
        {"action": "shift", "filter": {}},
        {"action": "shift", "filter": {}, "shift": "far"},
        {"action": "reschedule", "filter": {}},
        {"action": "reschedule", "filter": {}, "deliver_at": "never"},
        {"action": "cancel", "filter": {"where": "drop table"}},
        {"action": "cancel", "filter": {"colour": "red"}},
        {"action": "cancel", "numbers": ["x"]},
    ],
)
def test_an_order_that_makes_no_sense_is_refused(site: Site, order: dict[str, object]) -> None:
    answer = site.ask("POST", "/api/v1/jobs", order)

    assert (answer.status, answer.json["error"]) == (400, "InvalidRequest"), answer.text
    assert site.get("/api/v1/jobs").json["jobs"] == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/jobs/99", 404),
        ("POST", "/api/v1/jobs/99/stop", 404),
        ("GET", "/api/v1/jobs/x", 400),
        ("GET", "/api/v1/pending?limit=0", 400),
        ("GET", "/api/v1/pending?cursor=x", 400),
        ("GET", "/api/v1/road?bucket_ms=1", 400),
        ("GET", "/api/v1/road?start=%2B2h&end=now", 400),
    ],
)
def test_bad_questions_are_refused(site: Site, method: str, path: str, status: int) -> None:
    assert site.ask(method, path).status == status
