"""The Arrow schemas of what leaves and enters the store in bulk, defined once.

WINDOW      raw delay-log records that are to be delivered, with what the timeline knows of them
MESSAGE     the same messages restored: what a user's transform sees and may change
ROUTED      where messages of a window go, and those columns of MESSAGE that a transform has changed
DELIVERY    complete commit-log records; the log fills in where and when they are stored
STORED      records of a queue with their offsets
SCHEDULE    new messages to put, as `Store.put_many` takes them
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from dueline.errors import InvalidRequest

__all__ = [
    "DELIVERY_SCHEMA",
    "MESSAGE_SCHEMA",
    "ROUTE_NAMES",
    "SCHEDULE_SCHEMA",
    "STORED_SCHEMA",
    "WAITING_SCHEMA",
    "WINDOW_SCHEMA",
    "empty_batch",
    "routed_schema",
    "sound",
]

WINDOW_SCHEMA: Final = pa.schema(
    [
        pa.field("origin", pa.int64(), nullable=False),
        pa.field("due_ms", pa.int64(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("record", pa.binary(), nullable=False),
    ]
)

WAITING_SCHEMA: Final = WINDOW_SCHEMA.append(pa.field("state", pa.string(), nullable=False))
"""What waits: in the delay log (`pending`), or at the gate (`carried over`) as the commit log has
it."""

MESSAGE_SCHEMA: Final = pa.schema(
    [
        pa.field("origin", pa.int64()),
        pa.field("due_ms", pa.int64()),
        pa.field("topic", pa.string()),
        pa.field("queue_id", pa.int32()),
        pa.field("body", pa.binary()),
        pa.field("tags", pa.string()),
        pa.field("keys", pa.string()),
        pa.field("properties", pa.map_(pa.string(), pa.string())),
        pa.field("born_ms", pa.int64()),
        pa.field("store_ms", pa.int64()),
        pa.field("born_host", pa.binary()),
        pa.field("flag", pa.int32()),
        pa.field("sys_flag", pa.int32()),
        pa.field("reconsume_times", pa.int32()),
        pa.field("unique_id", pa.string()),
    ]
)

DELIVERY_SCHEMA: Final = pa.schema(
    [
        pa.field("origin", pa.int64(), nullable=False),
        pa.field("due_ms", pa.int64(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("tags_code", pa.int64(), nullable=False),
        pa.field("key_hashes", pa.list_(pa.uint32()), nullable=False),
        pa.field("record", pa.binary(), nullable=False),
    ]
)

STORED_SCHEMA: Final = pa.schema(
    [
        pa.field("queue_offset", pa.int64(), nullable=False),
        pa.field("record", pa.binary(), nullable=False),
    ]
)

SCHEDULE_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("body", pa.binary(), nullable=False),
        pa.field("queue_id", pa.int32()),
        pa.field("deliver_at_ms", pa.int64()),
        pa.field("delay_ms", pa.int64()),
        pa.field("delay_level", pa.int32()),
        pa.field("tags", pa.string()),
        pa.field("keys", pa.string()),
        pa.field("properties", pa.map_(pa.string(), pa.string())),
        pa.field("unique_id", pa.string()),
    ]
)


_ROUTE: Final = pa.schema(
    [
        pa.field("origin", pa.int64(), nullable=False),
        pa.field("due_ms", pa.int64(), nullable=False),
        pa.field("topic", pa.string()),
        pa.field("queue_id", pa.int32()),
    ]
)
ROUTE_NAMES: Final[tuple[str, ...]] = tuple(_ROUTE.names)
"""The columns that every row of a window has, wherever it is."""


def routed_schema(changed: Iterable[str] = ()) -> pa.Schema:
    """The schema of ROUTED rows with these columns of MESSAGE, in its order."""
    wanted = set(changed).difference(ROUTE_NAMES)
    return pa.schema([*_ROUTE, *(field for field in MESSAGE_SCHEMA if field.name in wanted)])


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch of no rows."""
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def sound(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch that came from outside, under our own schema, once every byte of it makes sense.

    Arrow's readers take offsets, lengths and text as they come, and its kernels then follow them
    out of their buffers: a peer's batch is not touched before this has looked at it. The result
    shares the batch's memory, but not the metadata that its schema may have had.

    Raises:
        InvalidRequest: other columns, nulls where none may be, or offsets, counts or text that
            do not fit the buffers.
    """
    if not batch.schema.equals(schema):
        raise InvalidRequest(
            f"rows: expected the columns {schema.names}, found {batch.schema.names!r:.500} or "
            "other types",
            field="schema",
        )
    try:
        batch.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidRequest(
            f"rows: expected sound Arrow data, found: {str(error)[:500]}", field="rows"
        ) from error
    for field, column in zip(schema, batch.columns, strict=True):
        if not field.nullable and _has_nulls(column):
            raise InvalidRequest(
                f"rows: {field.name}: expected a value in every row, found null", field=field.name
            )
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _has_nulls(column: pa.Array) -> bool:
    """Also among the items of a list."""
    if column.null_count:
        return True
    return pa.types.is_list(column.type) and bool(column.flatten().null_count)
