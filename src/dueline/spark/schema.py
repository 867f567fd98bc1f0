"""The columns that Spark sees, as Spark's types and as Arrow's; a test holds them equal.

Spark compares the Arrow schema of what a reader yields with its own, exactly, so everything is
nullable here, though nothing ever is in some columns.

    message   what a transform works with: the fields of a message, or as many of them as it uses;
              always those of ROUTE_COLUMNS: which message, when, where to, and `shard`: which
              broker it came from, and so where it goes back to

Batch reads have two more:

    pending   a message, and `deliver_at`: its due time as a timestamp
    stored    a message that consumers can read, with its place in its queue. `store_ms` is when it
              became visible. `due_ms` and `late_ms` are of one that was sent for a time or with a
              delay; null for others: of a level the record keeps no due time
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import pyarrow as pa

from dueline.store.schema import MESSAGE_SCHEMA, ROUTE_NAMES

__all__ = [
    "LEDGER_COLUMNS",
    "LEDGER_DDL",
    "MESSAGE_COLUMNS",
    "MESSAGE_DDL",
    "PENDING_COLUMNS",
    "PENDING_DDL",
    "ROUTE_COLUMNS",
    "STORED_COLUMNS",
    "STORED_DDL",
    "conform",
    "message_columns",
    "message_ddl",
]

_LEDGER_TIMES: Final = ["sent_ms", "accepted_ms", "due_ms", "visible_ms", "late_ms", "ended_ms"]
_SHARD: Final = pa.field("shard", pa.string())


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, field.type) for field in schema])


MESSAGE_COLUMNS: Final = _nullable(MESSAGE_SCHEMA).append(_SHARD)
ROUTE_COLUMNS: Final = (*ROUTE_NAMES, "shard")
PENDING_COLUMNS: Final = MESSAGE_COLUMNS.append(
    pa.field("deliver_at", pa.timestamp("us", "UTC"))
).append(pa.field("state", pa.string()))
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
PENDING_DDL: Final = MESSAGE_DDL + ", deliver_at timestamp, state string"
STORED_DDL: Final = MESSAGE_DDL.replace("origin bigint", "queue_offset bigint") + ", late_ms bigint"


def message_columns(names: Collection[str]) -> pa.Schema:
    """MESSAGE_COLUMNS without those that are neither named nor always there."""
    wanted = {*ROUTE_COLUMNS, *names}
    return pa.schema([field for field in MESSAGE_COLUMNS if field.name in wanted])


def message_ddl(names: Collection[str]) -> str:
    """As `message_columns`, in Spark's words."""
    parts = zip(MESSAGE_COLUMNS.names, MESSAGE_DDL.split(", "), strict=True)
    wanted = {*ROUTE_COLUMNS, *names}
    return ", ".join(part for name, part in parts if name in wanted)


LEDGER_COLUMNS: Final = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("outcome", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", pa.int64()),
        *(pa.field(name, pa.string()) for name in ("unique_id", "keys", "tags")),
        *(pa.field(name, pa.int64()) for name in _LEDGER_TIMES),
        _SHARD,
    ]
)
LEDGER_DDL: Final = (
    "number bigint, outcome string, topic string, queue_id int, queue_offset bigint, "
    "unique_id string, keys string, tags string, sent_ms bigint, accepted_ms bigint, "
    "due_ms bigint, visible_ms bigint, late_ms bigint, ended_ms bigint, shard string"
)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns under another schema's names, order and nullability; types must match."""
    columns = [batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
