"""Between the store's rows and Spark's: windows in, deliveries out, as Arrow batches.

A row that cannot be restored or delivered is never dropped and never stops the others: it becomes a
message of the dead-letter topic, with the bytes it had and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from dueline.errors import BrokerError
from dueline.message import DEAD_LETTER_TOPIC
from dueline.spark.schema import (
    MESSAGE_COLUMNS,
    PENDING_COLUMNS,
    RECORD_COLUMNS,
    STORED_COLUMNS,
    conform,
)
from dueline.store import restore
from dueline.store.schema import MESSAGE_SCHEMA, WINDOW_SCHEMA

__all__ = ["deliveries", "message_rows", "pending_rows", "record_rows", "stored_rows"]

_DAMAGED: Final = "the record in the delay log fails its check"
_REASON: Final = "DUELINE_REASON"
_REAL_TOPIC: Final = "REAL_TOPIC"
_REAL_QID: Final = "REAL_QID"


def record_rows(window: pa.RecordBatch, shard: str) -> Iterator[pa.RecordBatch]:
    """WINDOW rows as RECORD_COLUMNS."""
    yield _with_shard(window, shard, RECORD_COLUMNS)


def message_rows(window: pa.RecordBatch, shard: str) -> Iterator[pa.RecordBatch]:
    """WINDOW rows as MESSAGE_COLUMNS; damaged ones as dead letters."""
    for part, is_sound in _by_soundness(window):
        if is_sound:
            yield _with_shard(restore.messages(part), shard, MESSAGE_COLUMNS)
        else:
            letters = _dead_letters(part, part["record"], _DAMAGED)
            yield _with_shard(letters, shard, MESSAGE_COLUMNS)


def pending_rows(window: pa.RecordBatch, shard: str) -> Iterator[pa.RecordBatch]:
    """WINDOW rows as PENDING_COLUMNS."""
    for rows in message_rows(window, shard):
        times = rows["due_ms"].cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
        yield pa.RecordBatch.from_arrays([*rows.columns, times], schema=PENDING_COLUMNS)


def stored_rows(
    stored: pa.RecordBatch, topic: str, queue_id: int, shard: str
) -> Iterator[pa.RecordBatch]:
    """STORED rows of one queue as STORED_COLUMNS."""
    count = stored.num_rows
    window = pa.RecordBatch.from_arrays(
        [
            stored["queue_offset"],
            stored["queue_offset"],
            pa.repeat(pa.scalar(topic, pa.string()), count),
            pa.repeat(pa.scalar(queue_id, pa.int32()), count),
            stored["record"],
        ],
        schema=WINDOW_SCHEMA,
    )
    messages = restore.messages(window).rename_columns(["queue_offset", *MESSAGE_SCHEMA.names[1:]])
    yield _with_shard(messages, shard, STORED_COLUMNS)


def deliveries(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """DELIVERY rows of what arrives at the sink: records are patched, messages encoded."""
    if "record" in batch.schema.names:
        yield from _patched(conform(batch, WINDOW_SCHEMA))
    else:
        yield from _encoded(conform(batch, MESSAGE_SCHEMA))


def _patched(window: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    for rows, is_sound in _by_soundness(window):
        if is_sound:
            yield restore.deliveries(rows)
        else:
            yield restore.encode_deliveries(_dead_letters(rows, rows["record"], _DAMAGED))


def _encoded(messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Encode all; if one row is refused, halve until it stands alone and make it a dead letter."""
    try:
        yield restore.encode_deliveries(messages)
        return
    except BrokerError as error:
        if messages.num_rows == 1:
            letters = _dead_letters(messages, messages["body"], error.message)
            yield restore.encode_deliveries(letters)
            return
    middle = messages.num_rows // 2
    yield from _encoded(messages.slice(0, middle))
    yield from _encoded(messages.slice(middle))


def _by_soundness(window: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, bool]]:
    damaged = restore.damaged(window)
    if not damaged.any():
        yield window, True
        return
    yield window.filter(pa.array(~damaged)), True
    yield window.filter(pa.array(damaged)), False


def _dead_letters(rows: pa.RecordBatch, bodies: pa.Array, reason: str) -> pa.RecordBatch:
    """Messages of the dead-letter topic in place of rows: same origin and due time."""
    count = rows.num_rows
    properties = [
        [(_REASON, reason), (_REAL_TOPIC, topic or ""), (_REAL_QID, str(queue_id))]
        for topic, queue_id in zip(
            rows["topic"].to_pylist(), rows["queue_id"].to_pylist(), strict=True
        )
    ]
    columns = {
        "origin": rows["origin"],
        "due_ms": rows["due_ms"],
        "topic": pa.array([DEAD_LETTER_TOPIC] * count, pa.string()),
        "queue_id": pa.array(np.zeros(count, dtype=np.int32)),
        "body": bodies,
        "properties": pa.array(properties, MESSAGE_SCHEMA.field("properties").type),
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, pa.nulls(count, field.type)) for field in MESSAGE_SCHEMA],
        schema=MESSAGE_SCHEMA,
    )


def _with_shard(rows: pa.RecordBatch, shard: str, schema: pa.Schema) -> pa.RecordBatch:
    shards = pa.repeat(pa.scalar(shard, pa.string()), rows.num_rows)
    return pa.RecordBatch.from_arrays(
        [*(rows.column(name) for name in schema.names[:-1]), shards], schema=schema
    )
