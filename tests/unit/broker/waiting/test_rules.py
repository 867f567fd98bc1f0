"""Rules of topics as operators set them: told, changed, taken away; nonsense is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import START_MS, QuickFiles, Wall, delayed, open_store

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.waiting.rules import TopicRule, TopicRules
from dueline.errors import InvalidRequest
from dueline.store import Store


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        yield store


@pytest.fixture
def rules(store: Store, tmp_path: Path) -> TopicRules:
    return TopicRules(store, ConsumerOffsets(tmp_path / "offsets.json", QuickFiles()))


def test_rules_are_told_with_what_they_hold_back(
    store: Store, wall: Wall, rules: TopicRules
) -> None:
    for delay_ms in (1_000, 2_000, 60_000):
        store.put(delayed(delay_ms, topic="mail"))
    store.put(delayed(1_000))
    rules.change("mail", is_paused=True, expiry_ms=90_000)
    rules.change("bills", rate=5)
    wall.advance(3_000)

    assert rules.list() == [
        TopicRule(
            topic="bills", is_paused=False, rate=5, expiry_ms=None, pending_count=0,
            held_back_count=0,
        ),
        TopicRule(
            topic="mail", is_paused=True, rate=None, expiry_ms=90_000, pending_count=3,
            held_back_count=2,
        ),
    ]  # fmt: skip


def test_what_is_not_said_stays_and_0_takes_away(
    store: Store, wall: Wall, rules: TopicRules
) -> None:
    rules.change("mail", rate=5, expiry_ms=7_000)
    rules.change("mail", is_paused=True)
    rules.change("mail", rate=0)
    (rule,) = rules.list()
    assert (rule.is_paused, rule.rate, rule.expiry_ms) == (True, None, 7_000)

    wall.advance(500)
    rules.change("mail", is_paused=False, expiry_ms=0)

    assert rules.list() == []
    assert store.numbers.rules["mail"].resumed_ms == START_MS + 500


@pytest.mark.parametrize(
    ("topic", "fields", "reason"),
    [
        ("no topic", {"is_paused": True}, "topic"),
        ("SCHEDULE_TOPIC_XXXX", {"is_paused": True}, "topic"),
        ("mail", {"rate": -1}, "rate: expected 1 to"),
        ("mail", {"rate": 1 << 40}, "rate: expected 1 to"),
        ("mail", {"expiry_ms": -5}, "expiry_ms: expected 1 to"),
    ],
)
def test_rules_without_sense_are_refused(
    rules: TopicRules, topic: str, fields: dict[str, int], reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        rules.change(topic, **fields)  # type: ignore[arg-type]
