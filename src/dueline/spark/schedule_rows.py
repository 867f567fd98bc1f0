"""Rows of a user's DataFrame as messages to schedule, and what is wrong with each of them.

    topic        string             required
    body         binary or string   required
    deliver_at   timestamp          ┐
    delay        '30m', '1h 30m' or an interval  ├ exactly one of them in each row
    delay_level  integer            ┘
    queue_id     integer            default 0
    tags         string
    keys         string (words) or array of strings
    properties   map of strings
    unique_id    string             made by the broker if null

A time with microseconds is rounded up: never early. One that is more than a minute past when the
job starts is refused (`dueline.times`). Everything is checked here, in the tasks, as
arrays, so that a bad row is named (or set aside) before anything reaches the broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline.admission import BULK_PROPERTIES, check_sender_target
from dueline.errors import InvalidRequest
from dueline.flight.protocol import Description
from dueline.message import QUEUE_ID_MAX
from dueline.schedule import DELAY_NAMES
from dueline.store.schema import SCHEDULE_SCHEMA
from dueline.store.targets import Targets, queue_id_faults
from dueline.times import PAST_MS_MAX, parse_duration_ms, show_span, show_time

__all__ = ["COLUMNS", "Checked", "check_columns", "checked"]

COLUMNS: Final = (
    "topic",
    "body",
    "deliver_at",
    "delay",
    "delay_level",
    "queue_id",
    "tags",
    "keys",
    "properties",
    "unique_id",
)
_WHEN: Final = ("deliver_at", "delay", "delay_level")
_TEXT_SIZE_MAX: Final = 32_000
"""A record holds 32,767 bytes of properties; the broker adds some of its own."""

_RESERVED: Final = (
    *sorted(DELAY_NAMES),
    *sorted(BULK_PROPERTIES - DELAY_NAMES),
    "UNIQ_KEY",
)
_SEPARATORS: Final = "[\x01\x02]"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """`rows` are SCHEDULE rows; `faults` says of each row given what is wrong with it, or null."""

    rows: pa.RecordBatch
    faults: pa.StringArray


class _Faults:
    """The first fault found of each row."""

    def __init__(self, count: int) -> None:
        self.reasons: pa.StringArray = pa.nulls(count, pa.string())

    def add(self, is_bad: Any, reason: Any) -> None:
        reason = pa.scalar(reason, pa.string()) if isinstance(reason, str) else reason
        self.reasons = pc.coalesce(
            self.reasons,
            pc.if_else(pc.fill_null(is_bad, False), reason, pa.scalar(None, pa.string())),
        )


def check_columns(names: list[str]) -> None:
    """Refuse a DataFrame whose columns cannot be what the user means.

    Raises:
        InvalidRequest: a required column is missing, or one is not known.
    """
    missing = [name for name in ("topic", "body") if name not in names]
    if not any(name in names for name in _WHEN):
        missing.append(" or ".join(_WHEN))
    unknown = [name for name in names if name not in COLUMNS]
    if missing or unknown:
        raise InvalidRequest(
            f"bulk write: expected topic, body, one of {', '.join(_WHEN)} and any of "
            f"{', '.join(COLUMNS[5:])}, found unknown {unknown}, missing {missing}",
            missing=missing,
            unknown=unknown,
        )


def checked(batch: pa.RecordBatch, limits: Description) -> Checked:
    """Check every row and make SCHEDULE rows of the good ones."""
    count = batch.num_rows
    faults = _Faults(count)
    columns = {name: batch.column(name) for name in batch.schema.names}
    made: dict[str, Any] = {}
    for name, column in columns.items():
        made.update(_MAKERS[name](column, faults, limits))
    said = sum(columns[name].is_valid().to_numpy(zero_copy_only=False) for name in _given(columns))
    faults.add(pa.array(said == 0), f"expected one of {', '.join(_WHEN)}, found none")
    faults.add(pa.array(said > 1), f"expected one of {', '.join(_WHEN)}, found several")
    rows = pa.RecordBatch.from_arrays(
        [made.get(field.name, pa.nulls(count, field.type)) for field in SCHEDULE_SCHEMA],
        names=SCHEDULE_SCHEMA.names,
    )
    good = rows.filter(faults.reasons.is_null()) if faults.reasons.null_count < count else rows
    return Checked(
        rows=pa.RecordBatch.from_arrays(good.columns, schema=SCHEDULE_SCHEMA),
        faults=faults.reasons,
    )


def _given(columns: dict[str, Any]) -> list[str]:
    return [name for name in _WHEN if name in columns]


def _topic(column: pa.Array, faults: _Faults, limits: Description) -> dict[str, Any]:
    topic = _cast("topic", column, pa.string())
    reasons = Targets.of(topic, check_sender_target).reasons()
    faults.add(reasons.is_valid(), reasons)
    return {"topic": topic}


def _body(column: pa.Array, faults: _Faults, limits: Description) -> dict[str, Any]:
    body = _cast("body", column, pa.binary())
    faults.add(body.is_null(), "body: expected bytes, found null")
    faults.add(
        pc.greater(pc.binary_length(body), limits.body_size_bytes_max),
        f"body: expected at most {limits.body_size_bytes_max} bytes, found more",
    )
    return {"body": body}


def _deliver_at(column: pa.Array, faults: _Faults, limits: Description) -> dict[str, Any]:
    if not pa.types.is_timestamp(column.type):
        raise _wrong_type("deliver_at", "a timestamp", column.type)
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    # Floor of (us + 999) / 1000 is the ceiling; shifting instead of dividing would cut to zero.
    numbers = pc.fill_null(micros, 0).to_numpy()
    at_ms = pa.array(-(-numbers // 1000), mask=~micros.is_valid().to_numpy(zero_copy_only=False))
    latest_ms = limits.now_ms + limits.delay_ms_max
    faults.add(
        pc.greater(at_ms, latest_ms),
        f"deliver_at: {_at_most(limits)} from now, found more",
    )
    past = pc.less(at_ms, limits.now_ms - PAST_MS_MAX)
    if pc.any(past).as_py():
        earliest = show_time(pc.min(at_ms).as_py())
        faults.add(
            past, f"deliver_at: expected a time to come, found the past (from {earliest} on)"
        )
    return {"deliver_at_ms": at_ms}


def _delay(column: pa.Array, faults: _Faults, limits: Description) -> dict[str, Any]:
    if pa.types.is_duration(column.type):
        micros = column.cast(pa.duration("us")).cast(pa.int64())
        numbers = pc.fill_null(micros, 0).to_numpy()
        delay_ms = pa.array(
            -(-numbers // 1000), mask=~micros.is_valid().to_numpy(zero_copy_only=False)
        )
    elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        delay_ms = _parsed(column, faults)
    else:
        raise _wrong_type("delay", "text such as '30m' or an interval", column.type)
    faults.add(pc.less(delay_ms, 0), "delay: expected 0 or more, found less")
    faults.add(
        pc.greater(delay_ms, limits.delay_ms_max),
        f"delay: {_at_most(limits)}, found more",
    )
    return {"delay_ms": delay_ms}


def _at_most(limits: Description) -> str:
    return f"expected at most {show_span(limits.delay_ms_max)} (the broker's store.delay_max)"


def _parsed(column: pa.Array, faults: _Faults) -> pa.Array:
    """Durations in words; each distinct one is parsed once."""
    encoded = column.dictionary_encode()
    values: list[int | None] = []
    reasons: list[str | None] = []
    for text in encoded.dictionary.to_pylist():
        try:
            values.append(parse_duration_ms(text))
            reasons.append(None)
        except InvalidRequest as error:
            values.append(None)
            reasons.append(f"delay: {error.message}")
    found = pa.array(reasons, pa.string()).take(encoded.indices)
    faults.add(found.is_valid(), found)
    return pa.array(values, pa.int64()).take(encoded.indices)


def _delay_level(column: pa.Array, faults: _Faults, limits: Description) -> dict[str, Any]:
    level = _cast("delay_level", column, pa.int64())
    is_bad = pc.or_(pc.less(level, 0), pc.greater(level, 1 << 20))
    faults.add(is_bad, "delay_level: expected 0 or more, found less (or nonsense)")
    return {"delay_level": pc.if_else(is_bad, pa.scalar(0, pa.int64()), level).cast(pa.int32())}


def _queue_id(column: pa.Array, faults: _Faults, limits: Description) -> dict[str, Any]:
    queue_id = _cast("queue_id", column, pa.int64())
    is_bad = pa.array(queue_id_faults(pc.fill_null(queue_id, 0).to_numpy()))
    faults.add(is_bad, f"queue_id: expected 0 to {QUEUE_ID_MAX}, found another")
    return {"queue_id": pc.if_else(is_bad, pa.scalar(0, pa.int64()), queue_id).cast(pa.int32())}


def _text(name: str) -> Callable[[pa.Array, _Faults, Description], dict[str, Any]]:
    def make(column: pa.Array, faults: _Faults, limits: Description) -> dict[str, Any]:
        text = _cast(name, column, pa.string())
        _check_text(name, text, faults)
        return {name: text}

    return make


def _keys(column: pa.Array, faults: _Faults, limits: Description) -> dict[str, Any]:
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        faults.add(
            _any_of(column, pc.match_substring_regex(column.flatten(), r"^$|\s")),
            "keys: expected words, found one that is empty or has spaces",
        )
        column = pc.binary_join(column.cast(pa.list_(pa.string())), " ")
    text = _cast("keys", column, pa.string())
    _check_text("keys", text, faults)
    return {"keys": text}


def _properties(column: pa.Array, faults: _Faults, limits: Description) -> dict[str, Any]:
    if not pa.types.is_map(column.type):
        raise _wrong_type("properties", "a map of strings", column.type)
    maps = column.cast(SCHEDULE_SCHEMA.field("properties").type)
    names, values = _entries(maps)
    is_dirty = pc.or_(
        pc.match_substring_regex(names, f"^$|{_SEPARATORS}"),
        pc.match_substring_regex(pc.fill_null(values, ""), _SEPARATORS),
    )
    faults.add(
        _any_of(maps, is_dirty),
        "properties: expected names and values without the bytes 0x01 and 0x02 and no empty name",
    )
    is_reserved = pc.is_in(names, pa.array(_RESERVED))
    faults.add(
        _any_of(maps, is_reserved),
        f"properties: expected none of {', '.join(_RESERVED)}, found one; when a message is due is "
        "said by columns",
    )
    sizes = pc.add(pc.binary_length(names), pc.fill_null(pc.binary_length(values), 0)).to_numpy()
    totals = np.bincount(_rows_of(maps), weights=sizes + 2, minlength=len(maps))
    faults.add(
        pa.array(totals > _TEXT_SIZE_MAX),
        f"properties: expected at most {_TEXT_SIZE_MAX} bytes, found more",
    )
    return {"properties": maps}


_MAKERS: Final[dict[str, Callable[[pa.Array, _Faults, Description], dict[str, Any]]]] = {
    "topic": _topic,
    "body": _body,
    "deliver_at": _deliver_at,
    "delay": _delay,
    "delay_level": _delay_level,
    "queue_id": _queue_id,
    "tags": _text("tags"),
    "keys": _keys,
    "properties": _properties,
    "unique_id": _text("unique_id"),
}


def _check_text(name: str, text: pa.Array, faults: _Faults) -> None:
    faults.add(
        pc.match_substring_regex(text, _SEPARATORS),
        f"{name}: expected text without the bytes 0x01 and 0x02, found one",
    )
    faults.add(
        pc.greater(pc.binary_length(text), _TEXT_SIZE_MAX // 4),
        f"{name}: expected at most {_TEXT_SIZE_MAX // 4} bytes, found more",
    )


def _entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array]:
    """Names and values of all rows that are not null, in order."""
    structs = maps.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
    flat = structs.flatten()
    return flat.field("key"), flat.field("value")


def _rows_of(lists: pa.Array) -> npt.NDArray[np.int64]:
    """The row of each entry of a list or map array."""
    lengths = pc.fill_null(pc.list_value_length(_as_list(lists)), 0).to_numpy()
    return np.repeat(np.arange(len(lists)), lengths)


def _any_of(lists: pa.Array, is_bad: pa.Array) -> pa.Array:
    """Whether a row has a bad entry."""
    flags = pc.fill_null(is_bad, False).to_numpy(zero_copy_only=False)
    bad = np.bincount(_rows_of(lists)[flags], minlength=len(lists)) > 0
    return pa.array(bad)


def _as_list(array: pa.Array) -> pa.Array:
    if not pa.types.is_map(array.type):
        return array
    return array.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))


def _cast(name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _wrong_type(name, str(kind), column.type) from error


def _wrong_type(name: str, expected: str, found: pa.DataType) -> InvalidRequest:
    return InvalidRequest(f"column {name}: expected {expected}, found {found}", field=name)
