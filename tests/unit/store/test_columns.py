"""Files of named columns: what was written is mapped again, and every byte is checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dueline.errors import CorruptRecord
from dueline.store.columns import ColumnFile, write_columns
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
