"""A held message: how often it was tried, and its fields with and without decoding it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.store.recording import make_record

from dueline.broker.inflight import Held
from dueline.store import Record
from dueline.store.record import MAGIC_LONG_TOPIC, MARK_DELAYED, MARK_PRESENT, seal

HOST_V6 = bytes(range(20))


def held(record: Record, attempt: int = 1) -> Held:
    return Held(seal(record), receipt="r", attempt=attempt, visible_ms=0)


@pytest.mark.parametrize(
    ("refused", "attempt", "retries"),
    [(0, 1, 0), (0, 3, 2), (2, 1, 2), (2**31 - 1, 1, 2**31 - 1), (2**31 - 1, 5, 2**31 - 1)],
)
def test_retries_are_those_of_both_protocols_in_31_bits(
    refused: int, attempt: int, retries: int
) -> None:
    assert held(make_record(reconsume_times=refused), attempt).retry_count == retries


@pytest.mark.parametrize(
    ("fields", "is_plain", "is_compressed"),
    [
        ({}, True, False),
        ({"properties": b"", "body": b""}, True, False),
        ({"mark": MARK_PRESENT | MARK_DELAYED | 7}, True, False),
        ({"sys_flag": 0x10, "born_host": HOST_V6}, False, False),
        ({"sys_flag": 0x20, "store_host": HOST_V6}, False, False),
        ({"sys_flag": 0x31, "born_host": HOST_V6, "store_host": HOST_V6}, False, True),
        ({"magic": MAGIC_LONG_TOPIC, "topic": b"t" * 300}, False, False),
        ({"sys_flag": 1}, False, True),
    ],
)
def test_fields_are_those_of_the_record(
    fields: dict[str, Any], is_plain: bool, is_compressed: bool
) -> None:
    record = make_record(**{"properties": b"own\x01x\x02KEYS\x01k\x02", **fields})

    found = held(record)

    assert found.record.body == record.body
    assert found.properties == ({} if not record.properties else {"own": "x", "KEYS": "k"})
    assert found.is_compressed == is_compressed
    plain = found.plain()
    assert (plain is not None) == is_plain
    if plain is not None:
        assert plain == (
            record.queue_id,
            record.queue_offset,
            record.born_ms,
            record.born_host,
            record.store_ms,
            record.store_host,
            record.reconsume_times,
            record.mark & MARK_DELAYED != 0,
            record.body,
        )
