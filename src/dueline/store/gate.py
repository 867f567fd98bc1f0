"""The gate: records that are in the commit log but not yet due, waiting for their millisecond.

Deliveries arrive in batches that are sorted by the time at which they become visible. The gate
keeps each batch as arrays with a cursor; `open` takes everything that is visible by now, merged in
the order (visible time, log position), which is the order that recovery would find again in the
log alone.

Rows whose time has come are held back while a message of their queue that is due earlier has not
been carried over (`laggards.py`), and with them all that stands behind them in their queue. So what
a queue has shown is always the beginning of that order, whether something was held back or not.

Memory is bounded by the pipeline that carries messages ahead: the row count is part of the source's
admission.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from dueline.store.kernels import Int32s, Int64s

__all__ = ["Gate", "GateRows"]

HELD_LOOK_MS: Final = 10
"""So often it is looked at what is held back."""

_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRows:
    """Records of the commit log to be indexed at `visible_ms`; `origin` is -1 for ordinary ones.

    `due_ms` is earlier than `visible_ms` if a record came late.
    """

    visible_ms: Int64s
    due_ms: Int64s
    position: Int64s
    size: Int32s
    tags_code: Int64s
    queue: Int64s
    origin: Int64s

    def __len__(self) -> int:
        return len(self.visible_ms)

    def take(self, rows: slice | Int64s) -> GateRows:
        return GateRows(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def sorted(self) -> GateRows:
        """In order of visibility; the rows must be in log order already."""
        if len(self) and bool((np.diff(self.visible_ms) < 0).any()):
            return self.take(np.argsort(self.visible_ms, kind="stable"))
        return self

    @staticmethod
    def empty() -> GateRows:
        none = np.empty(0, dtype=np.int64)
        return GateRows(
            visible_ms=none,
            due_ms=none,
            position=none,
            size=none.astype(np.int32),
            tags_code=none,
            queue=none,
            origin=none,
        )

    @staticmethod
    def concat(parts: list[GateRows]) -> GateRows:
        if len(parts) == 1:
            return parts[0]
        return GateRows(
            **{
                field.name: np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(GateRows)
            }
        )


class Blocking(Protocol):
    """Who says which rows must wait for others; see `laggards.py`."""

    @property
    def version(self) -> int: ...

    def __len__(self) -> int: ...

    def blocks(self, rows: GateRows) -> npt.NDArray[np.bool_]: ...


class Gate:
    """Rows in waiting. Not thread-safe: its owner holds the store's lock."""

    def __init__(self) -> None:
        self._batches: list[
            GateRows
        ] = []  # each sorted by visible_ms, in log order of their batches
        self._held: list[GateRows] = []  # their time has come
        self._held_version = -1  # of what blocks them
        self._batch_next_ms = _NEVER
        self.next_ms: int | None = None
        self.row_count = 0

    def add(self, rows: GateRows) -> None:
        """Let rows wait; they stand behind all earlier ones in the log."""
        if not len(rows):
            return
        rows = rows.sorted()
        self._batches.append(rows)
        self.row_count += len(rows)
        first = int(rows.visible_ms[0])
        self.next_ms = first if self.next_ms is None else min(self.next_ms, first)
        self._batch_next_ms = min(self._batch_next_ms, first)

    def open(self, until_ms: int, blocking: Blocking | None = None) -> GateRows | None:
        """Take all rows visible at or before `until_ms` that are not held back, in order; None if
        there are none."""
        is_held_news = blocking is None or blocking.version != self._held_version
        if self._batch_next_ms > until_ms and not (self._held and is_held_news):
            return None
        fresh, kept = [], []
        for batch in self._batches:
            count = int(np.searchsorted(batch.visible_ms, until_ms, side="right"))
            if count:
                fresh.append(batch.take(slice(0, count)))
            if count < len(batch):
                kept.append(batch.take(slice(count, None)) if count else batch)
        self._batches = kept
        if self._held or (blocking is not None and len(blocking)):
            opened = self._sift(fresh, until_ms, blocking)
        else:
            opened = _in_order(fresh)
        self._count(until_ms)
        return opened

    def _sift(
        self, fresh: list[GateRows], until_ms: int, blocking: Blocking | None
    ) -> GateRows | None:
        """Hold back what is blocked, and what stands behind it in its queue."""
        is_news = blocking is None or blocking.version != self._held_version
        behind = np.unique(np.concatenate([held.queue for held in self._held] or [_NONE]))
        if is_news:
            fresh, self._held = [*self._held, *fresh], []
        rows = _in_order(fresh)
        if rows is None:
            return None
        blocked = rows.visible_ms > until_ms
        if blocking is not None:
            self._held_version = -1 if bool(blocked.any()) else blocking.version
            blocked |= blocking.blocks(rows)
        if not is_news:
            blocked |= np.isin(rows.queue, behind)
        blocked = _and_behind(blocked, rows.queue)
        if bool(blocked.any()):
            self._held.append(rows.take(np.flatnonzero(blocked)))
            rows = rows.take(np.flatnonzero(~blocked))
        return rows if len(rows) else None

    def release(self, queues: list[int], until_ms: int) -> GateRows | None:
        """Take what is held back in these queues: something that is visible now goes there."""
        if not self._held:
            return None
        rows = _in_order(self._held)
        assert rows is not None
        free = np.isin(rows.queue, queues) & (rows.visible_ms <= until_ms)
        self._held = [rows.take(np.flatnonzero(~free))] if not bool(free.all()) else []
        self._count(until_ms)
        return rows.take(np.flatnonzero(free)) if bool(free.any()) else None

    @property
    def held_queues(self) -> set[int]:
        """The queues in which something is held back."""
        return {number for held in self._held for number in np.unique(held.queue).tolist()}

    def rows(self) -> GateRows:
        """Every delayed message that waits here, in no order; the arrays are never changed."""
        batches = self._all()
        rows = GateRows.concat(batches) if batches else GateRows.empty()
        return rows.take(np.flatnonzero(rows.origin >= 0))

    def holds(self, origin: int) -> bool:
        return any(bool((batch.origin == origin).any()) for batch in self._all())

    def holds_each(self, origins: Int64s) -> npt.NDArray[np.bool_]:
        """Which of these origins wait here?"""
        found = np.zeros(len(origins), dtype=np.bool_)
        for batch in self._all():
            found |= np.isin(origins, batch.origin)
        return found

    def holds_any(self, first: int, end: int) -> bool:
        """Does anything with an origin in [first, end) wait here?"""
        return any(
            bool(((batch.origin >= first) & (batch.origin < end)).any()) for batch in self._all()
        )

    def remove(self, origins: Int64s) -> None:
        """Forget rows of cancelled origins."""
        self._batches = _without(self._batches, origins)
        self._held = _without(self._held, origins)
        self._count(0)

    def set_due(self, origins: Int64s, due_ms: Int64s) -> None:
        """Let rows of these origins, sorted, be due at these times; their visibility stays."""
        if len(origins):
            self._batches = [_due_at(batch, origins, due_ms) for batch in self._batches]
            self._held = [_due_at(batch, origins, due_ms) for batch in self._held]

    def position_min(self) -> int | None:
        """The lowest log position in waiting: recovery must read from there."""
        return min((int(batch.position.min()) for batch in self._all()), default=None)

    def positions_until(self, until_ms: int) -> list[int]:
        """Where the rows stand that were to be visible by then and still wait."""
        return [
            position
            for batch in self._all()
            for position in batch.position[batch.visible_ms <= until_ms].tolist()
        ]

    def _all(self) -> list[GateRows]:
        return [*self._batches, *self._held]

    def _count(self, now_ms: int) -> None:
        """Know how much is there and when to open next."""
        self.row_count = sum(len(batch) for batch in self._all())
        times = [int(batch.visible_ms[0]) for batch in self._batches]
        self._batch_next_ms = min(times, default=_NEVER)
        if self._held:
            times.append(now_ms + HELD_LOOK_MS)
        self.next_ms = min(times, default=None)


_NONE: Final = np.empty(0, dtype=np.int64)


def _in_order(parts: list[GateRows]) -> GateRows | None:
    """All rows by (visible time, log position); None if there are none."""
    if not parts:
        return None
    rows = GateRows.concat(parts)
    if len(parts) > 1:
        rows = rows.take(np.lexsort((rows.position, rows.visible_ms)))
    return rows


def _and_behind(blocked: npt.NDArray[np.bool_], queues: Int64s) -> npt.NDArray[np.bool_]:
    """Also the rows behind a blocked one of the same queue."""
    if not bool(blocked.any()):
        return blocked
    numbers, inverse = np.unique(queues, return_inverse=True)
    first = np.full(len(numbers), len(queues), dtype=np.int64)
    rows = np.flatnonzero(blocked)
    np.minimum.at(first, inverse[rows], rows)
    return np.arange(len(queues)) >= first[inverse]


def _due_at(batch: GateRows, origins: Int64s, due_ms: Int64s) -> GateRows:
    at = np.minimum(np.searchsorted(origins, batch.origin), len(origins) - 1)
    known = origins[at] == batch.origin
    return replace(batch, due_ms=np.where(known, due_ms[at], batch.due_ms))


def _without(batches: list[GateRows], origins: Int64s) -> list[GateRows]:
    kept = []
    for batch in batches:
        stay = ~np.isin(batch.origin, origins)
        if bool(stay.all()):
            kept.append(batch)
        elif bool(stay.any()):
            kept.append(batch.take(np.flatnonzero(stay)))
    return kept
