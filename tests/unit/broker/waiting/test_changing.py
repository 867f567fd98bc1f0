"""One portion of changes: cancel, deliver now, move, shift; by row and by number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.unit.store.making import (
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    int64s,
    open_store,
)

from dueline.broker.waiting.changing import Change, Tally, change_numbers, change_rows
from dueline.errors import InvalidRequest, LimitExceeded
from dueline.store import Store
from dueline.store.numbers import DONE, TOO_LATE, UNKNOWN
from dueline.store.survey import Waiting

CANCEL, DELIVER = Change(action="cancel"), Change(action="deliver")


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        for delay_ms in (5_000, 3_000, 4_000, 60_000):
            store.put(delayed(delay_ms, b"%d" % delay_ms))
        yield store


def dues(store: Store) -> list[int]:
    return [
        int(due_ms) - START_MS
        for rows, _ in store.survey().slabs()
        for due_ms in rows.units.due_ms.tolist()
    ]


def all_rows(store: Store) -> Waiting:
    survey = store.survey()
    return survey.find(np.arange(survey.end, dtype=np.int64))


def test_deliver_now_shows_them_in_due_order_and_once(store: Store, wall: Wall) -> None:
    carry_over(store, ahead_ms=3_000)

    answers = change_rows(store, DELIVER, all_rows(store))
    again = change_rows(store, DELIVER, all_rows(store))
    carry_over(store)
    store.open_gate()

    assert (answers.tolist(), again.tolist()) == ([DONE] * 4, [DONE] * 4)
    assert bodies(store) == [b"3000", b"4000", b"5000", b"60000"]
    wall.advance(100_000)
    carry_over(store)
    store.open_gate()
    assert len(bodies(store)) == 4


def test_what_is_due_already_is_left_as_it_is(store: Store, wall: Wall) -> None:
    wall.advance(4_500)

    change_rows(store, DELIVER, all_rows(store))

    assert dues(store) == [3_000, 4_000, 4_500, 4_500]


def test_shifts_keep_the_order_and_stop_at_now(store: Store, wall: Wall) -> None:
    change_rows(store, Change(action="shift", shift_ms=10_000), all_rows(store))
    assert dues(store) == [13_000, 14_000, 15_000, 70_000]

    change_rows(store, Change(action="shift", shift_ms=-14_500), all_rows(store))
    assert dues(store) == [0, 0, 500, 55_500]
    carry_over(store)
    store.open_gate()
    assert bodies(store) == [b"3000", b"4000"]


def test_numbers_are_answered_in_their_order(store: Store, wall: Wall) -> None:
    carry_over(store, ahead_ms=3_000)
    wall.advance(3_000)
    store.open_gate()
    numbers = int64s(3, 77, 1, 0, 3)
    answers = [DONE, UNKNOWN, TOO_LATE, DONE, DONE]
    to_one = Change(action="reschedule", due_ms=START_MS + 9_000)

    assert change_numbers(store, to_one, numbers).tolist() == answers
    assert dues(store) == [4_000, 9_000, 9_000]
    each = np.full(5, START_MS + 8_000, dtype=np.int64)
    assert change_numbers(store, to_one, int64s(2, 77, 1, 2, 99), each).tolist() == [
        DONE, UNKNOWN, TOO_LATE, DONE, UNKNOWN
    ]  # fmt: skip
    assert dues(store) == [8_000, 9_000, 9_000]
    shifted = change_numbers(store, Change(action="shift", shift_ms=1), int64s(1, 4, 5, 6))
    assert shifted.tolist() == [TOO_LATE, DONE, DONE, DONE]
    assert dues(store) == [8_001, 9_001, 9_001]
    assert change_numbers(store, CANCEL, int64s(1, 4, 7)).tolist() == [TOO_LATE, TOO_LATE, DONE]


def test_moving_by_number_again_is_done_once(store: Store) -> None:
    each = int64s(START_MS + 8_000, START_MS + 9_000)
    change = Change(action="reschedule", due_ms=0)

    first = change_numbers(store, change, int64s(0, 1), each)
    again = change_numbers(store, change, int64s(0, 1), each)

    assert (first.tolist(), again.tolist()) == ([DONE, DONE], [DONE, DONE])
    assert dues(store) == [4_000, 8_000, 9_000, 60_000]


def test_tallies_add_up() -> None:
    tally = Tally.of(np.array([0, 0, 1, 2, 3, 3], dtype=np.uint8)) + Tally(done=5)

    assert tally == Tally(done=7, too_late=1, unknown=1, failed=2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Change(action="burn"), "action: expected cancel, deliver, reschedule, shift"),
        (Change(action="reschedule"), "due_ms: expected it with the action reschedule"),
        (Change(action="cancel", due_ms=5), "due_ms: expected it with the action reschedule"),
        (Change(action="shift"), "shift_ms: expected it with the action shift"),
        (Change(action="shift", shift_ms=1 << 50), "at most a hundred years"),
    ],
)
def test_changes_without_sense_are_refused(change: Change, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        change.check(now_ms=START_MS, delay_max_ms=1000)


def test_a_time_too_far_away_is_refused() -> None:
    with pytest.raises(LimitExceeded):
        Change(action="reschedule", due_ms=START_MS + 1001).check(
            now_ms=START_MS, delay_max_ms=1000
        )
