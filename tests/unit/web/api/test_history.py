"""The ledger and the audit trail over HTTP, and the pages that show them."""

from tests.unit.server.local import outgoing, send
from tests.unit.web.local import Site

from dueline.server.process import BrokerProcess

LATER = "900000"


def test_the_ledger_is_paged_and_filtered(site: Site, broker: BrokerProcess) -> None:
    for number in range(5):
        send(broker, outgoing("x", topic="ab"[number % 2], KEYS=f"k{number}", TIMER_DELAY_MS=LATER))
    broker.store.cancel("k2")

    found, path = [], "/api/v1/ledger?limit=2"
    while True:
        page = site.get(path).json
        assert len(page["rows"]) <= 2
        found += [(row["keys"], row["outcome"]) for row in page["rows"]]
        if page["cursor"] is None:
            break
        path = f"/api/v1/ledger?limit=2&cursor={page['cursor']}"
    cancelled = site.get("/api/v1/ledger?outcome=cancelled&topic=a").json["rows"]

    assert sorted(found) == [
        ("k0", "pending"),
        ("k1", "pending"),
        ("k2", "cancelled"),
        ("k3", "pending"),
        ("k4", "pending"),
    ]
    assert [row["keys"] for row in cancelled] == ["k2"]
    assert cancelled[0]["ended_ms"] >= cancelled[0]["accepted_ms"]


def test_what_cannot_be_meant_is_said(site: Site) -> None:
    for query in ("outcome=eaten", "late=soon", "limit=0", "cursor=x", "colour=red"):
        assert site.get(f"/api/v1/ledger?{query}").status == 400, query
    for query in ("since=x", "limit=0", "before=first"):
        assert site.get(f"/api/v1/audit?{query}").status == 400, query


def test_the_pages_say_what_is_wrong_with_their_forms(site: Site) -> None:
    assert (
        "expected number and unit"
        in site.get("/ledger?late=soon").text.partition('role="alert"')[2]
    )
    assert "since" in site.get("/audit?since=x").text.partition('role="alert"')[2]


def test_the_ledger_page_shows_outcomes(site: Site, broker: BrokerProcess) -> None:
    send(broker, outgoing("x", topic="a", KEYS="kept", TIMER_DELAY_MS=LATER))
    send(broker, outgoing("x", topic="a", KEYS="gone", TIMER_DELAY_MS=LATER))
    broker.store.cancel("gone")

    everything, cancelled = site.get("/ledger").text, site.get("/ledger?outcome=cancelled").text

    assert (">kept<" in everything, ">gone<" in everything) == (True, True)
    assert (">kept<" in cancelled, ">gone<" in cancelled) == (False, True)


def test_changes_are_read_back_the_newest_first(site: Site) -> None:
    for name in ("first", "second", "third"):
        site.ask("POST", "/api/v1/topics", {"topic": name})

    lines = site.get("/api/v1/audit?what=create_topic").json["lines"]
    before = site.get(f"/api/v1/audit?what=create_topic&before={lines[-1]['n']}").json["lines"]
    page = site.get("/audit?what=create_topic").text

    assert [line["on"] for line in lines] == [["Topic:first"], ["Topic:second"], ["Topic:third"]]
    assert [line["on"] for line in before] == [["Topic:first"], ["Topic:second"]]
    assert page.index("Topic:third") < page.index("Topic:first")


def test_topics_say_how_long_messages_are_kept(site: Site, broker: BrokerProcess) -> None:
    send(broker, outgoing("x", topic="a"))

    found = site.get("/api/v1/topics").json
    (topic,) = (each for each in found["topics"] if each["topic"] == "a")

    assert found["retention_ms"] == 72 * 3_600_000
    assert topic["first_ms"] == topic["last_ms"] is not None
    assert "can be read for 3 d" in site.get("/topics").text
