"""Many new delayed messages as one Arrow table: the array form of `dueline.store.draft`.

Columns are those of `SCHEDULE_SCHEMA`; only `topic` and `body` are required. A row says when it is
due by `deliver_at_ms`, `delay_ms` or `delay_level` (exactly one of them, or none: at once). Its
`properties` may hold its tags, keys and unique id as well; what they say of when and where is left
out, since that is for the columns to say.
Everything goes through the delay log, also what is due at once, so that a table is accepted as a
whole or not at all.

`prepare` finds everything that can be refused and needs no lock: what its rows are, and how long
their records will be. `finish` then makes the records' bytes, when the log has decided on
positions, times and numbers. The usual rows are not encoded before that
(`dueline.store.bulk_rows`), so that a large table never is in memory twice; all others are encoded
by `encode`, and `finish` fills in the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline.admission import BULK_PROPERTIES, check_sender_target
from dueline.errors import InvalidRequest, LimitExceeded
from dueline.message import (
    HOST_UNKNOWN,
    LEVEL_TOPIC,
    QUEUE_ID_MAX,
    SYS_STORE_HOST_V6,
    TIMER_TOPIC,
    UniqueIds,
)
from dueline.schedule import DUE_NAME, LEVEL_NAME, REAL_QUEUE_NAME, REAL_TOPIC_NAME, too_far
from dueline.store import kernels, properties, stamp
from dueline.store.bulk_rows import BulkRows, Finished, Places, UsualRows, made_ids
from dueline.store.draft import Rules
from dueline.store.kernels import HEADER_DTYPE, Int32s, Int64s
from dueline.store.layout import HEADER_SIZE, HOST_SIZE, RECONSUME_TIMES_AT, STORE_HOST_AT
from dueline.store.record import MAGIC, MARK_DELAYED, MARK_GROUP, MARK_PRESENT
from dueline.store.restore import check_rows
from dueline.store.schema import SCHEDULE_SCHEMA
from dueline.store.targets import Targets, queue_id_faults

__all__ = ["Bulk", "Prepared", "encode", "prepare"]

_WHEN: Final = ("deliver_at_ms", "delay_ms", "delay_level")
_SAID_BY_COLUMNS: Final = BULK_PROPERTIES | {"UNIQ_KEY", "KEYS", "TAGS"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulk:
    """Encoded rows: `data` is their bytes, row i at starts[i]; topics are `names[topic[i]]`."""

    data: npt.NDArray[np.uint8]
    starts: Int64s
    sizes: Int64s
    due_ms: Int64s
    level: Int32s
    topic: Int32s
    names: list[str]
    queue_id: Int32s
    key_hashes: pa.ListArray
    unique_ids: pa.Array

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def size_bytes_max(self) -> int:
        """The largest record's size."""
        return int(self.sizes.max(initial=0))

    @property
    def room_bytes(self) -> int:
        """`finish` needs no memory: the records are here."""
        return 0

    def finish(self, places: Places, room: npt.NDArray[np.uint8]) -> Finished:
        """Fill in what the log decided, in place."""
        count = len(self)
        seqs = np.arange(places.first_seq, places.first_seq + count, dtype=np.uint64)
        stamp.restamp(
            self.data,
            self.starts,
            positions=places.positions,
            store_ms=np.full(count, places.store_ms, dtype=np.int64),
            queue_offsets=places.queue_offsets,
            marks=seqs | np.uint64(MARK_PRESENT | MARK_DELAYED | MARK_GROUP),
        )
        owners = np.repeat(places.positions, kernels.lengths_of(self.key_hashes))
        return Finished(data=self.data, hashes=self.key_hashes.flatten().to_numpy(), owners=owners)


Prepared = Bulk | UsualRows


def prepare(
    table: pa.Table, *, now_ms: int, rules: Rules, ids: UniqueIds, store_host: bytes
) -> Prepared:
    """Rows that can be put: encoded when they are, if they are of the usual kind.

    Raises:
        InvalidRequest, LimitExceeded: names the first bad row and the reason; nothing was changed.
    """
    rows = _rows(table, now_ms, rules)
    usual = UsualRows.of(rows, now_ms=now_ms, ids=ids, store_host=store_host)
    if usual is not None:
        return usual
    return _encoded(rows, now_ms=now_ms, ids=ids, store_host=store_host)


def encode(
    table: pa.Table, *, now_ms: int, rules: Rules, ids: UniqueIds, store_host: bytes
) -> Bulk:
    """Encode a table of messages of any kind; what `prepare` refuses is refused here.

    Raises:
        InvalidRequest, LimitExceeded: names the first bad row and the reason; nothing was changed.
    """
    rows = _rows(table, now_ms, rules)
    return _encoded(rows, now_ms=now_ms, ids=ids, store_host=store_host)


def _rows(table: pa.Table, now_ms: int, rules: Rules) -> BulkRows:
    """The rows of a table, looked at."""
    columns = _columns(table)
    due_ms, level = _due(columns, now_ms, rules)
    names, topic = _topics(columns["topic"])
    queue_id = _queue_ids(columns, table.num_rows)
    _check_bodies(pc.binary_length(columns["body"]).to_numpy(), rules)
    _take_from_map(columns)
    return BulkRows(
        columns=columns, due_ms=due_ms, level=level, names=names, topic=topic, queue_id=queue_id
    )


def _encoded(rows: BulkRows, *, now_ms: int, ids: UniqueIds, store_host: bytes) -> Bulk:
    columns, level = rows.columns, rows.level
    count = len(level)
    unique_ids = _unique_ids(columns, count, ids)
    texts = _texts(rows, unique_ids)
    check_rows(np.ones(count, dtype=np.int64), pc.binary_length(texts).to_numpy())
    tail = kernels.join(
        _log_topics(level),
        kernels.fixed_rows(pc.binary_length(texts).to_numpy().astype(">u2")),
        texts,
    )
    records = _records(columns["body"], tail, level=level, now_ms=now_ms, store_host=store_host)
    data, offsets = kernels.buffer_of(records)
    data = data[: offsets[-1]]
    stamp.seal(
        data,
        offsets[:-1],
        offsets[1:],
        marks=np.full(count, MARK_PRESENT, dtype=np.uint64),
        store_ms=np.zeros(count, dtype=np.int64),
    )
    return Bulk(
        data=data,
        starts=offsets[:-1],
        sizes=np.diff(offsets),
        due_ms=rows.due_ms,
        level=level,
        topic=rows.topic,
        names=rows.names,
        queue_id=rows.queue_id,
        key_hashes=properties.key_hashes(
            unique_ids, columns.get("keys", pa.nulls(count, pa.string()))
        ),
        unique_ids=unique_ids,
    )


def _records(
    bodies: pa.BinaryArray,
    tail: pa.BinaryArray,
    *,
    level: Int32s,
    now_ms: int,
    store_host: bytes,
) -> pa.BinaryArray:
    """Whole records, not yet sealed."""
    count = len(bodies)
    body_data, body_offsets = kernels.buffer_of(bodies)
    headers = np.zeros(count, dtype=HEADER_DTYPE)
    headers["magic"] = MAGIC
    headers["crc"] = kernels.body_crcs(body_data, body_offsets[:-1], body_offsets[1:])
    headers["queue_id"] = np.where(level > 0, level - 1, 0)
    headers["born_ms"] = now_ms
    headers["born_host"] = np.void(HOST_UNKNOWN)
    headers["sys_flag"] = SYS_STORE_HOST_V6 if len(store_host) > HOST_SIZE else 0
    headers["mark"] = MARK_PRESENT
    headers["body_size"] = np.diff(body_offsets)
    headers["size"] = HEADER_SIZE - HOST_SIZE + len(store_host) + np.diff(body_offsets)
    headers["size"] += pc.binary_length(tail).to_numpy().astype(np.uint32)
    raw = headers.view(np.uint8).reshape(count, HEADER_SIZE)
    return kernels.join(
        kernels.fixed_rows(raw[:, :STORE_HOST_AT]),
        pa.scalar(store_host, pa.binary()),
        kernels.fixed_rows(raw[:, RECONSUME_TIMES_AT:]),
        bodies,
        tail,
    )


def _columns(table: pa.Table) -> dict[str, Any]:
    known = {field.name: field.type for field in SCHEDULE_SCHEMA}
    unknown = [name for name in table.column_names if name not in known]
    missing = [name for name in ("topic", "body") if name not in table.column_names]
    if unknown or missing:
        raise InvalidRequest(
            f"columns: expected topic, body and some of {sorted(set(known) - {'topic', 'body'})}, "
            f"found unknown {unknown}, missing {missing}",
            field="columns",
        )
    columns = {}
    for name in table.column_names:
        column = table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = (
                pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], known[name])
            )
        try:
            columns[name] = column.cast(known[name])
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InvalidRequest(
                f"column {name}: expected {known[name]}, found {column.type}: {error}", field=name
            ) from error
    for name in ("topic", "body"):
        if columns[name].null_count:
            row = int(np.flatnonzero(columns[name].is_null().to_numpy(zero_copy_only=False))[0])
            raise InvalidRequest(f"row {row}: {name}: expected a value, found null", row=row)
    # A column without a value says what a missing one says.
    return {
        name: column
        for name, column in columns.items()
        if name in ("topic", "body") or column.null_count < len(column)
    }


def _take_from_map(columns: dict[str, Any]) -> None:
    """Let tags, keys and unique id in the map of properties count where a column has none."""
    maps = columns.get("properties")
    if maps is None:
        return
    for column, name in (("unique_id", "UNIQ_KEY"), ("keys", "KEYS"), ("tags", "TAGS")):
        found = pc.map_lookup(maps, pa.scalar(name), "first")
        if found.null_count < len(found):
            own = columns.get(column)
            columns[column] = found if own is None else pc.coalesce(own, found)


def _due(columns: dict[str, Any], now_ms: int, rules: Rules) -> tuple[Int64s, Int32s]:
    count = len(columns["topic"])
    given = {name: columns[name] for name in _WHEN if name in columns}
    said = np.zeros(count, dtype=np.int64)
    for column in given.values():
        said += column.is_valid().to_numpy(zero_copy_only=False)
    if count and int(said.max()) > 1:
        row = int(np.argmax(said > 1))
        raise InvalidRequest(
            f"row {row}: expected one of {', '.join(_WHEN)}, found several", row=row
        )
    due_ms = np.full(count, now_ms, dtype=np.int64)
    if "deliver_at_ms" in given:
        at = pc.fill_null(given["deliver_at_ms"], now_ms).to_numpy()
        due_ms = np.maximum(at, due_ms)
    if "delay_ms" in given:
        delay = pc.fill_null(given["delay_ms"], 0).to_numpy()
        due_ms = np.where(delay > 0, now_ms + np.minimum(delay, 1 << 60), due_ms)
    level = np.zeros(count, dtype=np.int32)
    if "delay_level" in given:
        wanted = pc.fill_null(given["delay_level"], 0).to_numpy()
        level = np.clip(wanted, 0, rules.levels.level_max).astype(np.int32)
    bad = np.flatnonzero(due_ms - now_ms > rules.delay_max_ms)
    if len(bad):
        row = int(bad[0])
        found = int(due_ms[row]) - now_ms
        raise too_far(found, rules.delay_max_ms, where=f"row {row}: ", row=row)
    return due_ms, level


def _topics(topics: pa.StringArray) -> tuple[list[str], Int32s]:
    targets = Targets.of(topics, check_sender_target)
    targets.check()
    return targets.names, targets.indices


def _queue_ids(columns: dict[str, Any], count: int) -> Int32s:
    if "queue_id" not in columns:
        return np.zeros(count, dtype=np.int32)
    queue_id: Int32s = pc.fill_null(columns["queue_id"], 0).to_numpy()
    bad = np.flatnonzero(queue_id_faults(queue_id))
    if len(bad):
        row = int(bad[0])
        raise InvalidRequest(
            f"row {row}: queue id: expected 0 to {QUEUE_ID_MAX}, found {int(queue_id[row])}",
            row=row,
            field="queue_id",
        )
    return queue_id


def _check_bodies(sizes: Int64s, rules: Rules) -> None:
    bad = np.flatnonzero(sizes > rules.body_size_max)
    if len(bad):
        row = int(bad[0])
        raise LimitExceeded(
            f"row {row}: body: expected at most {rules.body_size_max} bytes, "
            f"found {int(sizes[row])}",
            row=row,
            limit=rules.body_size_max,
            found=int(sizes[row]),
        )


def _unique_ids(columns: Mapping[str, Any], count: int, ids: UniqueIds) -> pa.Array:
    made = made_ids(ids.prefix, ids.take(count), count)
    if "unique_id" not in columns:
        return made
    return pc.coalesce(_clean(columns["unique_id"], "unique_id").cast(pa.binary()), made)


def _texts(rows: BulkRows, unique_ids: pa.Array) -> pa.BinaryArray:
    """Property strings, in the order the scalar path would write them for the same message."""
    columns, level, queue_id, names = rows.columns, rows.level, rows.queue_id, rows.names
    count = len(level)
    named: dict[str, Any] = {"UNIQ_KEY": unique_ids}
    for column, name in (("keys", "KEYS"), ("tags", "TAGS")):
        if column in columns:
            named[name] = _clean(columns[column], name)
    by_level = pa.array(level > 0)
    if bool((level > 0).any()):
        named[LEVEL_NAME] = pc.if_else(by_level, pa.array(level).cast(pa.string()), None)
    if not bool((level > 0).all()):
        named[DUE_NAME] = pc.if_else(by_level, None, pa.array(rows.due_ms).cast(pa.string()))
    named[REAL_TOPIC_NAME] = (
        names[0].encode() if len(names) == 1 else pa.array(names).take(pa.array(rows.topic))
    )
    first = int(queue_id[0]) if count else 0
    named[REAL_QUEUE_NAME] = (
        str(first).encode()
        if bool((queue_id == first).all())
        else pa.array(queue_id).cast(pa.string())
    )
    maps = columns.get("properties")
    if maps is not None:
        _clean(maps.keys, "properties")
        _clean(maps.items, "properties")
    return properties.merge(count, named, maps, without=_SAID_BY_COLUMNS)


def _clean(column: pa.Array, name: str) -> pa.Array:
    """Refuse the separator bytes in names and values; null and empty both mean "not there"."""
    dirty = pc.match_substring_regex(pc.fill_null(column, ""), "[\x01\x02]")
    if pc.any(dirty, min_count=0).as_py():
        row = int(np.argmax(dirty.to_numpy(zero_copy_only=False)))
        raise InvalidRequest(
            f"{name}: expected text without the bytes 0x01 and 0x02, "
            f"found {column[row].as_py()!r:.100}",
            row=row,
            field=name,
        )
    return pc.if_else(pc.equal(pc.binary_length(column), 0), pa.scalar(None, column.type), column)


def _log_topics(level: Int32s) -> Any:
    """The size-prefixed delay topic of each row."""
    levels = bytes((len(LEVEL_TOPIC),)) + LEVEL_TOPIC.encode()
    timer = bytes((len(TIMER_TOPIC),)) + TIMER_TOPIC.encode()
    return pc.if_else(
        pa.array(level > 0), pa.scalar(levels, pa.binary()), pa.scalar(timer, pa.binary())
    )
