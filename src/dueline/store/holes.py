"""Queue offsets around damaged records, when a store is opened after a crash.

Records beyond the checkpoint are indexed again in order of visibility, which gives each the offset
it had, as long as all of them are there. If one is damaged, those behind it would move up by one,
and a consumer that has stored its offset would skip a message. So where the log's tail is damaged,
records go to the offset that they name themselves, and a *hole* stays where the damaged one was: a
unit that points at the damaged bytes, as every queue has it whose record was damaged later.

What the queue's file still has of them (after the death of a process: all) says so too. The offset
in a record has no check, so one of them by itself is not believed: a flipped bit must not move its
neighbours. `fit` takes the longest row of claims that agree with each other.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.store.consume_queue import UNIT_DTYPE, ConsumeQueue, Units
from dueline.store.core import Core
from dueline.store.gate import GateRows
from dueline.store.kernels import Int64s
from dueline.store.record import QUEUE_OFFSET_AT, RECORD_SIZE_MIN
from dueline.store.scan import Damage

__all__ = ["Holes", "first_offset", "fit"]

_SIZE_MAX: Final = (1 << 31) - 1


class Holes:
    """Places the visible records of a damaged tail; used once, by recovery."""

    def __init__(self, core: Core, damage: Sequence[Damage]) -> None:
        self._core = core
        self._starts = np.array([each.start for each in damage], dtype=np.int64)
        self._ends = np.array([each.end for each in damage], dtype=np.int64)
        self._lost_count_max = int((self._ends - self._starts).sum()) // RECORD_SIZE_MIN

    def place(self, rows: GateRows, claims: Int64s, until_ms: int) -> GateRows:
        """Index the rows that are visible by `until_ms` in queues with a hole; returns the others.

        Args:
            rows: in log order; `claims` are the offsets that their records name.
        """
        order = np.argsort(rows.visible_ms, kind="stable")
        order = order[rows.visible_ms[order] <= until_ms]
        placed = np.zeros(len(rows), dtype=np.bool_)
        for number, queue in enumerate(self._core.queues):
            own = order[rows.queue[order] == number]
            written = queue.written_beyond(queue.end)
            seen = _seen_at(queue.end, written, rows.position[own], claims[own])
            offsets = fit(queue.end, seen, self._lost_count_max)
            end = self._shown_end(queue.end, written, int(offsets[-1]) + 1 if len(own) else 0)
            if end > queue.end + len(own):
                self._append(number, rows.take(own), offsets, self._units(queue, written, end))
                placed[own] = True
        return rows.take(np.flatnonzero(~placed))

    def _shown_end(self, first: int, written: Units, end: int) -> int:
        """Where the queue ended when its process did: units of damaged records behind the last
        sound one count too, since whoever read them has stored the offset behind them."""
        end = max(end, first)
        for position in written["position"][end - first :].tolist():
            if not self._is_damaged(position):
                break
            end += 1
        return end

    def _is_damaged(self, position: int) -> bool:
        return bool(((self._starts <= position) & (position < self._ends)).any())

    def _units(self, queue: ConsumeQueue, written: Units, end: int) -> Units:
        """Units of holes, from the queue's end up to `end`: as they were shown, if that is known;
        otherwise they point at the first damaged bytes."""
        units = np.zeros(end - queue.end, dtype=UNIT_DTYPE)
        units["position"] = self._starts[0]
        units["size"] = min(int(self._ends[0] - self._starts[0]), _SIZE_MAX)
        for at, unit in enumerate(written[: len(units)]):
            if self._is_damaged(int(unit["position"])):
                units[at] = unit
        return units

    def _append(self, number: int, rows: GateRows, offsets: Int64s, units: Units) -> None:
        core = self._core
        at = offsets - core.reserve_units(number, len(units))
        units["position"][at] = rows.position
        units["size"][at] = rows.size
        units["tags_code"][at] = rows.tags_code
        with core.closing_on_failure():
            core.commit.scatter(
                rows.position + QUEUE_OFFSET_AT, offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
            )
            core.queues.by_number(number).append(units)


def _seen_at(first: int, written: Units, positions: Int64s, claims: Int64s) -> Int64s:
    """The offsets that rows claim; better, where the queue's file still has a unit for them."""
    if not len(written):
        return claims
    order = np.argsort(written["position"], kind="stable")
    at = order[np.searchsorted(written["position"][order], positions).clip(max=len(order) - 1)]
    return np.where(written["position"][at] == positions, first + at, claims)


def fit(first: int, claims: Int64s, lost_count_max: int) -> Int64s:
    """Rising offsets from `first` on for rows that claim these; with holes for lost ones.

    >>> fit(5, np.array([5, 7, 8]), lost_count_max=3).tolist()
    [5, 7, 8]
    >>> fit(5, np.array([5, 260, 7]), lost_count_max=1).tolist()  # a flipped bit
    [5, 6, 7]
    """
    plain = first + np.arange(len(claims), dtype=np.int64)
    shifts = claims - plain
    possible = np.flatnonzero((shifts >= 0) & (shifts <= lost_count_max))
    agreed = possible[_longest_rising(shifts[possible])]
    moved = np.zeros(len(claims), dtype=np.int64)
    moved[agreed] = shifts[agreed]
    result: Int64s = plain + np.maximum.accumulate(moved)
    return result


def first_offset(claims: Int64s, *, is_damaged: bool) -> int | None:
    """Where rows that claim these offsets begin, if nothing else tells; None if they do not say.

    Without damage there are no holes, and most of the claims decide.
    """
    firsts = (claims - np.arange(len(claims)))[claims >= 0]
    if not len(firsts):
        return None
    if is_damaged:
        return int(firsts[_longest_rising(firsts)[0]])
    found, counts = np.unique(firsts, return_counts=True)
    return int(found[counts.argmax()])


def _longest_rising(values: npt.NDArray[np.int64]) -> Int64s:
    """The rows of a longest subsequence in which no value is less than the one before."""
    lasts: list[int] = []  # of the best subsequence of each length: its last value
    rows: list[int] = []
    before: list[int] = []
    for row, value in enumerate(values.tolist()):
        at = bisect_right(lasts, value)
        before.append(rows[at - 1] if at else -1)
        lasts[at : at + 1] = [value]
        rows[at : at + 1] = [row]
    chosen = []
    row = rows[-1] if rows else -1
    while row >= 0:
        chosen.append(row)
        row = before[row]
    return np.array(chosen[::-1], dtype=np.int64)
