"""The ledger: one row for every delayed message within retention, with its outcome.

    pending, carried over    it waits; `due_ms` is when it is due
    delivered                where (`topic`, `queue_id`, `queue_offset`), when it became visible
                             (`visible_ms`), and `late_ms`
    cancelled, moved, expired, dropped    `ended_ms` is when, but of dropped ones that is not kept

Delivered messages are told from the commit log, so their `accepted_ms` is null (`sent_ms` is the
client's), and so is the due time of those that were sent with a delay level. The others are told
from the delay log, which keeps them until all that was accepted with them is done. Nothing is
locked: a message that moves on while the ledger is read may be in it twice, or in neither place.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dueline.broker.waiting.columns import Columns
from dueline.schedule import DUE_NAME, REAL_QUEUE_NAME, REAL_TOPIC_NAME
from dueline.store import Key, Store, properties
from dueline.store.ended import Ended
from dueline.store.record_columns import RecordColumns
from dueline.store.states import NAMES

__all__ = ["LEDGER_SCHEMA", "delivered_rows", "ended_rows", "ledger", "waiting_rows"]

CHUNK_ROWS: Final = 16_384
CHUNK_BYTES: Final = 16 << 20

LEDGER_SCHEMA: Final = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("outcome", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("queue_id", pa.int32()),
        pa.field("queue_offset", pa.int64()),
        pa.field("unique_id", pa.string()),
        pa.field("keys", pa.string()),
        pa.field("tags", pa.string()),
        pa.field("sent_ms", pa.int64()),
        pa.field("accepted_ms", pa.int64()),
        pa.field("due_ms", pa.int64()),
        pa.field("visible_ms", pa.int64()),
        pa.field("late_ms", pa.int64()),
        pa.field("ended_ms", pa.int64()),
    ]
)


def ledger(store: Store) -> Iterator[pa.RecordBatch]:
    """All rows, in bounded parts."""
    for batch, _, _ in waiting_rows(store):
        yield batch
    yield from ended_rows(store)
    for topic, queue_id in sorted(store.queues()):
        for batch, _, _ in delivered_rows(store, topic, queue_id):
            if len(batch):
                yield batch


def waiting_rows(
    store: Store, after: Key | None = None, *, topic: str | None = None, step: int = CHUNK_ROWS
) -> Iterator[tuple[pa.RecordBatch, Key, int]]:
    """What waits behind a key, up to which key, and how many rows were looked at."""
    survey = store.survey()
    topics = None if topic is None else survey.wanted(topic)
    for rows, edge in survey.slabs(after=after, step=step, topics=topics):
        if not len(rows):
            continue
        columns = Columns(survey, rows, with_records=True)
        batch = _batch(
            len(columns),
            number=columns.get("number"),
            outcome=columns.get("state"),
            topic=columns.get("topic"),
            queue_id=pa.array(columns.rows.units.queue_id),
            unique_id=columns.get("id"),
            keys=columns.get("key"),
            tags=columns.get("tag"),
            accepted_ms=columns.get("accepted"),
            due_ms=columns.get("due"),
        )
        yield batch, edge, len(batch)


def ended_rows(store: Store, after: int = -1) -> Iterator[pa.RecordBatch]:
    """What ended without being delivered, with a number behind this one; no part is empty."""
    for rows in store.numbers.ended():
        batch = _ended(rows)
        if after >= 0:
            batch = batch.filter(pc.greater(batch.column("number"), after))
        if len(batch):
            yield batch


def _ended(rows: Ended) -> pa.RecordBatch:
    names = [NAMES[state] for state in rows.states.tolist()]
    return _batch(
        len(rows.number),
        number=pa.array(rows.number),
        outcome=pa.array(names, pa.string()),
        topic=_text(rows.texts, REAL_TOPIC_NAME),
        queue_id=_text(rows.texts, REAL_QUEUE_NAME).cast(pa.int32()),
        unique_id=_text(rows.texts, "UNIQ_KEY"),
        keys=_text(rows.texts, "KEYS"),
        tags=_text(rows.texts, "TAGS"),
        sent_ms=pa.array(rows.born_ms),
        accepted_ms=pa.array(rows.accepted_ms),
        due_ms=pa.array(rows.due_ms),
        ended_ms=pa.array(rows.ended_ms, mask=rows.ended_ms == 0),
    )


def delivered_rows(
    store: Store, topic: str, queue_id: int, offset: int = 0
) -> Iterator[tuple[pa.RecordBatch, int, int]]:
    """What was delivered to a queue from an offset on; and the offsets that were looked at."""
    while True:
        batch, following = store.read_rows(
            topic, queue_id, offset, count_max=CHUNK_ROWS, size_bytes_max=CHUNK_BYTES
        )
        if following == offset:
            return
        yield _delivered(batch, topic, queue_id), offset, following
        offset = following


def _delivered(batch: pa.RecordBatch, topic: str, queue_id: int) -> pa.RecordBatch:
    """Of STORED rows, those that were delayed."""
    columns = RecordColumns(batch.column("record"))
    rows = np.flatnonzero(columns.is_delayed)
    texts = columns.texts.take(pa.array(rows))
    visible_ms = columns.headers["store_ms"][rows].astype(np.int64)
    due_ms = _text(texts, DUE_NAME).cast(pa.int64())
    late_ms = np.maximum(visible_ms - due_ms.fill_null(0).to_numpy(), 0)
    return _batch(
        len(rows),
        number=pa.array(columns.number[rows]),
        outcome=pa.repeat("delivered", len(rows)),
        topic=pa.repeat(topic, len(rows)),
        queue_id=pa.repeat(pa.scalar(queue_id, pa.int32()), len(rows)),
        queue_offset=batch.column("queue_offset").take(pa.array(rows)),
        unique_id=_text(texts, "UNIQ_KEY"),
        keys=_text(texts, "KEYS"),
        tags=_text(texts, "TAGS"),
        sent_ms=pa.array(columns.headers["born_ms"][rows].astype(np.int64)),
        due_ms=due_ms,
        visible_ms=pa.array(visible_ms),
        late_ms=pa.array(late_ms, mask=due_ms.is_null().to_numpy(zero_copy_only=False)),
    )


def _batch(count: int, **columns: Any) -> pa.RecordBatch:
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in LEDGER_SCHEMA
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=LEDGER_SCHEMA)


def _text(texts: pa.BinaryArray, name: str) -> pa.StringArray:
    return properties.text(properties.values(texts, name))
