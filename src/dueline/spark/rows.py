"""Between the store's rows and Spark's: windows in, deliveries out, as Arrow batches.

A row that cannot be restored or delivered is never dropped and never stops the others: it becomes a
message of the dead-letter topic, with the bytes it had and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from dueline.errors import BrokerError, InvalidRequest
from dueline.message import DEAD_LETTER_TOPIC, QUEUE_ID_MAX
from dueline.spark.schema import (
    MESSAGE_COLUMNS,
    PENDING_COLUMNS,
    RECORD_COLUMNS,
    STORED_COLUMNS,
    conform,
)
from dueline.store import properties, restore
from dueline.store.schema import MESSAGE_SCHEMA, WINDOW_SCHEMA
from dueline.store.targets import Targets, queue_id_faults

__all__ = ["deliveries", "message_rows", "pending_rows", "record_rows", "stored_rows"]


def record_rows(window: pa.RecordBatch, shard: str) -> Iterator[pa.RecordBatch]:
    """WINDOW rows as RECORD_COLUMNS."""
    yield _with_shard(window, shard, RECORD_COLUMNS)


def message_rows(window: pa.RecordBatch, shard: str) -> Iterator[pa.RecordBatch]:
    """WINDOW rows as MESSAGE_COLUMNS; those that cannot be restored as dead letters."""
    bad = restore.damaged(window) | restore.forbidden(window)
    if bad.any():
        letters = restore.dead_letters(window.filter(pa.array(bad)))
        messages = restore.messages(conform(letters, WINDOW_SCHEMA))
        yield _with_shard(messages, shard, MESSAGE_COLUMNS)
        window = window.filter(pa.array(~bad))
    yield _with_shard(restore.messages(window), shard, MESSAGE_COLUMNS)


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
    messages = restore.messages(window)
    due_ms = _due_ms(messages)
    columns = {
        **dict(zip(messages.schema.names, messages.columns, strict=True)),
        "queue_offset": stored["queue_offset"],
        "due_ms": due_ms,
        "shard": pa.repeat(pa.scalar(shard, pa.string()), count),
        "late_ms": pc.subtract(messages["store_ms"], due_ms),
    }
    yield pa.RecordBatch.from_arrays(
        [columns[name] for name in STORED_COLUMNS.names], schema=STORED_COLUMNS
    )


def _due_ms(messages: pa.RecordBatch) -> pa.Array:
    """When messages were due that were sent for a time; null for others."""
    texts = properties.pick(messages["properties"], "TIMER_OUT_MS")
    is_number = pc.match_substring_regex(texts, "^[0-9]{1,15}$")
    return pc.if_else(is_number, texts, None).cast(pa.int64())


def deliveries(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """DELIVERY rows of what arrives at the sink: records are patched, messages encoded."""
    if "record" in batch.schema.names:
        yield restore.carry(conform(batch, WINDOW_SCHEMA))
    else:
        yield from _encoded(conform(batch, MESSAGE_SCHEMA))


def _encoded(messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Encode all; if one row is refused, halve until it stands alone and make it a dead letter."""
    try:
        _check_targets(messages)
        yield restore.encode_deliveries(messages)
        return
    except BrokerError as error:
        if messages.num_rows == 1:
            yield restore.encode_deliveries(_dead_letter(messages, error.message))
            return
    middle = messages.num_rows // 2
    yield from _encoded(messages.slice(0, middle))
    yield from _encoded(messages.slice(middle))


def _check_targets(messages: pa.RecordBatch) -> None:
    """Refuse topics and queues that nobody may deliver to.

    Raises:
        InvalidRequest: a row has such a one.
    """
    Targets.of(messages["topic"]).check()
    queue_ids = pc.fill_null(messages["queue_id"], -1).to_numpy()
    if bool(queue_id_faults(queue_ids).any()):
        raise InvalidRequest(
            f"queue_id: expected 0 to {QUEUE_ID_MAX}, found {queue_ids.min()} to {queue_ids.max()}"
        )


def _dead_letter(message: pa.RecordBatch, reason: str) -> pa.RecordBatch:
    """A message of the dead-letter topic in place of one that no record can hold."""
    (row,) = message.to_pylist()
    facts = {
        "DUELINE_REASON": restore.plain(reason),
        "DUELINE_ORIGIN": str(row["origin"]),
        "DUELINE_DUE_MS": str(row["due_ms"]),
        "DUELINE_TOPIC": restore.plain(row["topic"] or "-"),
        "DUELINE_QUEUE_ID": str(row["queue_id"]),
    }
    letter = {
        **dict.fromkeys(MESSAGE_SCHEMA.names),
        "origin": row["origin"],
        "due_ms": row["due_ms"],
        "topic": DEAD_LETTER_TOPIC,
        "queue_id": 0,
        "body": row["body"],
        "properties": list(facts.items()),
        "unique_id": f"DEAD-{row['origin']}",
    }
    return pa.RecordBatch.from_pylist([letter], schema=MESSAGE_SCHEMA)


def _with_shard(rows: pa.RecordBatch, shard: str, schema: pa.Schema) -> pa.RecordBatch:
    shards = pa.repeat(pa.scalar(shard, pa.string()), rows.num_rows)
    return pa.RecordBatch.from_arrays(
        [*(rows.column(name) for name in schema.names[:-1]), shards], schema=schema
    )
