"""RocketMQ's record layout written down a second time, field by field: an oracle."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

STORE = Path(__file__).resolve().parent.parent / "data" / "store-4.9.8" / "store"
SEGMENT = STORE / "commitlog" / "00000000000000000000"


def java_hash(text: str) -> int:
    """String.hashCode, by the formula: sum of unit * 31^(units behind it), in 32 bits."""
    units = []
    for code in map(ord, text):
        if code < 0x10000:
            units.append(code)
        else:
            units += [0xD800 + (code - 0x10000 >> 10), 0xDC00 + (code - 0x10000 & 0x3FF)]
    total: int = sum(unit * 31**power for power, unit in enumerate(reversed(units))) % (1 << 32)
    return total - (1 << 32) if total >= 1 << 31 else total


def parse(data: bytes, at: int = 0) -> dict[str, Any]:
    """The fields of the record at `at`, and its properties as a map."""
    fields = parse_fields(data, at)
    text = fields["properties"].decode()
    fields["map"] = dict(entry.split("\x01", 1) for entry in text.split("\x02") if entry)
    return fields


def parse_fields(data: bytes, at: int = 0) -> dict[str, Any]:
    """The fields of the record at `at`, read one after the other."""
    fields: dict[str, Any] = {}
    start = at

    def take(name: str, code: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from(">" + code, data, at)
        at += struct.calcsize(">" + code)
        fields[name] = value
        return int(value)

    def take_bytes(name: str, size: int) -> bytes:
        nonlocal at
        fields[name] = data[at : at + size]
        at += size
        return fields[name]  # type: ignore[no-any-return]

    take("size", "i")
    take("magic", "I")
    take("crc", "i")
    take("queue_id", "i")
    take("flag", "i")
    take("queue_offset", "q")
    take("position", "q")
    sys_flag = take("sys_flag", "i")
    take("born_ms", "q")
    take_bytes("born_host", 16 if sys_flag & 0x10 else 4)
    take("born_port", "i")
    take("store_ms", "q")
    take_bytes("store_host", 16 if sys_flag & 0x20 else 4)
    take("store_port", "i")
    take("reconsume_times", "i")
    take("prepared", "q")
    body = take_bytes("body", take("body_size", "i"))
    take_bytes("topic", take("topic_size", "b"))
    take_bytes("properties", take("properties_size", "h"))
    assert at - start == fields["size"]
    assert fields["crc"] == zlib.crc32(body) & 0x7FFFFFFF
    return fields


def all_records() -> list[dict[str, Any]]:
    """The records of the golden commit log: up to the first bytes without the magic."""
    data = SEGMENT.read_bytes()
    found: list[dict[str, Any]] = []
    at = 0
    while data[at + 4 : at + 8] == b"\xda\xa3\x20\xa7":
        found.append(parse(data, at))
        at += found[-1]["size"]
    return found
