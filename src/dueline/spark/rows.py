"""Between the store's rows and Spark's: windows in, routed rows out, as Arrow batches.

A row that cannot be restored is never dropped and never stops the others: a transform sees it as a
message of the dead-letter topic, with the bytes it had and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from dueline.spark.schema import (
    MESSAGE_COLUMNS,
    PENDING_COLUMNS,
    STORED_COLUMNS,
    conform,
    message_columns,
)
from dueline.store import properties, restore
from dueline.store.schema import WINDOW_SCHEMA, routed_schema

__all__ = ["message_rows", "pending_rows", "route_rows", "routed", "stored_rows"]


def route_rows(units: pa.RecordBatch, shard: str) -> pa.RecordBatch:
    """UNIT rows as ROUTE_COLUMNS."""
    return _with_shard(units, shard, message_columns(()))


def message_rows(
    window: pa.RecordBatch, shard: str, schema: pa.Schema = MESSAGE_COLUMNS
) -> Iterator[pa.RecordBatch]:
    """WINDOW rows as MESSAGE_COLUMNS, or some of them; what cannot be restored as dead letters."""
    bad = restore.damaged(window) | restore.forbidden(window)
    wanted = schema.remove(schema.get_field_index("shard"))
    if bad.any():
        letters = restore.dead_letters(window.filter(pa.array(bad)))
        messages = restore.messages(conform(letters, WINDOW_SCHEMA), wanted)
        yield _with_shard(messages, shard, schema)
        window = window.filter(pa.array(~bad))
    yield _with_shard(restore.messages(window, wanted), shard, schema)


def pending_rows(waiting: pa.RecordBatch, shard: str) -> Iterator[pa.RecordBatch]:
    """WAITING rows as PENDING_COLUMNS."""
    for state in pc.unique(waiting["state"]).to_pylist():
        own = waiting.filter(pc.equal(waiting["state"], state)).select(WINDOW_SCHEMA.names)
        for rows in message_rows(own, shard):
            times = rows["due_ms"].cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
            states = pa.repeat(pa.scalar(state, pa.string()), rows.num_rows)
            yield pa.RecordBatch.from_arrays([*rows.columns, times, states], schema=PENDING_COLUMNS)


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


def routed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """ROUTED rows of what arrives at the sink."""
    return conform(batch, routed_schema(batch.schema.names))


def _with_shard(rows: pa.RecordBatch, shard: str, schema: pa.Schema) -> pa.RecordBatch:
    shards = pa.repeat(pa.scalar(shard, pa.string()), rows.num_rows)
    return pa.RecordBatch.from_arrays(
        [*(rows.column(name) for name in schema.names[:-1]), shards], schema=schema
    )
