"""What the pipeline says of messages, and what the delay log has of them, made into deliveries.

A ROUTED row says where a message goes, and has the columns that a transform has changed. All else
is taken from the message's record, which never left the store: without a transform that is every
byte. So what reaches the commit log is made here, of a record that passes its checks, whoever has
sent the row.

A row that cannot be restored or delivered is never dropped and never stops the others: it becomes
a message of the dead-letter topic, with the bytes it had and the reason. Pure functions on Arrow
batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline import compiled
from dueline.errors import BrokerError, InvalidRequest
from dueline.message import DEAD_LETTER_TOPIC, QUEUE_ID_MAX, SYS_COMMIT, SYS_TRANSACTION_MASK
from dueline.store import restore
from dueline.store.copies import COPY_KERNELS, copied
from dueline.store.schema import MESSAGE_SCHEMA, ROUTE_NAMES, WINDOW_SCHEMA
from dueline.store.targets import Targets, queue_id_faults

__all__ = ["carried"]

_UNKNOWN_QUEUE: Final = -1


def carried(window: pa.RecordBatch, routed: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """DELIVERY rows of ROUTED rows (sound as Arrow data), in no order.

    Args:
        window: WINDOW rows of the same messages in the same order, as the store has them.
    """
    copy_kernels = compiled.ready(COPY_KERNELS)
    if copy_kernels is not None and len(routed.schema) == len(ROUTE_NAMES):
        copies, rest = copied(copy_kernels, window, routed)
        if copies is not None:
            yield copies
        if not bool(rest.any()):
            return
        chosen = pa.array(rest)
        window, routed = window.filter(chosen), routed.filter(chosen)
    lost = restore.damaged(window) | restore.forbidden(window)
    if bool(lost.any()):
        yield restore.dead_letters(window.filter(pa.array(lost)))
        kept = pa.array(~lost)
        window, routed = window.filter(kept), routed.filter(kept)
    if len(routed.schema) > len(ROUTE_NAMES):
        yield from _encoded(_changed(window, routed))
        return
    yield from _copied(window, routed)


def _copied(window: pa.RecordBatch, routed: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """DELIVERY rows of sound records that nobody has changed."""
    astray = _route_faults(routed)
    if bool(astray.any()):
        chosen = pa.array(astray)
        yield from _encoded(_changed(window.filter(chosen), routed.filter(chosen)))
        chosen = pa.array(~astray)
        window, routed = window.filter(chosen), routed.filter(chosen)
    yield restore.deliveries(_rerouted(window, routed))


def _route_faults(routed: pa.RecordBatch) -> npt.NDArray[np.bool_]:
    return Targets.of(routed.column("topic")).bad() | queue_id_faults(_queue_ids(routed))


def _queue_ids(rows: pa.RecordBatch) -> npt.NDArray[np.int32]:
    result: npt.NDArray[np.int32] = pc.fill_null(rows.column("queue_id"), _UNKNOWN_QUEUE).to_numpy()
    return result


def _rerouted(window: pa.RecordBatch, routed: pa.RecordBatch) -> pa.RecordBatch:
    """The window with other topics and queues."""
    columns = [
        (routed if name in ROUTE_NAMES else window).column(name) for name in WINDOW_SCHEMA.names
    ]
    return pa.RecordBatch.from_arrays(columns, schema=WINDOW_SCHEMA)


def _changed(window: pa.RecordBatch, routed: pa.RecordBatch) -> pa.RecordBatch:
    """MESSAGE rows: the columns of the rows, and the others as they were sent."""
    given = set(routed.schema.names)
    kept = pa.schema([field for field in MESSAGE_SCHEMA if field.name not in given])
    sent = restore.messages(window, kept)
    columns = [(routed if name in given else sent).column(name) for name in MESSAGE_SCHEMA.names]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


def _encoded(messages: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Encode all; if one row is refused, halve until it stands alone and make it a dead letter."""
    try:
        _check(messages)
        yield restore.encode_deliveries(messages)
        return
    except BrokerError as error:
        if messages.num_rows == 1:
            yield restore.encode_deliveries(_dead_letter(messages, error.message))
            return
    middle = messages.num_rows // 2
    yield from _encoded(messages.slice(0, middle))
    yield from _encoded(messages.slice(middle))


def _check(messages: pa.RecordBatch) -> None:
    """Refuse topics and queues that nobody may deliver to, and messages that nobody may see.

    Raises:
        InvalidRequest: a row has such a one.
    """
    Targets.of(messages["topic"]).check()
    queue_ids = _queue_ids(messages)
    if bool(queue_id_faults(queue_ids).any()):
        raise InvalidRequest(
            f"queue_id: expected 0 to {QUEUE_ID_MAX}, found {queue_ids.min()} to {queue_ids.max()}"
        )
    kinds = pc.fill_null(messages["sys_flag"], 0).to_numpy() & SYS_TRANSACTION_MASK
    if bool(((kinds != 0) & (kinds != SYS_COMMIT)).any()):
        raise InvalidRequest("sys_flag: expected no half message, found one")


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
