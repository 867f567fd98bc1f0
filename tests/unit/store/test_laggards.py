"""The order of a queue when the pipeline is behind: what is due later waits, but not for ever."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    int64s,
    open_store,
    ordinary,
    read_all,
)

from dueline.audit import Severity, audit
from dueline.store import Answer, Store
from dueline.store.road import RoadRule

WAIT_MS = 10_000
OPTIONS = replace(SMALL, order_wait_ms=WAIT_MS)


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path / "store", wall, OPTIONS) as store:
        yield store


def stand_at_gate(store: Store, wall: Wall) -> None:
    """One that is due at 5 s is carried over; then one is accepted that is due at 1 s."""
    store.put(delayed(5_000, b"later"))
    carry_over(store)
    store.put(delayed(1_000, b"sooner", KEYS="sooner"))
    wall.advance(5_000)
    store.open_gate()


def test_what_is_due_later_waits_for_what_is_late(store: Store, wall: Wall) -> None:
    stand_at_gate(store, wall)
    assert bodies(store) == []
    assert store.gate_row_count == 1

    wall.advance(700)
    carry_over(store)

    assert bodies(store) == [b"sooner", b"later"]
    times = [record.store_ms for record in read_all(store)]
    assert times == [START_MS + 1_000, START_MS + 5_000]


def test_a_rule_of_another_topic_changes_no_order(store: Store, wall: Wall) -> None:
    store.numbers.set_rule("other", RoadRule(rate=5))
    stand_at_gate(store, wall)
    wall.advance(700)

    carry_over(store)

    assert bodies(store) == [b"sooner", b"later"]


def test_one_that_nobody_waits_for_any_more_is_still_in_order_if_others_are_waited_for(
    store: Store, wall: Wall
) -> None:
    store.put(delayed(12_000, b"last"))
    carry_over(store)
    store.put(delayed(1_000, b"first"))
    store.put(delayed(11_000, b"second"))
    wall.advance(12_500)
    store.open_gate()
    assert bodies(store) == []

    carry_over(store)

    assert bodies(store) == [b"first", b"second", b"last"]


def test_other_queues_do_not_wait(store: Store, wall: Wall) -> None:
    store.put(delayed(5_000, b"other", topic="other"))
    stand_at_gate(store, wall)

    assert bodies(store, "other") == [b"other"]
    assert bodies(store) == []


def test_what_is_due_earlier_does_not_wait(store: Store, wall: Wall) -> None:
    store.put(delayed(900, b"earlier"))
    store.put(delayed(1_000, b"as early"))
    stand_at_gate(store, wall)

    assert bodies(store) == [b"earlier", b"as early"]


def test_nobody_waits_longer_than_the_bound(store: Store, wall: Wall) -> None:
    stand_at_gate(store, wall)
    wall.now_ms = START_MS + 1_000 + WAIT_MS - 1
    store.open_gate()
    assert bodies(store) == []

    wall.advance(1)
    store.open_gate()
    assert bodies(store) == [b"later"]

    carry_over(store)
    assert bodies(store) == [b"later", b"sooner"]
    assert read_all(store)[1].store_ms == wall.now_ms


@pytest.mark.parametrize("how", ["cancel", "reschedule", "drop"])
def test_who_waits_is_free_when_nobody_is_late_any_more(how: str, store: Store, wall: Wall) -> None:
    stand_at_gate(store, wall)
    if how == "drop":
        store.deliver([], dropped=int64s(1))
    elif how == "cancel":
        assert store.cancel("sooner") == Answer.CANCELLED
    else:
        assert store.reschedule("sooner", wall.now_ms + 50_000) == Answer.RESCHEDULED
    store.open_gate()

    assert bodies(store) == [b"later"]


def test_who_waits_can_still_be_cancelled(store: Store, wall: Wall) -> None:
    store.put(delayed(5_000, b"later", UNIQ_KEY="u"))
    carry_over(store)
    store.put(delayed(1_000, b"sooner"))
    wall.advance(6_000)
    store.open_gate()

    assert store.recall("orders", "u") == Answer.CANCELLED
    carry_over(store)

    assert bodies(store) == [b"sooner"]


def test_an_ordinary_message_waits_for_nobody(store: Store, wall: Wall) -> None:
    stand_at_gate(store, wall)

    store.put(ordinary(b"now"))
    carry_over(store)

    assert bodies(store) == [b"later", b"now", b"sooner"]
    times = [record.store_ms for record in read_all(store)]
    assert times == sorted(times)


def test_late_ones_of_several_batches_come_in_due_order(store: Store, wall: Wall) -> None:
    store.put(delayed(2_000, b"2"))
    store.put(delayed(4_000, b"4"))
    carry_over(store)
    store.put(delayed(1_000, b"1"))
    store.put(delayed(3_000, b"3"))
    wall.advance(6_000)
    store.open_gate()

    carry_over(store, row_count_max=1)
    assert bodies(store) == [b"1", b"2"]
    wall.advance(50)
    carry_over(store)

    assert bodies(store) == [b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_offsets_stay_when_a_broker_stops_while_some_wait(
    is_killed: bool, store: Store, wall: Wall, tmp_path: Path
) -> None:
    store.put(delayed(500, b"seen"))
    stand_at_gate(store, wall)
    assert bodies(store) == [b"seen"]
    store.checkpoint()
    if is_killed:
        store._core.fail(OSError("killed by the test"))
    store.close()

    with open_store(tmp_path / "store", wall, OPTIONS) as again:
        carry_over(again)
        again.open_gate()

        assert bodies(again)[0] == b"seen"
        assert sorted(bodies(again)) == [b"later", b"seen", b"sooner"]
        times = [record.store_ms for record in read_all(again)]
        assert times == sorted(times)


def test_without_a_wait_everyone_comes_at_once(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path / "other", wall, replace(OPTIONS, order_wait_ms=0)) as store:
        stand_at_gate(store, wall)

        assert bodies(store) == [b"later"]
        carry_over(store)
        assert read_all(store)[1].store_ms == wall.now_ms


def test_a_check_does_not_call_lost_what_is_held_back(
    store: Store, wall: Wall, tmp_path: Path
) -> None:
    stand_at_gate(store, wall)
    wall.advance(1)
    store.put(replace(ordinary(b"now"), queue_id=1))  # something later was shown elsewhere
    store.checkpoint()
    assert store.gate_row_count == 1

    found = audit(tmp_path)

    assert found.findings.worst <= Severity.REPAIR, found.findings
