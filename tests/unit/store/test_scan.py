"""Walking a log: what is found, what is reported, and that damage hides no neighbours."""

from __future__ import annotations

import struct
from pathlib import Path
from zlib import crc32

import pytest
from tests.unit.store.recording import make_record

from dueline.store import packed
from dueline.store import record as records
from dueline.store.files import Files
from dueline.store.log import LogReader
from dueline.store.record import BLANK_MAGIC, GAP_MAGIC, MAGIC_LONG_TOPIC
from dueline.store.scan import scan

SEGMENT = 4096


class Segments:
    """Segment files that a test fills by hand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data: dict[int, bytearray] = {}

    def put(self, position: int, data: bytes) -> int:
        """Write bytes at a position; returns the position behind them."""
        base = position - position % SEGMENT
        segment = self.data.setdefault(base, bytearray(SEGMENT))
        segment[position - base : position - base + len(data)] = data
        return position + len(data)

    def put_record(self, position: int, body: bytes = b"body") -> int:
        return self.put(position, records.seal(make_record(position=position, body=body)))

    def flip(self, position: int, bit: int = 0) -> None:
        base = position - position % SEGMENT
        self.data[base][position - base] ^= 1 << bit

    def reader(self) -> LogReader:
        for base, data in self.data.items():
            (self.folder / f"{base:020d}").write_bytes(data)
        return LogReader(Files(), self.folder, SEGMENT)


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    return Segments(tmp_path)


def test_finds_records_up_to_the_zeros(segments: Segments) -> None:
    second = segments.put_record(0)
    end = segments.put_record(second, b"other")

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [0, second]
    assert found.sizes.tolist() == [second, end - second]
    assert (found.end, found.damage) == (end, [])


def test_starts_where_it_is_told(segments: Segments) -> None:
    second = segments.put_record(0)
    segments.put_record(second)

    assert scan(segments.reader(), second, [0]).positions.tolist() == [second]


def test_blank_leads_to_the_next_segment(segments: Segments) -> None:
    end = segments.put_record(0)
    segments.put(end, struct.pack(">II", SEGMENT - end, BLANK_MAGIC))
    last = segments.put_record(SEGMENT)

    found = scan(segments.reader(), 0, [0, SEGMENT])

    assert found.positions.tolist() == [0, SEGMENT]
    assert (found.end, found.damage) == (last, [])


def test_gaps_of_a_compacted_segment_are_no_damage(segments: Segments) -> None:
    segments.put(0, struct.pack(">II", 300, GAP_MAGIC))
    end = segments.put_record(300)
    segments.put(end, struct.pack(">II", SEGMENT - end, BLANK_MAGIC))

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [300]
    assert found.damage == []


def test_damaged_body_is_passed_over(segments: Segments) -> None:
    second = segments.put_record(0)
    third = segments.put_record(second, b"damaged")
    segments.put_record(third)
    segments.flip(second + 90)

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [0, third]
    assert [(damage.start, damage.end) for damage in found.damage] == [(second, third)]
    assert "body CRC" in found.damage[0].reason


@pytest.mark.parametrize("bit", range(32))
def test_wrong_size_hides_no_neighbour(segments: Segments, bit: int) -> None:
    """Records of 128 bytes: some flipped bits lead exactly to the beginning of another record."""
    body = bytes(128 - len(records.seal(make_record(body=b""))))
    starts = [0]
    for _ in range(20):
        starts.append(segments.put_record(starts[-1], body))
    assert starts[1] == 128
    segments.flip(5 * 128 + 3 - bit // 8, bit % 8)

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [at for at in starts[:-1] if at != 5 * 128]
    assert [(damage.start, damage.end) for damage in found.damage] == [(5 * 128, 6 * 128)]


@pytest.mark.parametrize("image", ["sound", "damaged", "longer"])
def test_a_wrong_size_that_leads_into_a_record_does_not_hide_it(
    segments: Segments, image: str
) -> None:
    """In the second record's body is what looks like the beginning of one, at that very place."""
    second = segments.put_record(0)
    into = second + 88 + 40
    body = bytearray(b"b" * 40 + records.seal(make_record(position=into, body=b"an image")))
    if image == "damaged":
        body[40 + 90] ^= 1
    third = second + len(records.seal(make_record(position=second, body=bytes(body))))
    fourth = third + len(records.seal(make_record(position=third, body=b"third")))
    if image == "longer":  # over the end of the second, and over the third as well
        body[40:44] = struct.pack(">I", fourth - into)
    assert segments.put_record(second, bytes(body)) == third
    segments.put_record(third, b"third")
    end = segments.put_record(fourth, b"fourth")
    segments.put(0, struct.pack(">I", into))

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [second, third, fourth]
    assert (found.positions + found.sizes).tolist() == [third, fourth, end]
    assert [(damage.start, damage.end) for damage in found.damage] == [(0, second)]
    assert found.end == end


def test_a_sound_image_in_a_hidden_record_does_not_hide_what_follows(segments: Segments) -> None:
    """The image goes on over the end of the record that it is in, and over the next one."""
    second = segments.put_record(0)
    into = second + 88 + 40
    probe = records.seal(make_record(position=second, body=bytes(40 + 90)))
    third = second + len(probe)
    follower = records.seal(make_record(position=third, body=b"third"))
    inside = bytes(2) + probe[88 + 40 + 90 :] + follower + bytes(9)
    made = records.seal(make_record(position=into, body=inside))
    end = segments.put(into, made)
    body = b"b" * 40 + made[: 88 + 2]
    segments.put(second, records.seal(make_record(position=second, body=body)))
    segments.put(0, struct.pack(">I", into))
    assert records.is_sound(memoryview(segments.data[0])[into:end], into)

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [second, third]
    behind = third + len(follower)
    assert [(each.start, each.end) for each in found.damage] == [(0, second), (behind, end)]


def test_what_only_seems_to_begin_a_record_is_not_hashed(
    segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body that says every eight bytes that a long packed record begins here."""
    hashed: list[int] = []

    def counting(data: memoryview) -> int:
        hashed.append(len(data))
        return crc32(data)

    monkeypatch.setattr(packed, "crc32", counting)
    second = segments.put_record(0, struct.pack(">II", 2_000, packed.MAGIC) * 200)
    segments.put_record(second, b"x" * 1_000)
    segments.flip(60)

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [second]
    assert [(each.start, each.end) for each in found.damage] == [(0, second)]
    assert hashed == []


@pytest.mark.parametrize("at", [4, 28, 36, 60, 80, 86, 95])
def test_flipped_bit_costs_one_record(segments: Segments, at: int) -> None:
    starts = [0]
    for _ in range(3):
        starts.append(segments.put_record(starts[-1]))
    segments.flip(starts[1] + at)

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [starts[0], starts[2]]
    assert [(damage.start, damage.end) for damage in found.damage] == [(starts[1], starts[2])]


def test_zeroed_record_is_reported(segments: Segments) -> None:
    second = segments.put_record(0)
    third = segments.put_record(second)
    segments.put_record(third)
    segments.put(second, bytes(third - second))

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [0, third]
    assert found.damage[0].reason == "zeros before a sound record"


def test_torn_tail_is_the_end(segments: Segments) -> None:
    second = segments.put_record(0)
    whole = records.seal(make_record(position=second, body=bytes(500)))
    segments.put(second, whole[:200])

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [0]
    assert found.damage == [] or found.damage[0].start == second


def test_record_of_another_place_is_no_record(segments: Segments) -> None:
    second = segments.put_record(0)
    segments.put(second, records.seal(make_record(position=0)))

    assert scan(segments.reader(), 0, [0]).positions.tolist() == [0]


def test_missing_and_empty_segments_are_reported(segments: Segments, tmp_path: Path) -> None:
    segments.put_record(0)
    reader = segments.reader()
    (tmp_path / f"{SEGMENT:020d}").write_bytes(b"")

    found = scan(reader, 0, [0, SEGMENT, 2 * SEGMENT])

    assert found.positions.tolist() == [0]
    assert [damage.start for damage in found.damage] == [SEGMENT, 2 * SEGMENT]


def test_foreign_record_with_a_long_topic_is_sound(segments: Segments) -> None:
    record = make_record(topic=b"t" * 200, magic=MAGIC_LONG_TOPIC, mark=0)
    segments.put(0, record.encode())

    found = scan(segments.reader(), 0, [0])

    assert found.positions.tolist() == [0]
    assert found.damage == []


def test_batches_give_the_records_bytes(segments: Segments) -> None:
    second = segments.put_record(0, b"one")
    segments.put_record(second, b"two")
    reader = segments.reader()

    batches = list(scan(reader, 0, [0]).batches(reader, 700))

    assert [rows for rows, _ in batches] == [slice(0, 2)]
    decoded = [records.decode(data) for data in batches[0][1].to_pylist()]
    assert [record.body for record in decoded] == [b"one", b"two"]


def test_batches_are_bounded_in_bytes_too(segments: Segments) -> None:
    position = 0
    for size in (100, 100, 2_000, 100):
        position = segments.put_record(position, bytes(size))
    reader = segments.reader()

    batches = list(scan(reader, 0, [0]).batches(reader, 700))

    assert [rows for rows, _ in batches] == [slice(0, 2), slice(2, 3), slice(3, 4)]
    assert [len(batch) for _, batch in batches] == [2, 1, 1]
