"""The gate: rows come out at their millisecond, in order, and not if they were removed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.making import int64s

from dueline.store.gate import Gate, GateRows

BATCHES = st.lists(st.lists(st.integers(0, 20), max_size=6), max_size=5)


def rows_of(times: list[int], first_position: int) -> GateRows:
    count = len(times)
    positions = np.arange(first_position, first_position + count, dtype=np.int64)
    return GateRows(
        visible_ms=np.array(times, dtype=np.int64),
        due_ms=np.array(times, dtype=np.int64),
        position=positions,
        size=np.full(count, 91, dtype=np.int32),
        tags_code=positions * 2,
        queue=positions % 3,
        origin=positions + 1000,
    )


def filled(batches: list[list[int]]) -> tuple[Gate, list[tuple[int, int]]]:
    """A gate, and its rows as (time, position)."""
    gate, rows = Gate(), []
    position = 0
    for times in batches:
        gate.add(rows_of(times, position))
        rows += [(time, position + number) for number, time in enumerate(times)]
        position += len(times)
    return gate, rows


@given(BATCHES, st.lists(st.integers(0, 25), max_size=5))
def test_rows_come_out_by_time_and_position(batches: list[list[int]], moments: list[int]) -> None:
    gate, waiting = filled(batches)

    for until in moments:
        opened = gate.open(until)

        expected = sorted(row for row in waiting if row[0] <= until)
        waiting = [row for row in waiting if row[0] > until]
        if not expected:
            assert opened is None
        else:
            assert opened is not None
            found = zip(opened.visible_ms.tolist(), opened.position.tolist(), strict=True)
            assert list(found) == expected
            assert opened.tags_code.tolist() == [2 * position for _, position in expected]
        assert gate.row_count == len(waiting)
        assert gate.next_ms == min((time for time, _ in waiting), default=None)
        assert gate.position_min() == min((position for _, position in waiting), default=None)


@given(BATCHES, st.sets(st.integers(1000, 1030)))
def test_removed_origins_never_come_out(batches: list[list[int]], origins: set[int]) -> None:
    gate, rows = filled(batches)

    gate.remove(int64s(*origins))

    left = [row for row in rows if row[1] + 1000 not in origins]
    assert gate.row_count == len(left)
    assert gate.next_ms == min((time for time, _ in left), default=None)
    for origin in range(1000, 1031):
        assert gate.holds(origin) == any(position + 1000 == origin for _, position in left)
    opened = gate.open(100)
    assert (0 if opened is None else len(opened)) == len(left)


def test_holds_any_looks_at_a_range() -> None:
    gate, _ = filled([[5, 6]])

    assert gate.holds_any(1001, 1002)
    assert not gate.holds_any(1002, 2000)
    assert not gate.holds_any(0, 1000)


def test_nothing_added_is_nothing() -> None:
    gate = Gate()
    gate.add(rows_of([], 0))

    assert (gate.open(1 << 60), gate.next_ms, gate.row_count) == (None, None, 0)
    assert gate.position_min() is None


def test_rows_of_one_batch_are_sorted_by_time() -> None:
    rows = rows_of([7, 3, 7, 3], 0).sorted()

    assert rows.visible_ms.tolist() == [3, 3, 7, 7]
    assert rows.position.tolist() == [1, 3, 0, 2]


@given(BATCHES, st.sets(st.integers(1000, 1030)), st.integers(0, 25))
def test_due_times_change_and_nothing_else(
    batches: list[list[int]], origins: set[int], until: int
) -> None:
    gate, rows = filled(batches)
    gate.open(until)
    chosen = sorted(origins)

    gate.set_due(int64s(*chosen), int64s(*(-origin for origin in chosen)))

    found = gate.rows()
    by_origin = dict(zip(found.origin.tolist(), found.due_ms.tolist(), strict=True))
    waiting = {position + 1000: time for time, position in rows if time > until}
    assert by_origin == {
        origin: -origin if origin in origins else time for origin, time in waiting.items()
    }
    assert sorted(found.visible_ms.tolist()) == sorted(waiting.values())
