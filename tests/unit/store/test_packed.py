"""Packed records: what is read of them is what they were packed from, byte for byte."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store import packing as making
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    int64s,
    open_store,
    ordinary,
)
from tests.unit.store.packing import USUAL_TEXT, packed_of, resealed, usual_record
from tests.unit.store.row_making import rows_of

from dueline import compiled
from dueline.errors import CorruptRecord
from dueline.store import packed
from dueline.store import record as records
from dueline.store.block import BLOCK_KERNELS
from dueline.store.bulk_rows import BULK_KERNELS
from dueline.store.numbers import DONE
from dueline.store.packed import Packing
from dueline.store.record import Record, seal
from dueline.store.unpacking import UNPACKING_KERNELS, expanded


@given(making.records(), st.binary(max_size=3))
def test_a_packed_record_is_read_as_what_it_stands_for(
    made: tuple[Record, bytes], behind: bytes
) -> None:
    record, text = made
    data = packed_of(record, text)
    if data is None:
        return
    view = memoryview(data + behind)

    assert records.unpacked(view, record.position) == seal(record)
    assert records.decode(view, position=record.position).encode() == seal(record)
    assert records.is_packed(view)
    assert records.is_sound(view[: len(data)], record.position)
    assert len(data) < len(seal(record))
    assert data[-1], "so the end of what was written is not taken for zeros"


def usual(text: bytes = USUAL_TEXT) -> tuple[Record, bytes]:
    record = usual_record(text)
    data = packed_of(record, text)
    assert data is not None
    return record, data


def test_a_usual_message_needs_two_thirds() -> None:
    record, data = usual()

    assert len(data) == packed.HEAD_SIZE + 40 + 16 + len(b"KEYS\x01k") + 16
    assert len(seal(record)) == 88 + 40 + 20 + 2 + len(record.properties)


@pytest.mark.parametrize(
    "text",
    [b"", b"\x02KEYS\x01k", b"KEYS\x01k\x02"],
    ids=["nothing", "a separator first", "a separator last"],
)
def test_some_properties_are_not_packed(text: bytes) -> None:
    assert packed.packing_of(text, None) is None


@pytest.mark.parametrize(
    "text",
    [
        b"UNIQ_KEY\x01ab",
        b"UNIQ_KEY\x01ABC",
        b"UNIQ_KEY\x01",
        b"UNIQ_KEY\x01AB\n",
        b"XUNIQ_KEY\x01AB",
        b"UNIQ_KEY\x01AB\x01CD",
        b"UNIQ_KEY\x01" + b"AB" * 256,
        b"X\x01" + b"x" * 254 + b"\x02UNIQ_KEY\x01AB",
        b"TIMER_DELIVER_MS\x0178",
        b"TIMER_DELIVER_MS\x01770",
        b"TIMER_DELIVER_MS\x01077",
        b"XTIMER_DELIVER_MS\x0177",
    ],
)
def test_other_properties_stay_as_they_are(text: bytes) -> None:
    assert packed.packing_of(text, 77) == Packing(text, b"", 0, None)


def test_every_flipped_bit_is_noticed() -> None:
    record, data = usual()

    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptRecord):
            records.decode(bytes(flipped), position=record.position)


def test_a_record_at_another_place_is_none() -> None:
    record, data = usual()

    for place in (0, record.position + 1, record.position + (1 << 32)):
        with pytest.raises(CorruptRecord, match="CRC"):
            records.decode(data, position=place)


def test_cut_records_are_noticed() -> None:
    record, data = usual()

    for size in range(len(data)):
        with pytest.raises(CorruptRecord):
            records.decode(data[:size], position=record.position)


@given(st.data())
def test_whatever_has_a_right_crc_is_read_or_refused(data: st.DataObject) -> None:
    record, sound = usual(data.draw(st.sampled_from([USUAL_TEXT, b"UNIQ_KEY\x01AB", b"A\x01B"])))
    changed = bytearray(sound)
    for at in data.draw(st.lists(st.integers(12, packed.HEAD_SIZE - 1), min_size=1, max_size=4)):
        changed[at] = data.draw(st.sampled_from([0, 1, 2, 3, 7, 8, 15, 16, 127, 128, 255]))
    hostile = resealed(bytes(changed), record.position)

    try:
        found = records.decode(hostile, position=record.position)
    except CorruptRecord:
        return
    assert len(found.properties) < 1 << 16
    again = seal(found)
    assert records.decode(again, position=record.position) == found


def test_hostile_fields_are_refused() -> None:
    record, data = usual()
    for at, value in (
        (12, 0x11),  # a flag that nobody knows
        (13, 0),  # no topic
        (13, 255),  # a topic that begins before the text
        (14, 7),  # a place behind the text
        (16, 0xFF),  # and another one
        (17, 1),  # a body that is longer than the record
        (22, 0x10),  # a number that the mark has no room for
    ):
        changed = bytearray(data)
        changed[at] = value
        with pytest.raises(CorruptRecord):
            records.decode(resealed(bytes(changed), record.position), position=record.position)


@given(
    st.integers(0, 40),
    st.sampled_from([b"", b"A\x01B"]),
    st.integers(0, 255),
    st.integers(1, 255),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_what_is_delivered_is_less_than_three_times_as_long(
    body_size: int, text: bytes, id_size: int, topic_size: int, kinds: tuple[bool, bool, bool]
) -> None:
    """With the longest numbers that the form has room for."""
    is_timer, says_due, is_rare = kinds
    topic = b"t" * topic_size
    fields = packed.Fields(
        is_timer=is_timer,
        is_member=False,
        queue_id=65_535,
        number=1,
        store_ms=1,
        born_ms=1,
        born_host=bytes(8),
        store_host=bytes(8),
        when=packed.TIME_MAX if is_timer else 9,
        queue_offset=1,
        flag=int(is_rare),
        sys_flag=0,
        times=0,
        body=b"b" * body_size,
        topic=topic,
        text=b"",
    )
    packing = Packing(text, b"\xab" * id_size, 0, 0 if is_timer and says_due else None)
    data = packed.encode(fields, packing, 4_096)

    record = records.decode(data, position=4_096)
    delivered = replace(record, topic=topic).encode()

    assert len(delivered) < packed.GROWTH_MAX * len(data)


@pytest.mark.parametrize("is_compiled", [False, True], ids=["interpreted", "compiled"])
def test_a_level_beyond_the_queues_of_a_topic_is_read_and_delivered(
    tmp_path: Path, is_compiled: bool
) -> None:
    """Whatever brought the message: one by one, as rows or as a table; also after a restart."""
    wall = Wall()
    options = replace(SMALL, levels=" ".join(["1s"] * 1_029 + ["7s"]))
    assert compiled.load([BLOCK_KERNELS, BULK_KERNELS, UNPACKING_KERNELS])
    with open_store(tmp_path, wall, options) as store:
        store.put(ordinary(b"one", DELAY="1030"))
        store.put_all([ordinary(b"two", DELAY="1025", UNIQ_KEY="AB"), ordinary(b"x")])
        store.put_rows([rows_of([ordinary(b"three", DELAY="1030", UNIQ_KEY="AC")])])
        store.put_many(pa.table({"topic": ["orders"], "body": [b"four"], "delay_level": [1_030]}))
        log = (tmp_path / "delaylog" / f"{0:020d}").read_bytes()
        assert log.count(packed.MAGIC.to_bytes(4, "big")) == 4

    with (
        contextlib.nullcontext() if is_compiled else compiled.switched_off(),
        open_store(tmp_path, wall, options) as store,
    ):
        assert store.pending_count() == 4
        assert carry_over(store).delivered_count == 4
        wall.advance(1_000)
        store.open_gate()
        assert bodies(store) == [b"x", b"two"]
        wall.advance(6_000)
        store.open_gate()
        assert bodies(store) == [b"x", b"two", b"one", b"three", b"four"]


def test_a_move_by_key_packs_and_a_move_by_number_does_not(tmp_path: Path) -> None:
    """As `docs/format/packed.md` says; either is read as any."""
    magics = [packed.MAGIC.to_bytes(4, "big"), records.MAGIC.to_bytes(4, "big")]

    def counts() -> list[int]:
        log = (tmp_path / "delaylog" / f"{0:020d}").read_bytes()
        return [log.count(magic) for magic in magics]

    wall = Wall()
    with open_store(tmp_path, wall) as store:
        store.put(delayed(9_000, b"a", UNIQ_KEY="AB"))
        assert counts()[0] == 1
        store.reschedule("AB", START_MS + 8_000)
        assert counts()[0] == 2
        control_count = counts()[1]
        assert store.numbers.move(int64s(1), int64s(START_MS + 7_000)).tolist() == [DONE]
        assert counts()[0] == 2
        assert counts()[1] > control_count
        carry_over(store)
        wall.advance(7_000)
        store.open_gate()
        assert bodies(store) == [b"a"]


@pytest.mark.parametrize(("level", "is_sound"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_only_levels_that_a_table_may_have_are_believed(level: int, is_sound: bool) -> None:
    record, _ = usual()
    text = USUAL_TEXT.rsplit(b"\x02", 1)[0]
    record = replace(
        record,
        topic=b"SCHEDULE_TOPIC_XXXX",
        queue_id=level - 1,
        properties=text + packed.ending(b"t", 3, None),
    )
    data = packed_of(record, text)
    assert data is not None
    batch = pa.array([data], pa.binary())
    positions = np.array([record.position], dtype=np.int64)

    assert records.is_sound(memoryview(data), record.position) is is_sound
    expected = [seal(record) if is_sound else data]
    assert compiled.load([UNPACKING_KERNELS])
    assert expanded(batch, positions).to_pylist() == expected
    with compiled.switched_off():
        assert expanded(batch, positions).to_pylist() == expected
