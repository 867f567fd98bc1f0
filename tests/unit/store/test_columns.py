"""Files of named columns: what was written is mapped again, and every byte is checked."""

from __future__ import annotations

import json
import struct
from bisect import bisect_left, bisect_right
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueline.errors import CorruptRecord
from dueline.store.columns import ColumnFile, narrow, write_columns
from dueline.store.files import Files

NUMBERS = np.array([5, -3, 1 << 40], dtype="<i8")
SMALL = np.array([1, 2], dtype="<u2")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    columns = [("number", lambda: NUMBERS), ("small", lambda: SMALL)]
    write_columns(Files(), tmp_path / "run", columns, {"first": 7, "names": ["ä"]})
    return tmp_path / "run"


def test_columns_and_meta_are_read_back(path: Path) -> None:
    found = ColumnFile(Files(), path)

    assert found["number"].tolist() == NUMBERS.tolist()
    assert found["small"].tolist() == SMALL.tolist()
    assert found["small"].dtype == np.dtype("<u2")
    assert found.meta == {"first": 7, "names": ["ä"]}
    with pytest.raises(ValueError, match="read-only"):
        found["number"][0] = 1


def test_columns_start_at_multiples_of_64(path: Path) -> None:
    data = path.read_bytes()

    assert data[:24] == NUMBERS.tobytes()
    assert data[64:68] == SMALL.tobytes()
    assert data.endswith(b"DUECOLS1")


def test_columns_stay_readable_after_their_pages_were_given_back(path: Path) -> None:
    found = ColumnFile(Files(), path)

    found.forget_pages()

    assert found["number"].tolist() == NUMBERS.tolist()


def test_empty_columns(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    write_columns(Files(), path, [("none", lambda: np.empty(0, dtype="<i8"))], None)

    found = ColumnFile(Files(), path)

    assert len(found["none"]) == 0
    assert found.meta is None


def test_every_flipped_bit_is_noticed(path: Path) -> None:
    data = path.read_bytes()
    padding = [*range(24, 64), *range(68, 128)]

    for bit in range(8 * len(data)):
        if bit // 8 in padding:
            continue
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(CorruptRecord):
            ColumnFile(Files(), path)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 100])
def test_cut_file_is_noticed(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])

    with pytest.raises(CorruptRecord) as caught:
        ColumnFile(Files(), path)

    assert caught.value.path == str(path)


def narrowed(path: Path, numbers: list[int]) -> ColumnFile:
    array = np.array(numbers, dtype=np.int64)
    write_columns(Files(), path, [("number", lambda: narrow(array))], None)
    return ColumnFile(Files(), path)


@given(
    st.integers(-(1 << 61), 1 << 61),
    st.lists(st.one_of(*(st.integers(0, 1 << bits) for bits in (3, 9, 17, 33, 61))), max_size=20),
    st.lists(st.integers(-(1 << 62), 1 << 62), max_size=3),
)
def test_narrow_columns_say_the_same(
    tmp_path_factory: pytest.TempPathFactory, base: int, more: list[int], others: list[int]
) -> None:
    numbers = sorted(base + each for each in more)
    found = narrowed(tmp_path_factory.mktemp("narrow") / "run", numbers)
    column = found.column("number")

    assert found["number"].tolist() == column.take(slice(None)).tolist() == numbers
    assert [column.at(row) for row in range(len(column))] == numbers
    for number in (*numbers, *(each + 1 for each in numbers), *others):
        assert column.rank(number) == bisect_left(numbers, number)
        assert column.rank(number, "right") == bisect_right(numbers, number)


@pytest.mark.parametrize(
    ("span", "width"),
    [(255, 1), (256, 2), (65_535, 2), (65_536, 4), ((1 << 32) - 1, 4), (1 << 32, 8)],
)
def test_a_narrow_column_takes_as_few_bytes_as_it_needs(
    tmp_path: Path, span: int, width: int
) -> None:
    found = narrowed(tmp_path / "run", [1_700_000_000_000 + span, 1_700_000_000_000])

    assert found.column("number").stored.itemsize == width
    assert found["number"].tolist() == [1_700_000_000_000 + span, 1_700_000_000_000]


def test_files_of_earlier_versions_say_no_base(tmp_path: Path) -> None:
    footer = {"columns": [["number", "<i8", 3, 0, crc32(NUMBERS.tobytes())]], "meta": None}
    text = json.dumps(footer).encode()
    trailer = struct.pack(">II8s", len(text), crc32(text), b"DUECOLS1")
    (tmp_path / "run").write_bytes(NUMBERS.tobytes() + bytes(40) + text + trailer)

    assert ColumnFile(Files(), tmp_path / "run").column("number").take(slice(1, 3)).tolist() == [
        -3,
        1 << 40,
    ]
