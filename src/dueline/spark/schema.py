"""The columns that Spark sees, as Spark's types and as Arrow's; a test holds them equal.

Spark compares the Arrow schema of what a reader yields with its own, exactly, so everything is
nullable here, though nothing ever is in some columns.

    message   what a transform works with: every field of a message
    record    what passes through untouched: the bytes, and what the timeline knows of them

Both have `shard`: which broker a row came from, and so where it goes back to. Batch reads have two
more:

    pending   a message, and `deliver_at`: its due time as a timestamp
    stored    a message that consumers can read, with its place in its queue. `store_ms` is when it
              became visible. `due_ms` and `late_ms` are of one that was sent for a time or with a
              delay; null for others: of a level the record keeps no due time
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from dueline.store.schema import MESSAGE_SCHEMA, WINDOW_SCHEMA

__all__ = [
    "MESSAGE_COLUMNS",
    "MESSAGE_DDL",
    "PENDING_COLUMNS",
    "PENDING_DDL",
    "RECORD_COLUMNS",
    "RECORD_DDL",
    "STORED_COLUMNS",
    "STORED_DDL",
    "conform",
]

_SHARD: Final = pa.field("shard", pa.string())


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


MESSAGE_COLUMNS: Final = _nullable(MESSAGE_SCHEMA).append(_SHARD)
RECORD_COLUMNS: Final = _nullable(WINDOW_SCHEMA).append(_SHARD)
PENDING_COLUMNS: Final = MESSAGE_COLUMNS.append(pa.field("deliver_at", pa.timestamp("us", "UTC")))
_LATE: Final = pa.field("late_ms", pa.int64())
STORED_COLUMNS: Final = pa.schema(
    [
        pa.field("queue_offset", pa.int64()) if field.name == "origin" else field
        for field in MESSAGE_COLUMNS
    ]
).append(_LATE)

MESSAGE_DDL: Final = (
    "origin bigint, due_ms bigint, topic string, queue_id int, body binary, tags string, "
    "keys string, properties map<string,string>, born_ms bigint, store_ms bigint, "
    "born_host binary, flag int, sys_flag int, reconsume_times int, unique_id string, shard string"
)
RECORD_DDL: Final = (
    "origin bigint, due_ms bigint, topic string, queue_id int, record binary, shard string"
)
PENDING_DDL: Final = MESSAGE_DDL + ", deliver_at timestamp"
STORED_DDL: Final = MESSAGE_DDL.replace("origin bigint", "queue_offset bigint") + ", late_ms bigint"


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns under another schema's names, order and nullability; types must match."""
    columns = [batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
