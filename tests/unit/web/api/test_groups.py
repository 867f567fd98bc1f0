import pytest
from tests.unit.server.local import carry, outgoing, send, visible_bodies
from tests.unit.web.local import Site
from tests.waiting import wait_until

from dueline.server.process import BrokerProcess


def bury(broker: BrokerProcess, body: str) -> None:
    """A message that a group could not handle."""
    broker.broker.consumer_groups.ensure("billing")
    send(
        broker,
        outgoing(body, topic="%DLQ%billing", DLQ_ORIGIN_TOPIC="orders", KEYS=body, colour="red"),
    )


def test_a_dead_letter_goes_to_its_group_again(site: Site, broker: BrokerProcess) -> None:
    bury(broker, "a")
    bury(broker, "b")

    letters = site.get("/api/v1/groups/billing/dead-letters").json["letters"]
    answer = site.ask("POST", "/api/v1/groups/billing/dead-letters/0/resend", {})

    assert [(each["offset"], each["keys"], each["topic"]) for each in letters] == [
        (1, "b", "orders"),
        (0, "a", "orders"),
    ]
    assert answer.status == 200, answer.text
    carry(broker.store)
    wait_until(lambda: visible_bodies(broker, "%RETRY%billing") == ["a"] or None, "the retry")


def test_a_dead_letter_goes_to_its_topic_as_a_new_message(
    site: Site, broker: BrokerProcess
) -> None:
    bury(broker, "a")

    path = "/api/v1/groups/billing/dead-letters/0/resend"
    sent = site.ask("POST", path, {"is_to_topic": True}).json
    (found,) = site.get(f"/api/v1/messages/{sent['unique_id']}?topic=orders").json["messages"]

    assert found["keys"] == "a"
    assert found["properties"]["colour"] == "red"
    assert "DLQ_ORIGIN_TOPIC" not in found["properties"]


def test_dead_letters_are_paged(site: Site, broker: BrokerProcess) -> None:
    for body in "abcde":
        bury(broker, body)

    seen: list[str] = []
    before: str | None = ""
    while before is not None:
        page = site.get(f"/api/v1/groups/billing/dead-letters?count_max=2{before}").json
        seen += [each["keys"] for each in page["letters"]]
        before = None if page["next"] is None else f"&before={page['next']}"

    assert seen == ["e", "d", "c", "b", "a"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/v1/groups/nobody/dead-letters/0/resend", 404),
        ("/api/v1/groups/billing/dead-letters/5/resend", 404),
        ("/api/v1/groups/billing/dead-letters/-1/resend", 404),
        ("/api/v1/groups/billing/dead-letters/x/resend", 400),
    ],
)
def test_a_dead_letter_that_is_none_is_refused(
    site: Site, broker: BrokerProcess, path: str, status: int
) -> None:
    bury(broker, "a")

    assert site.ask("POST", path, {}).status == status


def test_a_group_is_listed_with_its_lag_and_reads_again(site: Site, broker: BrokerProcess) -> None:
    send(broker, outgoing("a"), outgoing("b"))
    broker.broker.consumer_groups.ensure("billing")
    broker.broker.offsets.set("billing", "orders", {0: 2})

    def lag() -> int:
        (group,) = site.get("/api/v1/groups").json["groups"]
        return int(group["topics"][0]["lag"])

    assert lag() == 0
    body = {"topic": "orders", "to": "start"}
    assert site.ask("POST", "/api/v1/groups/billing/reset", body).status == 200
    assert lag() == 2
    site.ask("POST", "/api/v1/groups/billing/reset", {"topic": "orders", "to": "end"})
    assert lag() == 0
    body = {"topic": "orders", "to": "whenever"}
    assert site.ask("POST", "/api/v1/groups/billing/reset", body).status == 400
    assert site.ask("POST", "/api/v1/groups/nobody/reset", body | {"to": "end"}).status == 404


def test_undecided_transactions_are_listed(site: Site, broker: BrokerProcess) -> None:
    send(broker, outgoing("half", TRAN_MSG="true", PGROUP="shop"))

    found = site.get("/api/v1/transactions").json

    assert found["count"] == len(found["messages"])
