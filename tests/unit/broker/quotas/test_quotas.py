"""What fits into the quotas is let in; what does not changes nothing, and is counted."""

from __future__ import annotations

import pytest

from dueline.broker.access import Caller
from dueline.broker.quotas import Quotas, parse_rules
from dueline.errors import LimitExceeded

BILLING = Caller("billing", "10.0.0.1")
SHIPPING = Caller("shipping", "10.0.0.2")


class Ticks:
    """Seconds that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def quotas(rules: dict[str, str], ticks: Ticks | None = None) -> Quotas:
    return Quotas(parse_rules(rules), clock_s=ticks or Ticks())


def send(found: Quotas, caller: Caller = BILLING, topic: str = "orders", count: int = 1) -> None:
    found.admit(caller, {topic: count}, size_bytes=10 * count)


def sent_count(found: Quotas, caller: Caller = BILLING, topic: str = "orders") -> int:
    """How many messages are let in until one is not."""
    for count in range(1_000):
        try:
            send(found, caller, topic)
        except LimitExceeded:
            return count
    return 1_000


def test_without_rules_there_is_no_bound() -> None:
    found = quotas({})

    assert not found.is_on
    assert sent_count(found) == 1_000
    assert found.connection_count_max("10.0.0.1") is None


@pytest.mark.parametrize("rule", ["user:billing", "user:*", "address:10.0.0.1", "address:*"])
def test_one_tenant_does_not_spend_the_quota_of_another(rule: str) -> None:
    found = quotas({rule: "sends:5"})

    assert sent_count(found, BILLING) == 5
    assert sent_count(found, SHIPPING) == (5 if "*" in rule else 1_000)


def test_topics_have_quotas_of_their_own() -> None:
    found = quotas({"topic:*": "sends:3", "topic:vast": "sends:700"})

    assert [sent_count(found, topic=name) for name in ("a", "b", "vast")] == [3, 3, 700]


def test_a_quota_is_there_again_after_a_while() -> None:
    ticks = Ticks()
    found = quotas({"user:*": "sends:5"}, ticks)
    sent_count(found)
    ticks.now_s += 0.6

    assert sent_count(found) == 3


def test_bytes_count_too() -> None:
    found = quotas({"user:*": "bytes:100B"})

    assert sent_count(found) == 10


def test_a_refused_request_spends_nothing() -> None:
    found = quotas({"user:*": "sends:5", "topic:full": "sends:1"})
    send(found, topic="full")

    for _ in range(50):
        with pytest.raises(LimitExceeded, match="topic full"):
            send(found, topic="full")

    assert sent_count(found, topic="other") == 4


def test_new_topics_are_bounded_by_the_hour() -> None:
    ticks = Ticks()
    found = quotas({"user:*": "topics:2"}, ticks)
    found.admit_topics(BILLING, ["a"])
    found.admit_topics(BILLING, ["b"])

    with pytest.raises(LimitExceeded, match="2 new topics an hour"):
        found.admit_topics(BILLING, ["c"])
    found.admit_topics(BILLING, [])

    ticks.now_s += 1_801
    found.admit_topics(BILLING, ["c"])


def test_what_waits_is_bounded_by_topic() -> None:
    found = quotas({"topic:orders": "pending:10"})
    found.note_pending({"orders": 8})

    found.admit(BILLING, {"orders": 2}, size_bytes=1, delayed_count=2)
    with pytest.raises(LimitExceeded, match="10 delayed messages that wait"):
        found.admit(BILLING, {"orders": 1}, size_bytes=1, delayed_count=1)
    found.admit(BILLING, {"orders": 1}, size_bytes=1)  # not delayed
    found.admit(BILLING, {"orders": 0, "others": 5}, size_bytes=1)  # a table of rows

    found.note_pending({"orders": 3})
    found.admit(BILLING, {"orders": 7}, size_bytes=1, delayed_count=7)


def test_who_was_limited_is_counted() -> None:
    found = quotas({"user:*": "sends:1", "topic:a": "pending:1", "address:10.0.0.9": "polls:3"})
    found.note_pending({"a": 1})
    send(found, count=5)

    for _ in range(3):
        with pytest.raises(LimitExceeded):
            send(found)
    with pytest.raises(LimitExceeded):
        found.admit(SHIPPING, {"a": 1}, size_bytes=1, delayed_count=1)
    found.note_limited("address 10.0.0.9")

    assert found.limited() == {"user billing": 3, "topic a": 1, "address 10.0.0.9": 1}
    assert found.limited_count == 5
    assert found.poll_count_max("10.0.0.9") == 3


def test_the_list_of_the_limited_is_bounded() -> None:
    found = quotas({"user:*": "sends:1"})

    for number in range(3_000):
        found.note_limited(f"user {number}")

    assert len(found.limited()) == 1_000
    assert "user 2999" in found.limited()
