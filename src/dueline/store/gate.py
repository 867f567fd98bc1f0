"""The gate: records that are in the commit log but not yet due, waiting for their millisecond.

Deliveries arrive in batches that are sorted by the time at which they become visible. The gate
keeps each batch as arrays with a cursor; `open` takes everything that is visible by now, merged in
the order (visible time, log position), which is the order that recovery would find again in the
log alone.

Memory is bounded by whoever carries messages ahead: the row count is part of the source's
admission.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from dueline.store.kernels import Int32s, Int64s

__all__ = ["Gate", "GateRows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRows:
    """Records of the commit log to be indexed at `visible_ms`; `origin` is -1 for ordinary ones."""

    visible_ms: Int64s
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


class Gate:
    """Rows in waiting. Not thread-safe: its owner holds the store's lock."""

    def __init__(self) -> None:
        self._batches: list[
            GateRows
        ] = []  # each sorted by visible_ms, in log order of their batches
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

    def open(self, until_ms: int) -> GateRows | None:
        """Take all rows visible at or before `until_ms`, in order; None if there are none."""
        if self.next_ms is None or self.next_ms > until_ms:
            return None
        opened, kept = [], []
        for batch in self._batches:
            count = int(np.searchsorted(batch.visible_ms, until_ms, side="right"))
            if count:
                opened.append(batch.take(slice(0, count)))
            if count < len(batch):
                kept.append(batch.take(slice(count, None)) if count else batch)
        self._set(kept)
        rows = GateRows.concat(opened)
        if len(opened) > 1:
            order = np.lexsort((rows.position, rows.visible_ms))
            rows = rows.take(order)
        return rows

    def holds(self, origin: int) -> bool:
        return any(bool((batch.origin == origin).any()) for batch in self._batches)

    def holds_any(self, first: int, end: int) -> bool:
        """Does anything with an origin in [first, end) wait here?"""
        return any(
            bool(((batch.origin >= first) & (batch.origin < end)).any()) for batch in self._batches
        )

    def remove(self, origins: Int64s) -> None:
        """Forget rows of cancelled origins."""
        kept = []
        for batch in self._batches:
            stay = ~np.isin(batch.origin, origins)
            if bool(stay.all()):
                kept.append(batch)
            elif bool(stay.any()):
                kept.append(batch.take(np.flatnonzero(stay)))
        self._set(kept)

    def position_min(self) -> int | None:
        """The lowest log position in waiting: recovery must read from there."""
        return min((int(batch.position.min()) for batch in self._batches), default=None)

    def positions_until(self, until_ms: int) -> list[int]:
        """Where the rows stand that were to be visible by then and still wait."""
        return [
            position
            for batch in self._batches
            for position in batch.position[batch.visible_ms <= until_ms].tolist()
        ]

    def _set(self, batches: list[GateRows]) -> None:
        self._batches = batches
        self.row_count = sum(len(batch) for batch in batches)
        self.next_ms = min((int(batch.visible_ms[0]) for batch in batches), default=None)
