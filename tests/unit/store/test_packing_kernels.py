"""Compiled packing and unpacking: what they write is what their plain twins write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from tests.unit.store import packing as making
from tests.unit.store.packing import DUE_MS, packed_of

from dueline import compiled
from dueline.message import TIMER_TOPIC
from dueline.store import packed
from dueline.store.kernels import read_only
from dueline.store.packed import PLACE_DUE_END, PLACE_WIDTH
from dueline.store.record import MARK_GROUP, MARK_NUMBER_MASK, Record
from dueline.store.unpacking import UNPACKING_KERNELS

pytest.importorskip("numba")

PACKING = "dueline.store.packing_kernels"


@pytest.fixture(scope="module")
def kernels() -> Any:
    assert compiled.load([PACKING, UNPACKING_KERNELS])
    return compiled.ready(PACKING)


def array_of(data: bytes) -> Any:
    return read_only(np.frombuffer(data, dtype=np.uint8))


def compiled_of(kernels: Any, record: Record, text: bytes) -> bytes | None:
    """What kernels write of a record whose ending says topic and queue."""
    is_timer = record.topic == TIMER_TOPIC.encode()
    places = np.full(PLACE_WIDTH, -1, dtype=np.int64)
    texts = b"before" + text + b"behind"
    start, end = 6, 6 + len(text)
    kept = kernels.find_places(array_of(texts), start, end, DUE_MS if is_timer else -1, places)
    if kept < 0:
        return None
    *_, topic, queue = [part.split(b"\x01")[1] for part in record.properties.split(b"\x02")[-2:]]
    rare = 12 if record.flag or record.sys_flag or record.reconsume_times else 0
    size = packed.HEAD_SIZE + rare + len(record.body) + kept + len(topic)
    out = np.zeros(size + 7, dtype=np.uint8)
    found = kernels.put_packed(
        *(out, 3, size, record.position, array_of(b"x" + record.body), 1, 1 + len(record.body)),
        *(array_of(texts), start, end, places, array_of(b"y" + topic), 1, 1 + len(topic)),
        *(array_of(record.born_host), array_of(record.store_host), is_timer),
        *(bool(record.mark & MARK_GROUP), int(queue), record.mark & MARK_NUMBER_MASK),
        *(record.store_ms, record.born_ms, DUE_MS if is_timer else record.queue_id),
        *(record.queue_offset, record.flag, record.sys_flag, record.reconsume_times),
    )
    assert found == 3 + size
    assert not out[:3].any()
    assert not out[3 + size :].any()
    return out[3 : 3 + size].tobytes()


@given(making.records())
def test_packed_records_are_those_of_the_plain_twin(
    kernels: Any, made: tuple[Record, bytes]
) -> None:
    expected = packed_of(*made)
    if expected is None and packed.packing_of(made[1], None) is not None:
        return  # its numbers do not fit: nobody asks the kernels then
    assert compiled_of(kernels, *made) == expected


@given(making.texts)
def test_a_kept_due_time_is_the_message_s_own(kernels: Any, text: bytes) -> None:
    places = np.zeros(PLACE_WIDTH, dtype=np.int64)

    for due_ms in (-1, 7, DUE_MS, DUE_MS - 1):
        kept = kernels.find_places(array_of(text), 0, len(text), due_ms, places)
        twin = packed.packing_of(text, due_ms if due_ms >= 0 else None)
        if twin is None:
            assert kept == -1
            continue
        assert kept == len(twin.text) + len(twin.id)
        assert bool(places[PLACE_DUE_END]) == (twin.due_at is not None)
