"""Queue offsets around damaged records, when a store is opened after a crash.

Records beyond the checkpoint are indexed again in order of visibility, which gives each the offset
it had, as long as all of them are there. If one is damaged, those behind it would move up by one,
and a consumer that has stored its offset would skip a message. So where the log's tail is damaged,
records go to the offset that they name themselves, and a *hole* stays where the damaged one was: a
unit that points at the damaged bytes, as every queue has it whose record was damaged later.

The offset in a record has no check, so one of them by itself is not believed: a flipped bit must
not move its neighbours. `fit` takes the longest row of claims that agree with each other. What is
still readable of the damaged records themselves is believed only where it goes on behind the last
sound one: a consumer that read them has stored the offset behind them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dueline.errors import CorruptRecord, NotFound
from dueline.message import SYS_COMMIT, SYS_TRANSACTION_MASK
from dueline.store import record as records
from dueline.store.consume_queue import UNIT_DTYPE, QueueUnits
from dueline.store.consume_queues import rows_by_queue
from dueline.store.core import Core
from dueline.store.gate import GateRows
from dueline.store.kernels import Int64s
from dueline.store.layout import QUEUE_OFFSET_AT, RECORD_SIZE_MIN
from dueline.store.scan import Damage

__all__ = ["Holes", "first_offset", "fit"]

_SIZE_MAX: Final = (1 << 31) - 1


class _Lost(NamedTuple):
    """What a damaged record says of itself."""

    position: int
    size: int
    store_ms: int
    offset: int


Lost = dict[int, dict[int, _Lost]]
"""Damaged records by their queue's number and by offset."""


class Holes:
    """Places the visible records of a damaged tail; used once, by recovery."""

    def __init__(self, core: Core, damage: Sequence[Damage]) -> None:
        self._core = core
        self._starts = np.array([each.start for each in damage], dtype=np.int64)
        self._ends = np.array([each.end for each in damage], dtype=np.int64)
        self._lost = _lost_units(core, damage)
        self._lost_count_max = int((self._ends - self._starts).sum()) // RECORD_SIZE_MIN

    def place(self, rows: GateRows, claims: Int64s, until_ms: int) -> GateRows:
        """Index the rows that are visible by `until_ms` in queues with a hole; returns the others.

        Args:
            rows: in log order; `claims` are the offsets that their records name.
        """
        order = np.argsort(rows.visible_ms, kind="stable")
        order = order[rows.visible_ms[order] <= until_ms]
        own_rows = {number: order[own] for number, own in rows_by_queue(rows.queue[order])}
        placed = np.zeros(len(rows), dtype=np.bool_)
        for number in sorted(own_rows.keys() | self._lost.keys()):
            own = own_rows.get(number, order[:0])
            first = self._core.queues.by_number(number).end
            offsets = self._offsets(number, first, rows.take(own), claims[own])
            end = self._shown_end(number, int(offsets[-1]) + 1 if len(own) else first)
            if end > first + len(own):
                self._append(number, rows.take(own), offsets, self._units(number, first, end))
                placed[own] = True
        return rows.take(np.flatnonzero(~placed))

    def _offsets(self, number: int, first: int, rows: GateRows, claims: Int64s) -> Int64s:
        """Offsets of a queue's sound rows, in order of visibility.

        Damaged records may tell which offsets are theirs. That counts unless the sound ones agree
        better without it: they may say the wrong queue as well.
        """
        plain = fit(first, claims, self._lost_count_max)
        lost = [each for each in self._lost.get(number, {}).values() if each.offset >= first]
        if not lost:
            return plain
        visible_ms = np.append(rows.visible_ms, [each.store_ms for each in lost])
        order = np.lexsort((np.append(rows.position, [each.position for each in lost]), visible_ms))
        together = np.append(claims, [each.offset for each in lost])
        fitted = np.empty(len(order), dtype=np.int64)
        fitted[order] = fit(first, together[order], self._lost_count_max)
        sound = fitted[: len(claims)]
        is_better = np.count_nonzero(sound == claims) >= np.count_nonzero(plain == claims)
        return sound if is_better else plain

    def _shown_end(self, number: int, end: int) -> int:
        """Where a queue ended when its process did, with damaged records behind the last sound."""
        while end in self._lost.get(number, {}):
            end += 1
        return end

    def _units(self, number: int, first: int, end: int) -> QueueUnits:
        """Units of holes: each points at its damaged record, if that is known; otherwise at the
        first damaged bytes."""
        units = np.zeros(end - first, dtype=UNIT_DTYPE)
        units["position"] = self._starts[0]
        units["size"] = min(int(self._ends[0] - self._starts[0]), _SIZE_MAX)
        for offset, record in self._lost.get(number, {}).items():
            if first <= offset < end:
                units["position"][offset - first] = record.position
                units["size"][offset - first] = record.size
        return units

    def _append(self, number: int, rows: GateRows, offsets: Int64s, units: QueueUnits) -> None:
        core = self._core
        at = offsets - core.queues.by_number(number).end
        units["position"][at] = rows.position
        units["size"][at] = rows.size
        units["tags_code"][at] = rows.tags_code
        with core.closing_on_failure():
            core.commit.scatter(
                rows.position + QUEUE_OFFSET_AT, offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
            )
            core.queues.append_to(number, units.tobytes())


def _lost_units(core: Core, damage: Sequence[Damage]) -> Lost:
    """What damaged records say of their place, where that can still be read."""
    lost: Lost = {}
    for each in damage:
        position = each.start
        while position < each.end:
            try:
                view = core.commit.read(position, each.end - position)
                record = records.decode_damaged(view, position=position)
            except (CorruptRecord, NotFound):
                break
            kind = record.sys_flag & SYS_TRANSACTION_MASK
            name = (record.topic.decode("ascii", "replace"), record.queue_id)
            if kind in (0, SYS_COMMIT) and core.queues.get(*name) is not None:
                found = _Lost(position, record.size_bytes, record.store_ms, record.queue_offset)
                lost.setdefault(core.queues.number_of(*name), {})[found.offset] = found
            position += record.size_bytes
    return lost


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


def first_offset(
    claims: Int64s, *, is_damaged: bool, saved: tuple[int, int] | None = None
) -> int | None:
    """Where rows that claim these offsets begin, if nothing else tells; None if they do not say.

    Without damage there are no holes, and most of the claims decide. Claims that are as many as
    others are believed if they agree with `saved`, the offsets that the queue had when its range
    was last written down: a queue with a single record has no neighbour to contradict it.

    >>> first_offset(np.array([7, 8, 1]), is_damaged=False)  # a flipped bit
    7
    >>> first_offset(np.array([1 << 41 | 3]), is_damaged=False, saved=(3, 4))
    3
    """
    firsts = (claims - np.arange(len(claims)))[claims >= 0]
    if not len(firsts):
        return None
    if is_damaged:
        return int(firsts[_longest_rising(firsts)[0]])
    found, counts = np.unique(firsts, return_counts=True)
    best = found[counts == counts.max()]
    if saved is None or counts.max() > 1:
        return int(best[0])
    start, end = saved
    by_count = max(start, end - len(claims))  # if all of them were there at that time
    likely = best[(best >= start) & (best <= end)]
    return by_count if by_count in likely or not len(likely) else int(likely[0])


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
