"""Logs: where records go, what stands between them, and what is forgotten."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.making import int64s

from dueline.errors import LimitExceeded, NotFound
from dueline.store.files import Files
from dueline.store.log import Log, LogReader, segment_name
from dueline.store.record import BLANK_MAGIC

SEGMENT = 4096
CAPACITY = SEGMENT - 8


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(Files(), tmp_path, SEGMENT)
    yield log
    log.close()


def append(log: Log, *sizes: int) -> list[int]:
    """Append byte strings of these sizes; returns their positions."""
    array = np.array(sizes, dtype=np.int64)
    positions, end = log.place(array)
    log.reserve(end)
    data = b"".join(bytes([65 + number % 26]) * size for number, size in enumerate(sizes))
    log.append(positions, array, [data])
    assert log.end == end
    places: list[int] = positions.tolist()
    return places


@given(
    st.lists(st.integers(91, CAPACITY), max_size=12),
    st.lists(st.integers(91, CAPACITY), max_size=12),
)
def test_records_are_placed_as_a_loop_places_them(
    tmp_path_factory: pytest.TempPathFactory, before: list[int], sizes: list[int]
) -> None:
    log = Log(Files(), tmp_path_factory.mktemp("log"), SEGMENT)
    at = 0
    for size in before:
        at = (at if at % SEGMENT + size + 8 <= SEGMENT else at + SEGMENT - at % SEGMENT) + size
    log.end = at

    positions, end = log.place(np.array(sizes, dtype=np.int64))

    expected = []
    for size in sizes:
        if at % SEGMENT + size + 8 > SEGMENT:
            at += SEGMENT - at % SEGMENT
        expected.append(at)
        at += size
    assert positions.tolist() == expected
    assert end == at
    assert log.end != at or not sizes, "placing changes nothing"


def test_record_that_fits_exactly_leaves_eight_bytes(log: Log) -> None:
    assert append(log, 100, CAPACITY - 100) == [0, 100]
    assert log.end == CAPACITY
    assert append(log, 91) == [SEGMENT]


def test_blank_fills_the_segment(log: Log, tmp_path: Path) -> None:
    append(log, 100)

    assert append(log, CAPACITY) == [SEGMENT]

    data = (tmp_path / segment_name(0)).read_bytes()
    assert data[100:108] == struct.pack(">II", SEGMENT - 100, BLANK_MAGIC)
    assert not any(data[108:])


def test_too_large_a_record_is_refused(log: Log) -> None:
    with pytest.raises(LimitExceeded) as caught:
        log.place(int64s(91, CAPACITY + 1))

    assert (caught.value.limit, caught.value.found) == (CAPACITY, CAPACITY + 1)


def test_bytes_are_read_by_position(log: Log, tmp_path: Path) -> None:
    positions = append(log, 3000, 3000, 200)
    assert positions == [0, SEGMENT, SEGMENT + 3000]

    assert bytes(log.read(SEGMENT + 3000, 200)) == b"C" * 200
    assert len(log.read(SEGMENT * 2 - 10, 200)) == 10, "a view ends with its segment"
    reader = LogReader(Files(), tmp_path, SEGMENT)
    gathered = reader.gather(int64s(*positions[::-1]), np.array([200, 3000, 3000], dtype=np.int32))
    assert [len(value) for value in gathered.to_pylist()] == [200, 3000, 3000]


def test_records_of_a_missing_segment_come_out_empty(log: Log, tmp_path: Path) -> None:
    append(log, 3000, 3000)
    (tmp_path / segment_name(0)).unlink()
    reader = LogReader(Files(), tmp_path, SEGMENT)

    gathered = reader.gather(int64s(0, SEGMENT), np.array([3000, 3000], dtype=np.int32))

    assert [len(value) for value in gathered.to_pylist()] == [0, 3000]
    with pytest.raises(NotFound) as caught:
        reader.read(5, 10)
    assert caught.value.position == 0


def test_cut_forgets_the_rest(log: Log, tmp_path: Path) -> None:
    append(log, 1000, 1000, 3000, 3000)
    assert len(log.bases) == 3

    log.cut(1000)

    assert (log.end, log.bases) == (1000, [0])
    data = (tmp_path / segment_name(0)).read_bytes()
    assert data[:1000] == b"A" * 1000
    assert not any(data[1000:])
    assert append(log, 500) == [1000]


def test_cut_at_the_beginning_of_a_segment(log: Log) -> None:
    append(log, 3000, 3000)

    log.cut(SEGMENT)

    assert append(log, 100) == [SEGMENT]
    assert bytes(log.read(0, 3)) == b"AAA"


def test_whole_segments_before_a_position_are_dropped(log: Log, tmp_path: Path) -> None:
    append(log, *[3000] * 4)

    assert log.drop_before(SEGMENT - 1) == []
    assert log.drop_before(2 * SEGMENT + 5) == [0, SEGMENT]

    assert log.start == 2 * SEGMENT
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        segment_name(2 * SEGMENT),
        segment_name(3 * SEGMENT),
    ]
    assert log.drop_before(1 << 60) == [2 * SEGMENT], "the segment being written stays"


def test_segment_in_the_middle_may_be_dropped(log: Log) -> None:
    append(log, *[3000] * 3)

    log.drop_segment(SEGMENT)

    assert log.bases == [0, 2 * SEGMENT]
    assert log.start == 0
    with pytest.raises(NotFound):
        log.read(SEGMENT, 10)


def test_segment_is_replaced_at_once(log: Log) -> None:
    append(log, 3000, 3000)
    old = log.read(0, 3000)

    log.replace_segment(0, iter([(100, b"new")]))

    assert bytes(log.read(98, 7)) == b"\0\0new\0\0"
    assert bytes(old) == b"A" * 3000, "who had it mapped still reads the old bytes"


def test_patches_change_bytes_in_place(log: Log) -> None:
    positions = append(log, 3000, 3000)

    log.scatter(int64s(*(position + 10 for position in positions)), np.full((2, 3), 7, np.uint8))
    log.sync_patches()

    assert bytes(log.read(9, 5)) == b"A\7\7\7A"
    assert bytes(log.read(SEGMENT + 9, 5)) == b"B\7\7\7B"


def test_log_knows_its_segments_again(log: Log, tmp_path: Path) -> None:
    append(log, 3000, 3000)
    (tmp_path / "README").write_text("not a segment")
    (tmp_path / (segment_name(9 * SEGMENT) + ".tmp")).write_bytes(b"")

    again = Log(Files(), tmp_path, SEGMENT)

    assert again.bases == [0, SEGMENT]
    assert (again.start, again.end) == (0, 0), "recovery finds the end"
    assert again.stats() == {"start": 0, "end": 0, "segment_count": 2}


def test_new_log_may_begin_with_its_second_segment(tmp_path: Path) -> None:
    log = Log(Files(), tmp_path, 4096)

    log.skip_first_segment()

    positions, end = log.place(np.array([100, 100]))
    assert positions.tolist() == [4096, 4196]
    log.reserve(end)
    log.append(positions, np.array([100, 100]), [bytes(200)])
    log.skip_first_segment()
    assert (log.start, log.end) == (4096, 4296)
    assert Log(Files(), tmp_path, 4096).start == 4096
