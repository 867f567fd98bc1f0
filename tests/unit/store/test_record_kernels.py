"""What kernels take for a usual record: one with all of its bytes as they were written."""

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.unit.store.test_record import SAMPLES

from dueline import compiled
from dueline.store.kernels import read_only
from dueline.store.layout import HEADER_SIZE, RECORD_SIZE_MIN
from dueline.store.properties import key_hash
from dueline.store.record import seal

pytest.importorskip("numba")

UNCHECKED = range(20, 36)  # queue offset and position: who reads them knows what they must be


@pytest.fixture(scope="module")
def kernels() -> Any:
    name = "dueline.store.record_kernels"
    assert compiled.load([name])
    return compiled.ready(name)


def is_usual(kernels: Any, data: bytes, start: int = 0, end: int | None = None) -> bool:
    array = read_only(np.frombuffer(data, dtype=np.uint8))
    return bool(kernels.is_usual(array, start, len(data) if end is None else end))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_flipped_bit_is_noticed(kernels: Any, name: str) -> None:
    data = seal(SAMPLES[name])
    if not is_usual(kernels, data):
        assert data[36:40] != bytes(4), "wide hosts are left to the codec"
        return
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8

        assert is_usual(kernels, bytes(flipped)) == (bit // 8 in UNCHECKED), bit


def test_a_place_outside_of_the_bytes_is_no_record(kernels: Any) -> None:
    data = seal(next(iter(SAMPLES.values())))
    behind = b"\0" * 100 + data

    assert is_usual(kernels, behind, 100)
    for start, end in ((-1, 99), (100, len(behind) + 1), (100, 99), (len(behind), 1 << 40)):
        assert not is_usual(kernels, behind, start, end)


def test_sizes_are_those_of_the_codec(kernels: Any) -> None:
    assert (kernels.HEADER_SIZE, kernels.SIZE_MIN) == (HEADER_SIZE, RECORD_SIZE_MIN)


@given(st.text(max_size=200))
def test_hashes_of_keys_are_those_of_the_index(kernels: Any, key: str) -> None:
    data = key.encode("utf-8", "ignore")

    found = kernels.key_hash(np.frombuffer(b"x" + data, dtype=np.uint8), 1, 1 + len(data))

    assert found == key_hash(data.decode())
