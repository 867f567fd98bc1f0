"""One entry of a log as lines for people or as a JSON object for programs."""

from __future__ import annotations

import base64
import codecs
import zlib
from typing import Any, Final

from dueline.errors import CorruptRecord
from dueline.message import SYS_COMPRESSED, SYS_TRANSACTION_MASK, decode_properties, format_host
from dueline.store import control
from dueline.store.inspection import DAMAGE, GAP, Entry
from dueline.store.outcomes import Outcomes
from dueline.store.record import Record
from dueline.times import show_span, show_time

__all__ = ["as_json", "as_lines"]

_INDENT: Final = " " * 14
_PREVIEW_BYTES: Final = 100
_INFLATE_BYTES_MAX: Final = 1 << 20
_NUMBERS_MAX: Final = 12
_CONTROLS: Final = {control.END: "end", control.CANCEL: "cancel", control.EXPIRE: "expire"}
_KINDS: Final = {0x4: "half", 0x8: "committed", 0xC: "rolled back"}


def as_lines(entry: Entry, outcomes: Outcomes, now_ms: int) -> list[str]:
    """Lines for people, with the text of strangers as it is: `say` makes it safe."""
    head = f"{entry.position:>12}  "
    if entry.kind == DAMAGE:
        end = entry.position + entry.size
        return [f"{head}DAMAGE up to {end} ({entry.size} bytes): {entry.reason}"]
    if entry.record is None:
        what = "gap: compacted away" if entry.kind == GAP else "blank: goes on in the next segment"
        return [f"{head}{what} ({entry.size} bytes)"]
    record = entry.record
    if control.is_control(record):
        return [f"{head}control: {_control_text(record)} ({entry.size} bytes)"]
    topic = record.topic.decode("utf-8", "replace")
    lines = [
        f"{head}{topic}/{record.queue_id} @{record.queue_offset}  "
        f"stored {_time(record.store_ms)}  {entry.size} bytes{_flags(record)}"
    ]
    delay = _delay_text(record, outcomes, now_ms)
    if delay:
        lines.append(_INDENT + delay)
    properties = decode_properties(record.properties)
    if properties:
        entries = "  ".join(f"{name}={value}" for name, value in properties.items())
        lines.append(_INDENT + entries)
    lines.append(f"{_INDENT}body, {len(record.body)} bytes: {_preview(record)}")
    return lines


def as_json(entry: Entry, log_name: str, outcomes: Outcomes) -> dict[str, Any]:
    """An object for programs; times in milliseconds since 1970."""
    found: dict[str, Any] = {
        "log": log_name,
        "kind": entry.kind,
        "position": entry.position,
        "size": entry.size,
    }
    if entry.reason:
        found["reason"] = entry.reason
    if entry.record is None:
        return found
    record = entry.record
    if control.is_control(record):
        return {**found, "kind": "control", **_control_fields(record)}
    properties = decode_properties(record.properties)
    found |= {
        "topic": record.topic.decode("utf-8", "replace"),
        "queue_id": record.queue_id,
        "queue_offset": record.queue_offset,
        "store_ms": record.store_ms,
        "born_ms": record.born_ms,
        "born_host": format_host(record.born_host),
        "store_host": format_host(record.store_host),
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "reconsume_times": record.reconsume_times,
        "properties": properties,
        "body_base64": base64.b64encode(record.body).decode("ascii"),
    }
    due_ms = outcomes.due_ms(record)
    if due_ms is not None:
        found |= {"due_ms": due_ms, "real_topic": properties.get("REAL_TOPIC")}
        found["real_queue_id"] = properties.get("REAL_QID")
    if record.seq is not None:
        found |= {"seq": record.seq, "state": outcomes.state_of(record.seq)}
    return found


def _delay_text(record: Record, outcomes: Outcomes, now_ms: int) -> str:
    parts = []
    due_ms = outcomes.due_ms(record)
    if due_ms is not None:
        properties = decode_properties(record.properties)
        parts.append(f"for {properties['REAL_TOPIC']}/{properties.get('REAL_QID', '0')}")
        parts.append(f"due {_time(due_ms)}")
        if due_ms > now_ms:
            parts.append(f"in {show_span(due_ms - now_ms)}")
    if record.seq is not None:
        parts.append(f"number {record.seq}")
        state = outcomes.state_of(record.seq)
        if state is not None:
            parts.append(state)
        if due_ms is None and record.store_ms > now_ms and state == "delivered":
            parts.append(f"waits at the gate for another {show_span(record.store_ms - now_ms)}")
    return ", ".join(parts)


def _control_text(record: Record) -> str:
    try:
        entry = control.decode(record)
    except CorruptRecord as error:
        return error.message
    numbers = _numbers(entry.numbers.tolist())
    if entry.kind != control.END:
        return f"{'cancelled' if entry.kind == control.CANCEL else 'expired'} {numbers}"
    text = f"end of a group of {entry.count} records from {entry.start} on"
    return f"{text}; done without a delivery: {numbers}" if len(entry.numbers) else text


def _control_fields(record: Record) -> dict[str, Any]:
    try:
        entry = control.decode(record)
    except CorruptRecord as error:
        return {"reason": error.message}
    return {
        "control": _CONTROLS[entry.kind],
        "start": entry.start,
        "count": entry.count,
        "numbers": entry.numbers.tolist(),
        "store_ms": record.store_ms,
    }


def _numbers(numbers: list[int]) -> str:
    shown = ", ".join(str(number) for number in numbers[:_NUMBERS_MAX])
    rest = len(numbers) - _NUMBERS_MAX
    return f"{shown} and {rest} more" if rest > 0 else shown


def _flags(record: Record) -> str:
    words = [_KINDS.get(record.sys_flag & SYS_TRANSACTION_MASK, "")]
    if record.reconsume_times:
        words.append(f"retry {record.reconsume_times}")
    return "".join(f"  {word}" for word in words if word)


def _preview(record: Record) -> str:
    """The beginning of the body as one line of text, or as hexadecimal digits."""
    body, note = record.body, ""
    if record.sys_flag & SYS_COMPRESSED:
        try:
            body = zlib.decompressobj().decompress(body, _INFLATE_BYTES_MAX)
            note = "(compressed) "
        except zlib.error:
            return f"(compressed) {body[:_PREVIEW_BYTES].hex()}"
    shown = body[:_PREVIEW_BYTES]
    more = "…" if len(body) > _PREVIEW_BYTES else ""
    try:
        # The last character may be cut in the middle: that is no reason to call the body binary.
        text = codecs.getincrementaldecoder("utf-8")().decode(shown, final=not more)
    except UnicodeDecodeError:
        return f"{note}{shown.hex()}{more}"
    return f"{note}{text}{more}" if "\0" not in text else f"{note}{shown.hex()}{more}"


def _time(time_ms: int) -> str:
    try:
        return show_time(time_ms)
    except (OverflowError, OSError, ValueError):
        return f"{time_ms} ms"
