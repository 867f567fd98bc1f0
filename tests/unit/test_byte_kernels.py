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
