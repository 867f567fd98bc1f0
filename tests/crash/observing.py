"""What a store holds, as seen from outside: read by queue, listed as pending, found at the gate.

Record bytes are taken apart here with `struct` alone, so that the tests do not believe the code
that wrote them.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass, field

from dueline.store import Store
from dueline.store.corner import SEQ_MAX, Corner

HEADER = struct.Struct(">IIIiiqqiq8sq8siQI")
FAR_MS = 1 << 50

Queue = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One record as a consumer gets it."""

    uid: str
    topic: str
    queue_id: int
    offset: int
    store_ms: int
    body: bytes


@dataclass(slots=True)
class Observed:
    """Everything that a store says about its messages at one moment."""

    visible: dict[Queue, list[Seen]] = field(default_factory=dict)
    starts: dict[Queue, int] = field(default_factory=dict)
    pending: dict[str, list[tuple[int, str, int]]] = field(default_factory=dict)
    at_gate: dict[str, int] = field(default_factory=dict)

    def visible_counts(self) -> Counter[str]:
        return Counter(seen.uid for queue in self.visible.values() for seen in queue)

    def is_waiting(self, uid: str) -> bool:
        return uid in self.pending or uid in self.at_gate


def parse(data: bytes) -> Seen:
    """A record with IPv4 hosts, taken apart."""
    fields = HEADER.unpack_from(data)
    size, queue_id, queue_offset, store_ms, body_size = (fields[n] for n in (0, 3, 5, 10, 14))
    assert size == len(data)
    body = data[HEADER.size : HEADER.size + body_size]
    at = HEADER.size + body_size
    topic_size = data[at]
    topic = data[at + 1 : at + 1 + topic_size].decode()
    properties = properties_of(data[at + 3 + topic_size :])
    return Seen(
        uid=properties["UNIQ_KEY"],
        topic=topic,
        queue_id=queue_id,
        offset=queue_offset,
        store_ms=store_ms,
        body=body,
    )


def properties_of(text: bytes) -> dict[str, str]:
    entries = [entry.split(b"\x01") for entry in text.split(b"\x02") if entry]
    return {name.decode(): value.decode() for name, value in entries}


def read_queue(store: Store, topic: str, queue_id: int, *, has_holes: bool = False) -> list[Seen]:
    """All visible records of a queue; every offset must give a sound record that knows it, unless
    the queue may have holes."""
    offset, end = store.offset_range(topic, queue_id)
    found: list[Seen] = []
    while offset < end:
        result = store.read(topic, queue_id, offset, count_max=1 if has_holes else 100)
        assert has_holes or result.damaged == [], (
            f"{topic}/{queue_id}: damaged offsets {result.damaged}"
        )
        assert result.next_offset > offset, f"{topic}/{queue_id}: stuck at {offset}"
        for number, view in enumerate(result.records):
            seen = parse(bytes(view))
            assert (seen.topic, seen.queue_id, seen.offset) == (topic, queue_id, offset + number)
            found.append(seen)
        offset = result.next_offset
    return found


def observe(store: Store, uids: list[str], *, has_holes: bool = False) -> Observed:
    """Look at everything; `uids` are those that may be at the gate."""
    found = Observed()
    for topic, queue_id in store.queues():
        found.visible[topic, queue_id] = read_queue(store, topic, queue_id, has_holes=has_holes)
        found.starts[topic, queue_id] = store.offset_range(topic, queue_id)[0]
    everything = Corner(due_ms=FAR_MS, seq=SEQ_MAX, end=SEQ_MAX)
    batch = store.read_window(store.window(everything, with_held=True))
    columns = (batch.column(name).to_pylist() for name in ("due_ms", "topic", "queue_id", "record"))
    for due_ms, topic, queue_id, record in zip(*columns, strict=True):
        uid = parse(record).uid
        found.pending.setdefault(uid, []).append((due_ms, topic, queue_id))
    visible = found.visible_counts()
    for uid in uids:
        if uid not in visible:
            for match in store.find_delayed(uid):
                if match.is_at_gate:
                    assert uid not in found.at_gate, f"{uid}: twice at the gate"
                    found.at_gate[uid] = match.due_ms
    assert store.gate_row_count == len(found.at_gate)
    assert store.pending_count() == sum(len(units) for units in found.pending.values())
    return found
