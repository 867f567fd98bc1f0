"""What waits at one moment, to be looked through without the store's lock.

A survey is taken in a few milliseconds, also of ten million messages: the states are copied, the
runs' mapped arrays are only referred to (they are never changed, and stay readable when a merge has
replaced their files), and so are the gate's. It then costs the store nothing, however long somebody
looks through it; what has changed since is decided where something is done (`numbers.py`).

    slabs        all that waits, or a range of it, in due order and in bounded parts
    dues         the due times and topics of all that waits, in no order: for those who only count
    find         the rows of some acceptance numbers
    records      the records of rows, from the log that each stands in

A message waits while it is pending in the timeline, and also while it stands at the gate: carried
over, and not visible yet. Rows of the gate have the topic and queue that they go to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dueline.store.columns import Column
from dueline.store.core import Core
from dueline.store.corner import SEQ_MAX, Key
from dueline.store.gate import GateRows
from dueline.store.kernels import Int64s
from dueline.store.run import Run, Units
from dueline.store.states import PENDING, States

__all__ = ["Dues", "Survey", "Waiting"]

SLAB_ROWS: Final = 1 << 17

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Rows of what waits, in due order; `position` is the commit log's where `is_at_gate`."""

    units: Units
    is_at_gate: Flags

    def __len__(self) -> int:
        return len(self.units)

    def take(self, rows: Any) -> Waiting:
        return Waiting(units=self.units.take(rows), is_at_gate=self.is_at_gate[rows])

    def key_at(self, row: int) -> Key:
        return int(self.units.due_ms[row]), int(self.units.seq[row])

    @staticmethod
    def joined(parts: list[Waiting]) -> Waiting:
        """In no order: for those who only count."""
        if len(parts) == 1:
            return parts[0]
        return Waiting(
            units=Units.concat([part.units for part in parts]) if parts else Units.empty(),
            is_at_gate=np.concatenate(
                [np.empty(0, np.bool_), *(part.is_at_gate for part in parts)]
            ),
        )

    @staticmethod
    def concat(parts: list[Waiting]) -> Waiting:
        """In due order."""
        if len(parts) == 1:
            return parts[0]
        rows = Waiting.joined(parts)
        return rows.take(np.lexsort((rows.units.seq, rows.units.due_ms)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dues:
    """Due times and topic numbers of rows that wait."""

    due_ms: Int64s
    topic: npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Source:
    """Sorted rows of one run, of the open run, or of the gate; numbers count from `first`."""

    units: dict[str, Column]
    first: int
    end: int
    topic_numbers: npt.NDArray[np.int32] | None = None
    is_gate: bool = False

    def __len__(self) -> int:
        return len(self.due_ms)

    @property
    def due_ms(self) -> Column:
        return self.units["due_ms"]

    def key_at(self, row: int) -> Key:
        return self.due_ms.at(row), self.units["seq"].at(row) + self.first

    def behind(self, key: Key) -> int:
        """The first row with a greater key."""
        due_ms, seq = key
        low = self.due_ms.rank(due_ms)
        if seq < self.first:
            return low
        same = self.units["seq"].take(slice(low, self.due_ms.rank(due_ms, "right")))
        return low + Column(same).rank(seq - self.first, "right")

    def topic(self, chosen: slice | Int64s) -> npt.NDArray[np.int32]:
        topic = self.units["topic"].take(chosen)
        return topic.astype(np.int32) if self.topic_numbers is None else self.topic_numbers[topic]

    def rows(self, chosen: slice | Int64s) -> Waiting:
        topic = self.topic(chosen)
        return Waiting(
            units=Units(
                due_ms=self.due_ms.take(chosen),
                seq=self.units["seq"].take(chosen) + self.first,
                position=self.units["position"].take(chosen),
                size=self.units["size"].take(chosen).astype(np.int32),
                topic=topic,
                queue_id=self.units["queue_id"].take(chosen).astype(np.int32),
            ),
            is_at_gate=np.full(len(topic), self.is_gate, dtype=np.bool_),
        )


class Survey:
    """A store's waiting messages as they were when it was taken; any thread may read."""

    def __init__(self, core: Core) -> None:
        """Take it; holds the store's lock for a moment."""
        self._core: Final = core
        with core.lock:
            timeline = core.timeline
            self.taken_ms: Final = core.clock.now_ms()
            self.end: Final = timeline.end
            self._states: Final[States] = timeline.states.copy()
            sources = [_of_run(run) for run in timeline.runs]
            aside = [timeline.sealing] if timeline.sealing is not None else []
            opened = [_copied(run.units()) for run in (*aside, timeline.open)]
            gate = core.gate.rows()
            queues = {
                number: core.queues.by_number(number).name
                for number in np.unique(gate.queue).tolist()
            }
            numbers = {
                number: timeline.topics.number_of(name[0]) for number, name in queues.items()
            }
            self.topic_names: Final = list(timeline.topics.names)
        self._sources: Final = [
            *sources,
            *(_of_units(units) for units in opened if len(units)),
            *([_of_gate(gate, queues, numbers)] if len(gate) else []),
        ]

    def count(self) -> int:
        """How many messages wait."""
        gate = sum(len(source) for source in self._sources if source.is_gate)
        return self._states.pending_count(self._states.base, self._states.end) + gate

    def wanted(self, topic: str) -> Flags:
        """By topic number, whether it is this topic."""
        return np.array([name == topic for name in self.topic_names] or [False])

    def pending_by_topic(self) -> dict[str, int]:
        """How many wait for each topic, without those at the gate."""
        totals = np.zeros(len(self.topic_names), dtype=np.int64)
        for dues in self.dues(with_gate=False):
            totals += np.bincount(dues.topic, minlength=len(totals))
        counts = zip(self.topic_names, totals.tolist(), strict=True)
        return {name: count for name, count in counts if count}

    def pending_by_bucket(
        self, bucket_ms: int, topic: str | None = None, *, with_gate: bool = False
    ) -> dict[int, int]:
        """How many are due in each bucket [start, start + bucket_ms) that has any."""
        found: Counter[int] = Counter()
        topics = None if topic is None else self.wanted(topic)
        for dues in self.dues(topics=topics, with_gate=with_gate):
            buckets, counts = np.unique(dues.due_ms // bucket_ms, return_counts=True)
            found.update(dict(zip((buckets * bucket_ms).tolist(), counts.tolist(), strict=True)))
        return dict(sorted(found.items()))

    def at_gate_count(self, topics: Flags | None = None) -> int:
        """How many of what waits stand at the gate."""
        return sum(
            len(source.topic(self._chosen(source, 0, len(source), topics)))
            for source in self._sources
            if source.is_gate
        )

    def dues(
        self,
        *,
        start_ms: int = 0,
        end_ms: int = SEQ_MAX,
        topics: Flags | None = None,
        with_gate: bool = True,
    ) -> Iterator[Dues]:
        """When what is due in [start_ms, end_ms) is due, in bounded parts; each is sorted.

        Args:
            topics: by topic number, whether it is wanted.
            with_gate: also what stands at the gate.
        """
        for source in self._sources:
            if source.is_gate and not with_gate:
                continue
            first, end = source.due_ms.rank(start_ms), source.due_ms.rank(end_ms)
            for row in range(first, end, SLAB_ROWS):
                rows = self._chosen(source, row, min(row + SLAB_ROWS, end), topics)
                topic = source.topic(rows)
                if len(topic):
                    yield Dues(due_ms=source.due_ms.take(rows), topic=topic)

    def slabs(  # noqa: PLR0913 - a range and its limits, all keyword-only
        self,
        *,
        after: Key | None = None,
        start_ms: int = 0,
        end_ms: int = SEQ_MAX,
        topics: npt.NDArray[np.bool_] | None = None,
        step: int = SLAB_ROWS,
        is_sorted: bool = True,
    ) -> Iterator[tuple[Waiting, Key]]:
        """Rows that are due in [start_ms, end_ms) behind a key, and up to which key they reach.

        Args:
            topics: by topic number, whether it is wanted.
            step: about so many rows are looked at for each slab; it may hold none of them.
            is_sorted: whether the rows of a slab are to be in due order.
        """
        key = max(after or (-1, -1), (start_ms - 1, SEQ_MAX))
        at = [source.behind(key) for source in self._sources]
        ends = [source.due_ms.rank(end_ms) for source in self._sources]
        while True:
            edges = [
                source.key_at(min(row + step, end) - 1)
                for source, row, end in zip(self._sources, at, ends, strict=True)
                if row < end
            ]
            if not edges:
                return
            edge = min(edges)
            parts = []
            for number, source in enumerate(self._sources):
                row, end = at[number], ends[number]
                if row >= end:
                    continue
                at[number] = stop = min(source.behind(edge), end)
                part = source.rows(self._chosen(source, row, stop, topics))
                if len(part):
                    parts.append(part)
            yield (Waiting.concat if is_sorted else Waiting.joined)(parts), edge

    def _chosen(self, source: _Source, row: int, stop: int, topics: Flags | None) -> slice | Int64s:
        """The rows in [row, stop) that wait, of the wanted topics."""
        rows: slice | Int64s = slice(row, stop)
        if not source.is_gate:
            seq = source.units["seq"].take(rows) + source.first
            pending = self._states.of(seq) == PENDING
            if not bool(pending.all()):
                rows = row + np.flatnonzero(pending)
        if topics is not None:
            wanted = np.flatnonzero(topics[source.topic(rows)])
            rows = row + wanted if isinstance(rows, slice) else rows[wanted]
        return rows

    def find(self, seqs: Int64s) -> Waiting:
        """The rows of numbers, those that wait and are known; in due order."""
        parts = []
        for source in self._sources:
            own = seqs[(seqs >= source.first) & (seqs < source.end)] if not source.is_gate else seqs
            if not len(own):
                continue
            if source.is_gate:
                rows = np.flatnonzero(np.isin(source.units["seq"].stored, own))
            else:
                flags = np.zeros(source.end - source.first, dtype=np.bool_)
                flags[own[self._states.of(own) == PENDING] - source.first] = True
                rows = np.flatnonzero(flags[source.units["seq"].stored])
            parts.append(source.rows(rows))
        return Waiting.concat(parts)

    def records(self, rows: Waiting) -> pa.BinaryArray:
        """The records of rows, in their order; one that has gone meanwhile is empty."""
        units, at_gate = rows.units, rows.is_at_gate
        if not bool(at_gate.any()):
            return self._core.delay.gather(units.position, units.size)
        parts, order = [], []
        for log, chosen in (
            (self._core.delay, np.flatnonzero(~at_gate)),
            (self._core.commit, np.flatnonzero(at_gate)),
        ):
            if len(chosen):
                parts.append(log.gather(units.position[chosen], units.size[chosen]))
                order.append(chosen)
        together = pa.concat_arrays([part.cast(pa.large_binary()) for part in parts])
        back = np.argsort(np.concatenate(order), kind="stable")
        return together.take(pa.array(back)).cast(pa.binary())


def _copied(units: Units) -> Units:
    return Units(**{each.name: getattr(units, each.name).copy() for each in fields(units)})


def _of_run(run: Run) -> _Source:
    return _Source(
        units=run.columns(),
        first=run.range.first,
        end=run.range.end,
        topic_numbers=run.topic_numbers,
    )


def _of_units(units: Units) -> _Source:
    """Of the open run; its rows are in acceptance order."""
    units = units.take(np.argsort(units.due_ms, kind="stable"))
    first, last = int(units.seq.min()), int(units.seq.max())
    return _Source(
        units={
            "due_ms": Column(units.due_ms),
            "seq": Column((units.seq - first).astype(np.uint32)),
            "position": Column(units.position),
            "size": Column(units.size),
            "topic": Column(units.topic),
            "queue_id": Column(units.queue_id),
        },
        first=first,
        end=last + 1,
    )


def _of_gate(
    gate: GateRows, queues: dict[int, tuple[str, int]], numbers: dict[int, int]
) -> _Source:
    gate = gate.take(np.lexsort((gate.origin, gate.due_ms)))
    distinct, inverse = np.unique(gate.queue, return_inverse=True)
    topics = np.array([numbers[number] for number in distinct.tolist()], dtype=np.int32)
    queue_ids = np.array([queues[number][1] for number in distinct.tolist()], dtype=np.int32)
    return _Source(
        units={
            "due_ms": Column(gate.due_ms),
            "seq": Column(gate.origin),
            "position": Column(gate.position),
            "size": Column(gate.size),
            "topic": Column(topics[inverse]),
            "queue_id": Column(queue_ids[inverse]),
        },
        first=0,
        end=SEQ_MAX,
        is_gate=True,
    )
