"""What a tracer wants to know: messages that carry a trace, when they became visible, who got them.

A producer with OpenTelemetry sends the property `traceparent` along (W3C Trace Context):

    00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01      01: this trace is recorded

Nothing is done for it when a message is sent or shown. An exporter of traces asks `read` now and
then, which goes through what has become visible since, as columns; from the first `read` on, those
that are handed out are noted too. Until somebody asks, all this costs nothing.

Bounds: a call looks at `LOOK_BYTES_MAX` of records and tells of `COUNT_MAX` messages; hand-outs are
noted up to `HANDED_COUNT_MAX`, then the oldest are forgotten and counted. `read` is for one asker:
what it was told is not told again. Any thread may call.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow.compute as pc

from dueline.message import decode_properties
from dueline.schedule import DUE_NAME
from dueline.store import Observer, ReadResult, Record, Store
from dueline.store import record as records
from dueline.store.record_columns import RecordColumns

__all__ = ["Handed", "Traced", "Traces", "TracesRead"]

LOOK_BYTES_MAX: Final = 16 << 20
LOOK_ROWS_MAX: Final = 16_384
COUNT_MAX: Final = 512
HANDED_COUNT_MAX: Final = 10_000
TEXT_SIZE_MAX: Final = 1 << 15
"""Properties are the end of a record, and no longer than this."""

PARENT_NAME: Final = "traceparent"
STATE_NAME: Final = "tracestate"
_MARK: Final = PARENT_NAME.encode() + b"\x01"
_SAMPLED: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf](-.*)?")

Queue = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """A message with a trace that became visible; times that are not known are None."""

    topic: str
    queue_id: int
    queue_offset: int
    unique_id: str
    traceparent: str
    tracestate: str
    size_bytes: int
    sent_ms: int
    visible_ms: int
    accepted_ms: int | None = None
    due_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handed:
    """Such a message was handed to a client of a group; `attempt` counts from 1."""

    message: Traced
    group: str
    attempt: int
    handed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TracesRead:
    """`has_more`: ask again at once. `lost_count`: hand-outs that were forgotten meanwhile."""

    messages: list[Traced]
    handed: list[Handed]
    lost_count: int
    has_more: bool


class Traces(Observer):
    """The traced messages of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._grown: set[Queue] = set()
        self._offsets: dict[Queue, int] = {}
        self._handed: deque[Handed] = deque()
        self._lost_count = 0
        self.is_on = False
        """Has somebody asked?"""

    # Told by the store and by those who hand out

    def grown(self, queues: list[Queue]) -> None:
        self._grown.update(queues)

    def pulled(self, group: str, result: ReadResult) -> None:
        """These records were read for a group."""
        for view in result.records:
            if _MARK in bytes(view[-TEXT_SIZE_MAX:]):
                record = records.decode_checked(view)
                self._hand(group, record, decode_properties(record.properties), attempt=1)

    def received(
        self, group: str, messages: Iterable[tuple[Record, Mapping[str, str], int]]
    ) -> None:
        """These messages were received: (record, properties, attempt)."""
        for record, properties, attempt in messages:
            if PARENT_NAME in properties:
                self._hand(group, record, properties, attempt=attempt)

    def _hand(
        self, group: str, record: Record, properties: Mapping[str, str], *, attempt: int
    ) -> None:
        if not _is_sampled(properties):
            return
        handed = Handed(
            message=_traced(record, properties),
            group=group,
            attempt=attempt,
            handed_ms=self._store.clock.now_ms(),
        )
        with self._lock:
            self._handed.append(handed)
            if len(self._handed) > HANDED_COUNT_MAX:
                self._handed.popleft()
                self._lost_count += 1

    # Asked

    def read(self) -> TracesRead:
        """What happened since the last call; the first one only begins."""
        with self._reading:
            if not self.is_on:
                self._begin()
            found: list[Traced] = []
            left_bytes = LOOK_BYTES_MAX
            while self._grown and left_bytes > 0 and len(found) < COUNT_MAX:
                left_bytes -= self._look(self._grown.pop(), found)
            # Who was handed a message is told after the message itself.
            handed, lost_count = ([], 0) if self._grown else self._take_handed()
            return TracesRead(
                messages=found, handed=handed, lost_count=lost_count, has_more=bool(self._grown)
            )

    def _begin(self) -> None:
        self._store.observe(self)
        for queue in self._store.queues():
            self._offsets[queue] = self._store.offset_range(*queue)[1]
        self.is_on = True

    def _take_handed(self) -> tuple[list[Handed], int]:
        with self._lock:
            handed, lost_count = list(self._handed), self._lost_count
            self._handed.clear()
            self._lost_count = 0
        return handed, lost_count

    def _look(self, queue: Queue, found: list[Traced]) -> int:
        """Go through some of a queue; returns how many bytes that were."""
        offset = self._offsets.get(queue, 0)
        batch, following = self._store.read_rows(
            *queue, offset, count_max=LOOK_ROWS_MAX, size_bytes_max=LOOK_BYTES_MAX
        )
        if following > offset:
            self._grown.add(queue)  # until its end is seen
        self._offsets[queue] = following
        if not len(batch):
            return 0
        raw = batch.column("record")
        texts = RecordColumns(raw).texts
        rows = np.flatnonzero(pc.match_substring(texts, _MARK).to_numpy(zero_copy_only=False))
        for row in rows.tolist():
            record = records.decode_checked(raw[row].as_py())
            properties = decode_properties(record.properties)
            if _is_sampled(properties):
                found.append(self._told(record, properties))
        return int(raw.nbytes)

    def _told(self, record: Record, properties: Mapping[str, str]) -> Traced:
        traced = _traced(record, properties)
        if record.seq is None:
            return replace(traced, accepted_ms=record.store_ms)
        for waited in self._store.find_delayed(traced.unique_id):
            if waited.seq == record.seq:  # the delay log has its record still
                return replace(traced, accepted_ms=waited.record.store_ms, due_ms=waited.due_ms)
        return traced


def _is_sampled(properties: Mapping[str, str]) -> bool:
    return _SAMPLED.fullmatch(properties.get(PARENT_NAME, "")) is not None


def _traced(record: Record, properties: Mapping[str, str]) -> Traced:
    due_text = properties.get(DUE_NAME, "")
    return Traced(
        topic=record.topic.decode("utf-8", "replace"),
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        unique_id=properties.get("UNIQ_KEY", ""),
        traceparent=properties[PARENT_NAME],
        tracestate=properties.get(STATE_NAME, ""),
        size_bytes=len(record.body),
        sent_ms=record.born_ms,
        due_ms=int(due_text) if due_text.isdecimal() else None,
        visible_ms=record.store_ms,
    )
