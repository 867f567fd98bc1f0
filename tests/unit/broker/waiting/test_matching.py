"""Filters find exactly whom a plain loop finds: counted, listed and paged, in due order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.broker.waiting.waiting_world import START_MS, Sent, WaitingWorld
from tests.unit.store.making import int64s

from dueline.broker.waiting import PendingFilter, matching
from dueline.broker.waiting.matching import Matching, decode_cursor, encode_cursor
from dueline.errors import InvalidRequest

Meant = Callable[[Sent], bool]

CASES: list[tuple[PendingFilter, Meant]] = [
    (PendingFilter(), lambda each: True),
    (PendingFilter(topic="mail"), lambda each: each.topic == "mail"),
    (PendingFilter(topic="nobody"), lambda each: False),
    (PendingFilter(tag="a"), lambda each: each.tags == "a"),
    (PendingFilter(key="order-17"), lambda each: "order-17" in each.keys.split()),
    (PendingFilter(key="all", topic="bills"), lambda s: "all" in s.keys and s.topic == "bills"),
    (PendingFilter(key_prefix="order-1"), lambda each: each.keys.startswith("order-1")),
    (PendingFilter(text="number 1"), lambda each: b"number 1" in each.body),
    (
        PendingFilter(property_name="region", property_value="eu"),
        lambda each: each.region == "eu",
    ),
    (
        PendingFilter(due_start_ms=START_MS + 3_000, due_end_ms=START_MS + 20_000),
        lambda each: START_MS + 3_000 <= each.due_ms < START_MS + 20_000,
    ),
    (
        PendingFilter(where="topic in ('mail', 'bills') and key like 'order-%5' and not tag = 'a'"),
        lambda s: s.topic != "orders" and s.keys.split(" ")[0].endswith("5") and s.tags != "a",
    ),
    (
        PendingFilter(topic="orders", where="number < 20 or property('region') is null"),
        lambda each: each.topic == "orders" and (each.number < 20 or not each.region),
    ),
    (PendingFilter(where="key <> 'all'"), lambda each: bool(each.keys)),
    (
        PendingFilter(where="not key = 'order-5'"),
        lambda s: bool(s.keys) and "order-5 " not in s.keys,
    ),
    (
        PendingFilter(where=f"due > {START_MS + 50_000} and due <= {START_MS + 55_000}"),
        lambda each: START_MS + 50_000 < each.due_ms <= START_MS + 55_000,
    ),
    (
        PendingFilter(where="state = 'carried over'"),
        lambda each: each.due_ms <= START_MS + 4_000,
    ),
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WaitingWorld]:
    world = WaitingWorld(tmp_path_factory.mktemp("waiting"))
    yield world
    world.store.close()


@pytest.mark.parametrize(("wanted", "is_meant"), CASES, ids=[str(n) for n in range(len(CASES))])
@pytest.mark.parametrize("record_count_max", [7, 50_000])
def test_filters_find_whom_a_plain_loop_finds(
    world: WaitingWorld,
    monkeypatch: pytest.MonkeyPatch,
    wanted: PendingFilter,
    is_meant: Meant,
    record_count_max: int,
) -> None:
    monkeypatch.setattr(matching, "RECORD_COUNT_MAX", record_count_max)
    monkeypatch.setattr(matching, "RECORD_STEP", 5)
    found = Matching(world.store)

    for limit in (1, 7, 1000):
        assert _listed(found, wanted, limit) == world.numbers(is_meant)
    topics = Counter(each.topic for each in world.sent if is_meant(each))
    assert _counted(found, wanted) == topics


def _listed(found: Matching, wanted: PendingFilter, limit: int) -> list[int]:
    numbers: list[int] = []
    cursor: str | None = None
    while True:
        page = found.page(wanted, limit=limit, cursor=cursor)
        assert len(page.rows) <= limit
        numbers += [row.number for row in page.rows]
        if (cursor := page.cursor) is None:
            return numbers


def _counted(found: Matching, wanted: PendingFilter) -> Counter[str]:
    topics: Counter[str] = Counter()
    cursor: str | None = None
    while True:
        part = found.count(wanted, cursor)
        assert part.count == sum(part.by_topic.values())
        topics.update(part.by_topic)
        if (cursor := part.cursor) is None:
            return topics


def test_rows_say_what_was_sent(world: WaitingWorld) -> None:
    page = Matching(world.store).page(PendingFilter(), limit=1000)
    sent = {each.number: each for each in world.sent}

    assert len(page.rows) == 60
    for row in page.rows:
        meant = sent[row.number]
        assert (row.topic, row.due_ms, row.keys, row.tags) == (
            meant.topic,
            meant.due_ms,
            meant.keys,
            meant.tags,
        )
        is_at_gate = meant.due_ms <= START_MS + 4_000
        assert row.state == ("carried over" if is_at_gate else "pending")
        assert row.accepted_ms == (None if is_at_gate else START_MS)
        assert world.store.find_delayed(row.unique_id)[0].seq == row.number


def test_what_is_gone_between_two_pages_is_not_listed(tmp_path: Path) -> None:
    world = WaitingWorld(tmp_path)
    found = Matching(world.store)
    first = found.page(PendingFilter(), limit=10)
    order = world.numbers(lambda each: True)

    world.store.numbers.cancel(int64s(order[3], order[11]))
    second = found.page(PendingFilter(), limit=10, cursor=first.cursor)

    assert [row.number for row in second.rows] == [order[10], *order[12:21]]
    world.store.close()


def test_counts_tell_what_stands_at_the_gate(world: WaitingWorld) -> None:
    at_gate = len(world.numbers(lambda each: each.due_ms <= START_MS + 4_000))

    assert Matching(world.store).count(PendingFilter()).at_gate_count == at_gate > 0


def test_cursors_lead_back_and_others_are_refused() -> None:
    assert decode_cursor(encode_cursor((17, 4))) == (17, 4)
    for bad in ("", "x", "####", encode_cursor((1, 2)) + "zz", "LTEuMg", "a" * 200):
        with pytest.raises(InvalidRequest, match="cursor: expected one"):
            decode_cursor(bad)


def test_limits_are_checked(world: WaitingWorld) -> None:
    for limit in (0, 1001):
        with pytest.raises(InvalidRequest, match="limit: expected 1 to 1000"):
            Matching(world.store).page(PendingFilter(), limit=limit)
