"""Runs: arrays of the timeline's units, one per delayed message.

    due_ms  seq (from the run's first)  position  size  topic  queue_id

A unit says when a message is due, which one it is, where its record stands in the delay log, and
for which topic and queue it is meant, so that counting and planning never read a record. The *open
run* collects units in acceptance order, in memory. Sealed, it becomes a sorted *run*: a mapped
file in order of (due time, acceptance), with each column in as few bytes as its numbers need. A run
covers the acceptance numbers [first, end) and the log positions [position_start, position_end);
units that are done may be missing from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from dueline.store.columns import Array, Column, ColumnFile, narrow, write_columns
from dueline.store.corner import Corner, Key
from dueline.store.files import Files
from dueline.store.kernels import Int32s, Int64s
from dueline.store.states import PENDING, States
from dueline.store.thresholds import USUAL

if TYPE_CHECKING:
    from dueline.store.held import Held

__all__ = ["OpenRun", "Run", "RunRange", "Units", "write_run"]

_NO_NUMBERS: Final = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Rows of the timeline; `topic` is a number of the timeline's topic list."""

    due_ms: Int64s
    seq: Int64s
    position: Int64s
    size: Int32s
    topic: Int32s
    queue_id: Int32s

    def __len__(self) -> int:
        return len(self.due_ms)

    def take(self, rows: Any) -> Units:
        return Units(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    @staticmethod
    def concat(parts: list[Units]) -> Units:
        if len(parts) == 1:
            return parts[0]
        return Units(
            **{
                field.name: np.concatenate([getattr(part, field.name) for part in parts])
                for field in fields(Units)
            }
        )

    @staticmethod
    def empty() -> Units:
        return Units(
            due_ms=np.empty(0, np.int64),
            seq=np.empty(0, np.int64),
            position=np.empty(0, np.int64),
            size=np.empty(0, np.int32),
            topic=np.empty(0, np.int32),
            queue_id=np.empty(0, np.int32),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRange:
    """What a run covers, half-open both ways."""

    first: int
    end: int
    position_start: int
    position_end: int


class OpenRun:
    """Units in acceptance order, in memory, in arrays that double when they are full."""

    def __init__(self, first: int, position_start: int) -> None:
        self.first: Final = first
        self.end = first
        self.position_start: Final = position_start
        self.position_end = position_start
        self._arrays = {field.name: getattr(Units.empty(), field.name) for field in fields(Units)}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def append(self, units: Units, *, end: int, position_end: int) -> None:
        """Add units with numbers below `end`, from records before `position_end`."""
        count = self._count + len(units)
        for name, array in self._arrays.items():
            if count > len(array):
                grown = np.empty(max(count, 2 * len(array), 1024), dtype=array.dtype)
                grown[: self._count] = array[: self._count]
                self._arrays[name] = array = grown
            array[self._count : count] = getattr(units, name)
        self._count = count
        self.end = max(self.end, end)
        self.position_end = max(self.position_end, position_end)

    @property
    def range(self) -> RunRange:
        return RunRange(
            first=self.first,
            end=self.end,
            position_start=self.position_start,
            position_end=self.position_end,
        )

    def units(self) -> Units:
        return Units(**{name: array[: self._count] for name, array in self._arrays.items()})

    def pending(self, states: States) -> Units:
        units = self.units()
        return units.take(np.flatnonzero(states.of(units.seq) == PENDING))

    def inside(
        self, corner: Corner, states: States, held: Held, *, after: Key | None, limit: int
    ) -> Units:
        """Pending units inside the corner and after a key that are not held, in due order, the
        first `limit`."""
        units = self.units()
        rows = np.flatnonzero(units.due_ms <= corner.due_ms)
        if after is not None:
            rows = rows[units.due_ms[rows] >= after[0]]
        rows = rows[states.of(units.seq[rows]) == PENDING]
        units = held.left(units.take(rows))
        units = units.take(np.argsort(units.due_ms, kind="stable"))
        return _bounded(units, corner, after).take(slice(0, limit))

    def find(self, seqs: Int64s) -> Units:
        """The units of numbers, whatever their state."""
        units = self.units()
        return units.take(np.flatnonzero(np.isin(units.seq, seqs)))

    def between(self, after_ms: int, until_ms: int, states: States) -> Units:
        """Pending units that are due in (after_ms, until_ms]."""
        units = self.units()
        rows = np.flatnonzero((units.due_ms > after_ms) & (units.due_ms <= until_ms))
        return units.take(rows[states.of(units.seq[rows]) == PENDING])

    def next_due_ms(self, states: States, held: Held, without: Int64s = _NO_NUMBERS) -> int | None:
        """When the next pending unit is due that is not held and has none of these numbers."""
        pending = held.left(self.pending(states))
        if len(without):
            pending = pending.take(np.flatnonzero(~np.isin(pending.seq, without)))
        return int(pending.due_ms.min()) if len(pending) else None

    def due_count(self, until_ms: int, states: States, held: Held) -> int:
        """How many pending units that are not held are due by `until_ms`."""
        return int(np.count_nonzero(held.left(self.pending(states)).due_ms <= until_ms))

    def scan(self, states: States) -> Iterator[Units]:
        yield self.pending(states)

    def close(self) -> None:
        """Nothing is open; here so that both kinds of run can be closed alike."""


class Run:
    """A sealed run: mapped, sorted, never changed."""

    def __init__(
        self, files: Files, path: Path, topics: TopicList, scan_rows: int = USUAL.scan_run_rows
    ) -> None:
        self._file = ColumnFile(files, path)
        self._scan_rows = scan_rows
        self.path: Final = path
        meta = self._file.meta
        self.range: Final = RunRange(**meta["range"])
        self.topic_numbers: Final[Int32s] = np.array(
            [topics.number_of(name) for name in meta["topics"]] or [0], dtype=np.int32
        )
        self._due = self._file.column("due_ms")
        self._seq: npt.NDArray[np.uint32] = self._file["seq"]
        self._cursor = 0
        self._held_cursor = 0
        self._held_version = -1

    def __len__(self) -> int:
        return len(self._due)

    def columns(self) -> dict[str, Column]:
        """The mapped columns as they are in the file; readable also after `close`."""
        return {field.name: self._file.column(field.name) for field in fields(Units)}

    def _take(self, rows: Any) -> Units:
        return Units(
            due_ms=self._due.take(rows),
            seq=self._seq[rows].astype(np.int64) + self.range.first,
            position=self._file.column("position").take(rows),
            size=self._file.column("size").take(rows).astype(np.int32),
            topic=self.topic_numbers[self._file.column("topic").take(rows)],
            queue_id=self._file.column("queue_id").take(rows).astype(np.int32),
        )

    def _advance(self, states: States) -> None:
        """Move the cursor past rows that are done for good."""
        count = len(self._due)
        while self._cursor < count:
            seq = self._seq[self._cursor : self._cursor + self._scan_rows].astype(np.int64)
            pending = np.flatnonzero(states.of(seq + self.range.first) == PENDING)
            if len(pending):
                self._cursor += int(pending[0])
                return
            self._cursor += len(seq)

    def _first(self, states: States, held: Held) -> int:
        """The first row that may be neither done nor held."""
        self._advance(states)
        if not held:
            return self._cursor
        if self._held_version != held.version:
            self._held_version, self._held_cursor = held.version, 0
        self._held_cursor = max(self._held_cursor, self._cursor)
        step = 16 * self._scan_rows
        while self._held_cursor < len(self._due):
            rows = slice(self._held_cursor, self._held_cursor + step)
            units = self._take(rows)
            free = np.flatnonzero((states.of(units.seq) == PENDING) & held.allows(units))
            if len(free):
                self._held_cursor += int(free[0])
                break
            self._held_cursor += len(units)
        return self._held_cursor

    def inside(
        self, corner: Corner, states: States, held: Held, *, after: Key | None, limit: int
    ) -> Units:
        """Pending units inside the corner and after a key that are not held, in due order, the
        first `limit`."""
        start = self._first(states, held)
        if after is not None:
            start = max(start, self._due.rank(after[0]))
        stop = self._due.rank(corner.due_ms, "right")
        parts: list[Units] = []
        found = 0
        step = max(limit, self._scan_rows) if limit < stop - start else max(stop - start, 1)
        while start < stop and found < limit:
            seq = self._seq[start : min(start + step, stop)].astype(np.int64) + self.range.first
            rows = start + np.flatnonzero(states.of(seq) == PENDING)
            part = _bounded(held.left(self._take(_slice_of(rows))), corner, after)
            parts.append(part.take(slice(0, limit - found)))
            found += len(parts[-1])
            start += len(seq)
        return Units.concat(parts) if parts else Units.empty()

    def between(self, after_ms: int, until_ms: int, states: States) -> Units:
        """Pending units that are due in (after_ms, until_ms]."""
        self._advance(states)
        start = max(self._cursor, self._due.rank(after_ms, "right"))
        stop = self._due.rank(until_ms, "right")
        seq = self._seq[start : max(stop, start)].astype(np.int64) + self.range.first
        return self._take(_slice_of(start + np.flatnonzero(states.of(seq) == PENDING)))

    def find(self, seqs: Int64s) -> Units:
        """The units of numbers that are here, whatever their state."""
        flags = np.zeros(self.range.end - self.range.first, dtype=np.bool_)
        flags[seqs[(seqs >= self.range.first) & (seqs < self.range.end)] - self.range.first] = True
        return self._take(np.flatnonzero(flags[self._seq]))

    def next_due_ms(self, states: States, held: Held) -> int | None:
        first = self._first(states, held)
        return self._due.at(first) if first < len(self._due) else None

    def due_count(self, until_ms: int, states: States, held: Held) -> int:
        """How many pending units that are not held are due by `until_ms`."""
        first = self._first(states, held)
        stop = self._due.rank(until_ms, "right")
        rows = slice(first, max(stop, first))
        if stop == len(self._due) and not held:
            # All are due: those of its numbers that are pending are here.
            return states.pending_count(self.range.first, self.range.end)
        if held:
            units = held.left(self._take(rows))
            return int(np.count_nonzero(states.of(units.seq) == PENDING))
        seqs = self._seq[rows].astype(np.int64)
        return int(np.count_nonzero(states.of(seqs + self.range.first) == PENDING))

    def scan(self, states: States) -> Iterator[Units]:
        """All pending units, a bounded part at a time; the pages are given back at the end."""
        step = 1 << 18
        for start in range(0, len(self._due), step):
            seq = self._seq[start : start + step].astype(np.int64) + self.range.first
            rows = start + np.flatnonzero(states.of(seq) == PENDING)
            if len(rows):
                yield self._take(_slice_of(rows))
        self._file.forget_pages()

    def close(self) -> None:
        self._file.close()


def write_run(files: Files, path: Path, units: Units, covered: RunRange, topics: TopicList) -> None:
    """Write sorted units as a run file; topics are kept by name, since numbers are not durable."""
    used, local = np.unique(units.topic, return_inverse=True)
    columns: list[tuple[str, Callable[[], Array | Column]]] = [
        ("due_ms", lambda: narrow(units.due_ms)),
        ("seq", lambda: (units.seq - covered.first).astype("<u4")),
        ("position", lambda: narrow(units.position)),
        ("size", lambda: narrow(units.size)),
        ("topic", lambda: narrow(local)),
        ("queue_id", lambda: narrow(units.queue_id)),
    ]
    meta = {
        "range": {field.name: getattr(covered, field.name) for field in fields(RunRange)},
        "topics": [topics.names[number] for number in used.tolist()],
    }
    write_columns(files, path, columns, meta)


class TopicList:
    """Topic names by small numbers, for this process only."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}

    def number_of(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
        return number


def _bounded(units: Units, corner: Corner, after: Key | None) -> Units:
    """Drop units at the edges: beyond the horizon's key, accepted too late, or not after a key."""
    keep = units.seq < corner.end
    if len(units) and int(units.due_ms[-1]) == corner.due_ms:
        keep &= (units.due_ms < corner.due_ms) | (units.seq <= corner.seq)
    if after is not None and len(units) and int(units.due_ms[0]) <= after[0]:
        keep &= (units.due_ms > after[0]) | ((units.due_ms == after[0]) & (units.seq > after[1]))
    return units if bool(keep.all()) else units.take(np.flatnonzero(keep))


def _slice_of(rows: Int64s) -> slice | Int64s:
    """A slice where the rows are neighbours: slicing a mapped array copies nothing."""
    if len(rows) and int(rows[-1]) - int(rows[0]) + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows
