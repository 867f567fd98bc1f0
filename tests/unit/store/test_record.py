"""Single records: layout, limits, and that a flipped bit does not go unseen."""

from __future__ import annotations

import zlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.golden.layout import parse_fields
from tests.unit.store.recording import make_record

from dueline.errors import CorruptRecord
from dueline.message import SYS_COMMIT, pack_host
from dueline.store import restore
from dueline.store.record import (
    MAGIC_LONG_TOPIC,
    MARK_CHECK_MASK,
    MARK_DELAYED,
    MARK_GROUP,
    MARK_PRESENT,
    Record,
    body_crc,
    decode,
    decode_checked,
    fold,
    is_sound,
    reference,
    seal,
    tail_check,
)

V4 = pack_host("10.1.2.3", 4567)
V6 = pack_host("2001:db8::7", 4567)
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT63 = st.integers(0, (1 << 62) - 1)
RECORDS = st.builds(
    lambda born, store, fields: make_record(
        born_host=V6 if born else V4,
        store_host=V6 if store else V4,
        sys_flag=(0x10 if born else 0) | (0x20 if store else 0),
        **fields,
    ),
    st.booleans(),
    st.booleans(),
    st.fixed_dictionaries(
        {
            "queue_id": INT32,
            "flag": INT32,
            "queue_offset": INT63,
            "position": INT63,
            "born_ms": INT63,
            "store_ms": INT63,
            "reconsume_times": INT32,
            "mark": st.sampled_from([0, MARK_DELAYED, MARK_GROUP | MARK_DELAYED]).flatmap(
                lambda flags: st.integers(0, (1 << 44) - 1).map(lambda number: flags | number)
            ),
            "body": st.binary(max_size=60),
            "topic": st.binary(max_size=127),
            "properties": st.binary(max_size=60),
        }
    ),
)


def unmarked(record: Record) -> dict[str, object]:
    return {name: getattr(record, name) for name in Record.__dataclass_fields__ if name != "mark"}


@given(RECORDS)
def test_sealed_record_is_read_as_it_was(record: Record) -> None:
    data = seal(record)

    read = decode(data, position=record.position)

    assert unmarked(read) == unmarked(record)
    assert read.mark & ~MARK_CHECK_MASK == record.mark | MARK_PRESENT
    assert read.size_bytes == len(data)
    assert read.encode() == data


@given(RECORDS)
def test_bytes_follow_the_layout(record: Record) -> None:
    fields = parse_fields(seal(record))

    for name in ("queue_id", "flag", "queue_offset", "position", "born_ms", "store_ms", "body",
                 "topic", "properties", "reconsume_times", "sys_flag"):  # fmt: skip
        assert fields[name] == getattr(record, name), name
    assert fields["born_host"] + fields["born_port"].to_bytes(4, "big") == record.born_host
    assert fields["store_host"] + fields["store_port"].to_bytes(4, "big") == record.store_host


def test_golden_bytes_of_a_plain_record() -> None:
    record = make_record(
        queue_id=1,
        born_ms=1,
        store_ms=2,
        born_host=pack_host("127.0.0.1", 3),
        store_host=pack_host("127.0.0.1", 10911),
        mark=0,
        body=b"hello world",
        topic=b"T",
        properties=b"TAGS\x01a",
    )

    assert record.encode() == bytes.fromhex(
        "0000006d daa320a7 0d4a1185 00000001 00000000 0000000000000000 0000000000000000 00000000"
        "0000000000000001 7f000001 00000003 0000000000000002 7f000001 00002a9f 00000000"
        "0000000000000000 0000000b 68656c6c6f20776f726c64 01 54 0006 544147530161"
    )


SAMPLES = {
    "smallest": make_record(body=b"", topic=b"", properties=b""),
    "ordinary": make_record(position=4096, properties=b"TAGS\x01a\x02KEYS\x01k1 k2"),
    "delayed": make_record(mark=MARK_DELAYED | 12_345, body=b"x" * 40),
    "group": make_record(mark=MARK_DELAYED | MARK_GROUP | 7),
    "born v6": make_record(born_host=V6, sys_flag=0x10),
    "smallest v6": make_record(born_host=V6, sys_flag=0x10, body=b"", topic=b"", properties=b""),
    "store v6": make_record(store_host=V6, sys_flag=0x20),
    "both v6": make_record(born_host=V6, store_host=V6, sys_flag=0x30, body=b""),
    "committed": make_record(sys_flag=8, mark=1485),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_flipped_bit_is_noticed(name: str) -> None:
    record = SAMPLES[name]
    data = seal(record)
    unseen = []
    for bit in range(8 * len(data)):
        if 20 <= bit // 8 < 28:
            continue  # the queue offset is written late and known to the consume queue
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            decode(bytes(flipped), position=record.position)
        except CorruptRecord:
            continue
        unseen.append(bit)

    assert unseen == []


@pytest.mark.parametrize("name", SAMPLES)
def test_every_flipped_bit_is_noticed_without_decoding(name: str) -> None:
    record = SAMPLES[name]
    data = seal(record)
    assert is_sound(memoryview(data), record.position)
    assert decode_checked(memoryview(data)) == decode(data)
    assert not is_sound(memoryview(data), record.position + 1)
    assert not is_sound(memoryview(data + b"x"), record.position)
    assert not any(is_sound(memoryview(data[:size]), record.position) for size in range(len(data)))
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8

        assert is_sound(memoryview(flipped), record.position) == (20 <= bit // 8 < 28), bit


@given(RECORDS, st.data())
def test_bytes_are_sound_if_they_can_be_decoded(record: Record, data: st.DataObject) -> None:
    changed = bytearray(seal(record) if data.draw(st.booleans()) else record.encode())
    for _ in range(data.draw(st.integers(0, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = decode(bytes(changed), position=record.position).size_bytes == len(changed)
    except CorruptRecord:
        expected = False

    assert is_sound(memoryview(changed), record.position) == expected


@pytest.mark.parametrize("name", SAMPLES)
def test_every_flipped_bit_is_noticed_by_the_array_check(name: str) -> None:
    """All flips in one batch, the damaged record being the last of it: nothing lies behind."""
    data = seal(SAMPLES[name])
    bits = [bit for bit in range(8 * len(data)) if not 20 <= bit // 8 < 36]
    rows = []
    for bit in bits:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        rows.append(bytes(flipped))

    together = restore.damaged(pa.record_batch([pa.array(rows, pa.binary())], names=["record"]))
    assert [bit for bit, bad in zip(bits, together, strict=True) if not bad] == []

    for bit, row in zip(bits, rows, strict=True):
        if 36 <= bit // 8 < 40 or bit // 8 >= 84:  # what decides where the other fields are
            alone = pa.record_batch([exact_array(row)], names=["record"])
            assert restore.damaged(alone).all(), bit


def exact_array(value: bytes) -> pa.BinaryArray:
    """One value in a buffer of exactly its size: Arrow's own buffers are padded."""
    offsets = np.array([0, len(value)], dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(offsets), pa.py_buffer(value)])


@pytest.mark.parametrize("name", SAMPLES)
def test_cut_record_is_noticed(name: str) -> None:
    data = seal(SAMPLES[name])

    for size in range(len(data)):
        with pytest.raises(CorruptRecord):
            decode(data[:size])


def test_bytes_behind_a_record_do_not_matter() -> None:
    data = seal(SAMPLES["ordinary"])

    assert decode(data + b"\xff" * 50).encode() == data


def test_record_at_another_place_is_refused() -> None:
    with pytest.raises(CorruptRecord, match="expected its position here") as caught:
        decode(seal(make_record(position=100)), position=200, path="segment")

    assert (caught.value.position, caught.value.path) == (200, "segment")


def test_largest_topic_and_properties_fit() -> None:
    record = make_record(topic=b"t" * 127, properties=b"p" * 32_767)

    assert parse_fields(seal(record))["properties_size"] == 32_767
    assert decode(seal(record)).properties == record.properties


def test_empty_body_has_crc_zero() -> None:
    assert body_crc(b"") == 0
    assert body_crc(b"hello world") == 0x0D4A1185
    assert body_crc(b"abc") == zlib.crc32(b"abc") & 0x7FFFFFFF


def test_long_topic_of_rocketmq_5_is_read() -> None:
    record = make_record(topic=b"t" * 200, magic=MAGIC_LONG_TOPIC, mark=0)

    assert decode(record.encode()) == record


def test_mark_says_what_the_number_is() -> None:
    assert make_record(mark=MARK_PRESENT | MARK_DELAYED | 17).seq == 17
    assert make_record(mark=MARK_PRESENT | MARK_DELAYED | 17).prepared_position == 0
    assert make_record(mark=MARK_PRESENT | 1485).prepared_position == 1485
    assert make_record(mark=MARK_PRESENT | 1485).seq is None
    assert make_record(mark=1485).prepared_position == 1485, "RocketMQ's own meaning"


def test_foreign_mark_is_a_position_in_a_log() -> None:
    """Bits where only our marks have them: a mark of ours that lost its flag to a flipped bit."""
    assert decode(make_record(mark=(1 << 44) - 1).encode()).prepared_position == (1 << 44) - 1
    with pytest.raises(CorruptRecord, match="mark"):
        decode(make_record(mark=1 << 44).encode())


@pytest.mark.parametrize("mark", [1 << 44, 3 << 60, (1 << 62) - 1])
def test_foreign_log_may_be_of_any_length(mark: int) -> None:
    data = make_record(mark=mark & ~MARK_PRESENT).encode()
    batch = pa.record_batch([pa.array([data])], names=["record"])

    assert decode(data, is_foreign=True).prepared_position == mark & ~MARK_PRESENT
    assert restore.damaged(batch, is_foreign=True).tolist() == [False]
    assert restore.damaged(batch).tolist() == [True]


@given(st.integers(1, (1 << 62) - 1), st.integers(1, (1 << 44) - 1))
def test_committed_record_names_its_half_message_wherever_it_stands(
    position: int, distance: int
) -> None:
    half_position = max(position - distance, 0)
    mark = MARK_PRESENT | reference(half_position, position)
    data = seal(make_record(mark=mark, sys_flag=SYS_COMMIT, position=position))

    assert decode(data, position=position).prepared_position == half_position


def test_record_names_no_half_message_that_is_too_far_back() -> None:
    assert reference(17, 17 + (1 << 44)) == 0
    assert reference(17, 16 + (1 << 44)) == 17


def test_fold_shows_every_single_bit() -> None:
    assert fold(0) == 0
    for bit in range(64):
        assert fold(1 << bit) != 0
        assert fold((1 << bit) ^ 0x0123456789ABCDEF) != fold(0x0123456789ABCDEF)


def test_tail_check_shows_every_single_bit_within_its_reach() -> None:
    """CRC-32 is linear: one flipped bit changes it by a value that depends on its place only."""
    polynomial = 0xEDB88320
    difference = 1  # the last bit that goes in
    for _ in range(8 * 40_000):
        difference = difference >> 1 ^ (polynomial if difference & 1 else 0)
        assert (difference ^ difference >> 5 ^ difference >> 8) & 0xFFFF

    zeros, flipped = bytes(40_000), bytes(39_999) + b"\x80"
    assert zlib.crc32(zeros) ^ zlib.crc32(flipped) == polynomial, "the linearity used above"
    assert tail_check(zeros) != tail_check(flipped)
