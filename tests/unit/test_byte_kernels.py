"""Integers in bytes, against Python's own way of reading them."""

import random
from typing import Any

import numpy as np
import pytest

from dueline import compiled

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def kernels() -> Any:
    name = "dueline.byte_kernels"
    assert compiled.load([name])
    return compiled.ready(name)


def test_integers_are_those_that_python_reads(kernels: Any) -> None:
    data = bytes([255] * 8) + random.Random(12).randbytes(200)
    array = np.frombuffer(data, dtype=np.uint8)

    for at in range(len(data) - 8):
        assert kernels.u32(array, at) == int.from_bytes(data[at : at + 4])
        assert kernels.u64(array, at) == int.from_bytes(data[at : at + 8], signed=True)


def test_bytes_are_copied_to_their_place(kernels: Any) -> None:
    data = np.frombuffer(random.Random(3).randbytes(300), dtype=np.uint8)
    for start, end in ((0, 0), (5, 5), (9, 3), (0, 1), (7, 300), (31, 64), (100, 263)):
        out = np.full(310, 7, dtype=np.uint8)

        assert kernels.put_bytes(out, 4, data, start, end) == 4 + end - start

        expected = b"\x07" * 4 + data[start:end].tobytes()
        assert out.tobytes() == expected.ljust(310, b"\x07")


def test_integers_are_written_as_python_writes_them(kernels: Any) -> None:
    out = np.full(10, 7, dtype=np.uint8)

    assert kernels.put_big(out, 1, 0x0102030405060708, 8) == 9
    assert kernels.put_big(out, 3, -2, 4) == 7

    expected = bytes([1, 2]) + (-2).to_bytes(4, "big", signed=True) + bytes([7, 8])
    assert out.tobytes() == b"\x07" + expected + b"\x07"


def test_slices_are_copied_to_where_they_belong_and_nowhere_else(kernels: Any) -> None:
    seeded = random.Random(13)
    data = np.frombuffer(seeded.randbytes(300), dtype=np.uint8)

    for _ in range(500):
        start, end = sorted(seeded.choices(range(301), k=2))
        at = seeded.randrange(400 - (end - start))
        out = np.full(400, 7, dtype=np.uint8)

        assert kernels.put_bytes(out, at, data, start, end) == at + end - start

        expected = bytearray(b"\x07" * 400)
        expected[at : at + end - start] = data.tobytes()[start:end]
        assert out.tobytes() == bytes(expected)


def test_a_copy_never_leaves_its_array(kernels: Any) -> None:
    data = np.arange(100, dtype=np.uint8)
    memory = np.full(64, 7, dtype=np.uint8)
    out = memory[16:48]

    for at, start, end in ((30, 0, 50), (32, 0, 1), (0, 90, 120), (40, 0, 100), (5, 100, 130)):
        kernels.put_bytes(out, at, data, start, end)

    assert memory[:16].tobytes() == memory[48:].tobytes() == b"\x07" * 16


def test_short_copies_end_where_they_should(kernels: Any) -> None:
    """Behind them up to eight bytes may be others, and nothing outside of the array is."""
    seeded = random.Random(14)
    data = np.frombuffer(seeded.randbytes(60), dtype=np.uint8)

    for _ in range(2_000):
        start, end = sorted(seeded.choices(range(61), k=2))
        at = seeded.randrange(80 - (end - start) + 1)
        out = np.full(80, 7, dtype=np.uint8)

        stop = kernels.put_short(out, at, data, start, end)

        assert stop == at + end - start
        assert out[:at].tobytes() == b"\x07" * at
        assert out[at:stop].tobytes() == data[start:end].tobytes()
        assert set(out[stop + 8 :].tolist()) <= {7}


def test_the_first_byte_that_is_looked_for_is_marked(kernels: Any) -> None:
    seeded = random.Random(15)
    edges = [0, 1, 2, 0x1F, 0x20, 0x21, 0x22, 0x23, 0x5C, 0x7F, 0x80, 0xA2, 0xDC, 0xFF]

    for _ in range(3_000):
        data = bytes(seeded.choices(edges, k=8))
        word = np.uint64(int.from_bytes(data, "little"))
        for byte in (1, 2, 0x22, 0x5C, 0x7F):
            marks = kernels.marked_same(word, byte)
            assert (marks != 0) == (byte in data)
            if byte in data:
                assert kernels.first_marked(marks) == data.index(byte)
        marks = kernels.marked_below(word, 0x20)
        small = [place for place, byte in enumerate(data) if byte < 0x20]
        assert (marks != 0) == bool(small)
        if small:
            assert kernels.first_marked(marks) == small[0]


def test_slices_are_compared_to_their_last_byte(kernels: Any) -> None:
    seeded = random.Random(16)
    data = np.frombuffer(seeded.randbytes(40), dtype=np.uint8)

    for size in range(40):
        other = data.copy()
        assert kernels.is_same(data, 40 - size, other, 40 - size, size)
        for place in range(40 - size, 40):
            other[place] ^= 1 << seeded.randrange(8)
            assert not kernels.is_same(data, 40 - size, other, 40 - size, size)
            other[place] = data[place]


def test_a_name_is_found_among_the_first_rows(kernels: Any) -> None:
    texts = np.frombuffer(b"TAGSKEYSKEYStore_long_name", dtype=np.uint8)
    rows = np.array([[0, 4, 7], [4, 8, 8], [8, 11, 9], [11, 26, 1]], dtype=np.int64)
    names = {b"TAGS": 0, b"KEYS": 1, b"KEY": 2, b"Store_long_name"[1:]: -1, b"KEYT": -1, b"T": -1}
    names[texts[11:26].tobytes()] = 3

    for name, expected in names.items():
        data = np.frombuffer(b"x" + name + b"x", dtype=np.uint8)
        assert kernels.row_of(data, 1, 1 + len(name), texts, rows, 4) == expected
        few = expected if expected < 2 else -1
        assert kernels.row_of(data, 1, 1 + len(name), texts, rows, 2) == few
