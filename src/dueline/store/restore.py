"""From the delay log back to what the producer meant: windows in, messages or deliveries out.

    deliveries(window)            the short way: raw records become commit-log records by patching
    messages(window)              the same rows with fields as columns, for a user's transform
    encode_deliveries(messages)   rows that a transform may have changed, as commit-log records
    damaged(window)               which rows fail a check and must go to the dead-letter topic
    dead_letters(window)          those rows, as messages of that topic

A delivered record has the body, properties, born time and host of the delayed one, the real topic
and queue, and the origin in its mark. Position, queue offset and store time are the broker's to
fill in: until then the store time is the due time, and the check is made for that. Pure functions
on Arrow batches; they run in the broker and in Spark's Python workers.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline.errors import CorruptRecord, InvalidRequest
from dueline.message import (
    DEAD_LETTER_TOPIC,
    SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6,
    TOPIC_SIZE_MAX,
    pack_host,
)
from dueline.store import kernels, properties, stamp
from dueline.store.kernels import HEADER_DTYPE, Int64s
from dueline.store.layout import (
    BODY_SIZE_AT,
    BORN_HOST_AT,
    BORN_MS_AT,
    HEADER_SIZE,
    HOST_SIZE,
    HOST_V6_EXTRA,
    RECONSUME_TIMES_AT,
    RECORD_SIZE_MIN,
    STORE_MS_AT,
)
from dueline.store.record import (
    MAGIC,
    MARK_CHECK_SHIFT,
    MARK_DELAYED,
    MARK_GROUP,
    MARK_NUMBER_MASK,
    MARK_PRESENT,
    decode,
)
from dueline.store.schema import DELIVERY_SCHEMA, MESSAGE_SCHEMA, ROUTE_NAMES, empty_batch
from dueline.store.targets import Targets, queue_id_faults

__all__ = [
    "Fields",
    "damaged",
    "dead_letters",
    "deliveries",
    "encode_deliveries",
    "forbidden",
    "marks_of",
    "messages",
    "plain",
]

_MARK: Final = MARK_PRESENT | MARK_DELAYED | MARK_GROUP
_TEXT_SIZE_MAX: Final = 1_000
_PROPERTY_OF: Final = {"tags": "TAGS", "keys": "KEYS", "unique_id": "UNIQ_KEY"}
_IN_PROPERTIES: Final = {"properties", *_PROPERTY_OF}
_NO_HOST: Final = pack_host("0.0.0.0", 0)


class Fields:
    """Where the variable parts of a batch of records are."""

    def __init__(self, records: pa.BinaryArray) -> None:
        self.data, offsets = kernels.buffer_of(records)
        self.starts, self.ends = offsets[:-1], offsets[1:]
        self.headers = kernels.headers(self.data, self.starts)
        self.body_at = kernels.body_starts(self.headers, self.starts)
        self.body_size = self.headers["body_size"].astype(np.int64)
        self.topic_at = self.body_at + self.body_size + 1
        self.topic_size = self.data[self.topic_at - 1].astype(np.int64)
        self.properties_at = self.topic_at + self.topic_size + 2

    def bodies(self) -> pa.BinaryArray:
        return kernels.slices(self.data, self.body_at, self.body_size)

    def properties(self) -> pa.BinaryArray:
        return kernels.slices(self.data, self.properties_at, self.ends - self.properties_at)

    def born_hosts(self) -> pa.BinaryArray:
        size = HOST_SIZE + kernels.born_extra(self.headers)
        return kernels.slices(self.data, self.starts + BORN_HOST_AT, size)


def damaged(window: pa.RecordBatch, *, is_foreign: bool = False) -> npt.NDArray[np.bool_]:
    """True for rows whose record does not pass every check; the others can be restored.

    Args:
        is_foreign: they are from a log that RocketMQ writes (`record.decode`).
    """
    records = window.column("record")
    data, offsets = kernels.buffer_of(records)
    starts, ends = offsets[:-1], offsets[1:]
    bad = ends - starts < RECORD_SIZE_MIN
    good = np.flatnonzero(~bad)
    headers = kernels.headers(data, starts[good])
    sound = (headers["magic"] == MAGIC) & (headers["size"] == ends[good] - starts[good])
    body_at = kernels.body_starts(headers, starts[good])
    tail_at = body_at + headers["body_size"].astype(np.int64)
    sound &= tail_at + 3 <= ends[good]
    tail_at = np.where(sound, tail_at, 0)
    properties_at = tail_at + 1 + data[tail_at]
    sound &= properties_at + 2 <= ends[good]
    size_at = np.where(sound, properties_at, 0)
    properties_size = data[size_at].astype(np.int64) << 8 | data[size_at + 1]
    sound &= properties_at + 2 + properties_size == ends[good]
    bad[good[~sound]] = True
    good, headers = good[sound], headers[sound]
    body_at, tail_at = body_at[sound], tail_at[sound]
    crcs = kernels.body_crcs(data, body_at, tail_at)
    checks = stamp.checks_of(data, starts[good], ends[good], headers)
    marks = headers["mark"].astype(np.uint64)
    found = (marks >> np.uint64(MARK_CHECK_SHIFT)).astype(np.uint16)
    marked = marks & np.uint64(MARK_PRESENT) != 0
    unmarked_wrong = (marks > np.uint64(MARK_NUMBER_MASK)) & (not is_foreign)
    wrong = np.where(marked, found != checks, unmarked_wrong)
    bad[good] = (headers["crc"] != crcs) | wrong
    return bad


def forbidden(window: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    """True for rows whose real topic or queue is not one that a message can be delivered to.

    No door lets such a message in, but a record may have been written by another program, or by a
    version that did.
    """
    bad = queue_id_faults(window.column("queue_id").to_numpy())
    return bad | Targets.of(window.column("topic")).bad()


def dead_letters(window: pa.RecordBatch) -> pa.RecordBatch:
    """DELIVERY rows to the dead-letter topic that say what is wrong with each WINDOW row."""
    rows = []
    for row in window.to_pylist():
        facts = {
            "DUELINE_REASON": _reason(row["record"], row["topic"], row["queue_id"]),
            "DUELINE_ORIGIN": str(row["origin"]),
            "DUELINE_DUE_MS": str(row["due_ms"]),
            "DUELINE_TOPIC": plain(row["topic"]) or "-",
            "DUELINE_QUEUE_ID": str(row["queue_id"]),
        }
        rows.append(
            {
                **dict.fromkeys(MESSAGE_SCHEMA.names),
                "origin": row["origin"],
                "due_ms": row["due_ms"],
                "topic": DEAD_LETTER_TOPIC,
                "queue_id": 0,
                "body": row["record"],
                "properties": list(facts.items()),
                "unique_id": f"DEAD-{row['origin']}",
            }
        )
    return encode_deliveries(pa.RecordBatch.from_pylist(rows, schema=MESSAGE_SCHEMA))


def _reason(data: bytes, topic: str, queue_id: int) -> str:
    if not data:
        return "the record's segment is gone"
    try:
        decode(data)
    except CorruptRecord as error:
        return plain(error.message)
    return f"not a topic to deliver to: {plain(topic)!r}, or no queue: {queue_id}"


def plain(text: str) -> str:
    """Text of a record that nobody has checked, as a property can hold it."""
    return text[:_TEXT_SIZE_MAX].replace("\x01", " ").replace("\x02", " ")


def deliveries(window: pa.RecordBatch) -> pa.RecordBatch:
    """DELIVERY rows of sound WINDOW rows, by patching their bytes."""
    if not window.num_rows:
        return empty_batch(DELIVERY_SCHEMA)
    fields = Fields(window.column("record"))
    texts = fields.properties()
    topics = window.column("topic").cast(pa.binary())
    topic_size = pc.binary_length(topics).to_numpy().astype(np.int64)
    if len(topic_size) and int(topic_size.max()) > TOPIC_SIZE_MAX:
        raise InvalidRequest(f"topic: expected at most {TOPIC_SIZE_MAX} bytes, found a longer one")
    headers = fields.headers.copy()
    headers["queue_id"] = window.column("queue_id").to_numpy()
    headers["size"] = fields.ends - fields.starts + topic_size - fields.topic_size
    raw = headers.view(np.uint8).reshape(len(headers), HEADER_SIZE)
    tail = _tail(topics, topic_size, texts)
    # Everything but the queue id, the size, the mark and the tail is copied as it was.
    middles_at = fields.starts + BORN_MS_AT
    middles_end = fields.body_at - (HEADER_SIZE - RECONSUME_TIMES_AT)
    middles = kernels.slices(fields.data, middles_at, middles_end - middles_at)
    size_bytes = HEADER_SIZE - BODY_SIZE_AT  # of bodySize, which goes with the body
    ends = kernels.slices(fields.data, fields.body_at - size_bytes, fields.body_size + size_bytes)
    last = kernels.fixed_rows(np.ascontiguousarray(raw[:, RECONSUME_TIMES_AT:BODY_SIZE_AT]))
    first = kernels.fixed_rows(np.ascontiguousarray(raw[:, :BORN_MS_AT]))
    records = kernels.join(first, middles, last, ends, tail)
    return _finish(records, window, texts)


def messages(window: pa.RecordBatch, schema: pa.Schema = MESSAGE_SCHEMA) -> pa.RecordBatch:
    """MESSAGE rows of sound WINDOW rows; with another schema, only its columns are made."""
    fields = Fields(window.column("record"))
    maps = properties.split(fields.properties()) if _IN_PROPERTIES & set(schema.names) else None

    def column(name: str) -> pa.Array:
        if name in ROUTE_NAMES:
            return window.column(name)
        if name == "body":
            return fields.bodies()
        if name == "born_host":
            return fields.born_hosts()
        if name == "properties":
            return maps
        if name in _PROPERTY_OF:
            return properties.pick(maps, _PROPERTY_OF[name])
        numbers = fields.headers[name]
        return pa.array(numbers.astype(numbers.dtype.newbyteorder("=")))

    return pa.RecordBatch.from_arrays([column(name) for name in schema.names], schema=schema)


def encode_deliveries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """DELIVERY rows of MESSAGE rows, which a transform may have changed.

    Raises:
        InvalidRequest: a row that no record can hold, with its number and the reason.
    """
    count = batch.num_rows
    if not count:
        return empty_batch(DELIVERY_SCHEMA)
    _check_separators(batch)
    texts = properties.merge(
        count,
        {
            "UNIQ_KEY": batch.column("unique_id"),
            "KEYS": batch.column("keys"),
            "TAGS": batch.column("tags"),
        },
        batch.column("properties"),
    )
    topics = batch.column("topic").cast(pa.binary())
    bodies = pc.fill_null(batch.column("body"), b"")
    topic_size = pc.fill_null(pc.binary_length(topics), 0).to_numpy().astype(np.int64)
    check_rows(topic_size, pc.binary_length(texts).to_numpy())
    hosts = _sound_hosts(batch.column("born_host"))
    wide = pc.binary_length(hosts).to_numpy() > HOST_SIZE
    body_data, body_offsets = kernels.buffer_of(bodies)
    headers = np.zeros(count, dtype=HEADER_DTYPE)
    for name in ("queue_id", "flag", "sys_flag", "born_ms", "reconsume_times"):
        headers[name] = pc.fill_null(batch.column(name), 0).to_numpy()
    headers["magic"] = MAGIC
    headers["sys_flag"] &= ~(SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6)
    headers["sys_flag"] |= np.where(wide, SYS_BORN_HOST_V6, 0).astype(np.int32)
    headers["body_size"] = np.diff(body_offsets)
    headers["crc"] = kernels.body_crcs(body_data, body_offsets[:-1], body_offsets[1:])
    tail = _tail(topics, topic_size, texts)
    headers["size"] = (
        HEADER_SIZE
        + HOST_V6_EXTRA * wide
        + np.diff(body_offsets)
        + pc.binary_length(tail).to_numpy()
    )
    raw = headers.view(np.uint8).reshape(count, HEADER_SIZE)
    records = kernels.join(
        kernels.fixed_rows(raw[:, :BORN_HOST_AT]),
        hosts,
        kernels.fixed_rows(raw[:, STORE_MS_AT:]),
        bodies,
        tail,
    )
    return _finish(records, batch, texts)


def _check_separators(batch: pa.RecordBatch) -> None:
    """Refuse the bytes that separate properties inside of them: they would make up others."""
    maps = batch.column("properties")
    offsets = np.asarray(maps.offsets, dtype=np.int64)
    columns = [(batch.column(name), None) for name in ("unique_id", "keys", "tags")]
    for array, bounds in [*columns, (maps.keys, offsets), (maps.items, offsets)]:
        data, ends = kernels.buffer_of(array)
        at = np.flatnonzero((data == 1) | (data == 2))
        at = at[(at >= ends[0]) & (at < ends[-1])]
        rows = np.searchsorted(ends, at, side="right") - 1
        if bounds is not None:
            rows = np.searchsorted(bounds, rows, side="right") - 1
            rows = rows[(rows >= 0) & (rows < batch.num_rows)]
        if len(rows):
            raise InvalidRequest(
                f"row {int(rows[0])}: properties: expected names and values without the bytes 0x01 "
                "and 0x02, found one of them",
                row=int(rows[0]),
                field="properties",
            )


def check_rows(topic_size: Int64s, properties_size: Int64s) -> None:
    """Refuse rows with a topic or properties that no record can hold, naming the first."""
    for name, sizes, low, high in (
        ("topic", topic_size, 1, TOPIC_SIZE_MAX),
        ("properties", properties_size, 0, 32_767),
    ):
        bad = np.flatnonzero((sizes < low) | (sizes > high))
        if len(bad):
            row = int(bad[0])
            raise InvalidRequest(
                f"row {row}: {name}: expected {low} to {high} bytes, found {int(sizes[row])}",
                row=row,
                field=name,
            )


def _sound_hosts(hosts: pa.Array) -> pa.BinaryArray:
    sizes = pc.fill_null(pc.binary_length(hosts), 0)
    good = pc.or_(pc.equal(sizes, 8), pc.equal(sizes, 20))
    return pc.if_else(good, hosts, pa.scalar(_NO_HOST, pa.binary()))


def _tail(topics: pa.BinaryArray, topic_size: Int64s, texts: pa.BinaryArray) -> pa.BinaryArray:
    """Topic and properties with their sizes, as a record ends."""
    sizes = kernels.fixed_rows(topic_size.astype(np.uint8))
    text_size = pc.binary_length(texts).to_numpy().astype(">u2")
    return kernels.join(sizes, topics, kernels.fixed_rows(text_size), texts)


def marks_of(origin: Int64s) -> npt.NDArray[np.uint64]:
    """The marks of delivered records, but for their checks."""
    return (origin | _MARK).astype(np.uint64)


def _finish(records: pa.BinaryArray, rows: pa.RecordBatch, texts: pa.BinaryArray) -> pa.RecordBatch:
    """Put due time, origin and check into the records' bytes and add what is indexed.

    The bytes were joined a moment ago and belong to nobody else: they are changed in place.
    """
    origin, due_ms = rows.column("origin").to_numpy(), rows.column("due_ms").to_numpy()
    data, offsets = kernels.buffer_of(records)
    stamp.seal(
        data,
        offsets[:-1],
        offsets[1:],
        marks=marks_of(origin),
        store_ms=due_ms,
    )
    codes, hashes = properties.indexed(texts)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(origin),
            pa.array(due_ms),
            rows.column("topic").cast(pa.string()),
            rows.column("queue_id").cast(pa.int32()),
            pa.array(codes),
            hashes,
            records,
        ],
        schema=DELIVERY_SCHEMA,
    )
