"""Records to put into tests, with every field that a test does not care for filled in."""

from __future__ import annotations

from typing import Any

from dueline.message import HOST_UNKNOWN
from dueline.store.record import MARK_PRESENT, Record

DEFAULTS: dict[str, Any] = {
    "queue_id": 1,
    "flag": 0,
    "queue_offset": 0,
    "position": 0,
    "sys_flag": 0,
    "born_ms": 1_700_000_000_000,
    "born_host": HOST_UNKNOWN,
    "store_ms": 1_700_000_000_001,
    "store_host": HOST_UNKNOWN,
    "reconsume_times": 0,
    "mark": MARK_PRESENT,
    "body": b"body",
    "topic": b"orders",
    "properties": b"",
}


def make_record(**fields: Any) -> Record:
    return Record(**{**DEFAULTS, **fields})
