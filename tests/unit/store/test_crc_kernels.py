"""The compiled CRC-32 beside zlib's."""

from zlib import crc32

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dueline import compiled
from dueline.store import kernels

pytest.importorskip("numba")


@given(st.binary(max_size=300), st.integers(-3, 310), st.integers(-3, 310))
def test_any_slice_has_zlibs_crc(data: bytes, start: int, end: int) -> None:
    assert compiled.load([kernels.CRC_KERNELS])
    crc = compiled.ready(kernels.CRC_KERNELS).crc  # type: ignore[union-attr]
    is_within = 0 <= start <= end <= len(data)

    found = crc(np.frombuffer(data, dtype=np.uint8), start, end)

    assert found == (crc32(data[start:end]) if is_within else 0)


@given(st.lists(st.binary(max_size=40)))
def test_bodies_have_the_same_crcs_compiled_and_interpreted(bodies: list[bytes]) -> None:
    assert compiled.load([kernels.CRC_KERNELS])
    data = np.frombuffer(b"".join(bodies), dtype=np.uint8)
    ends = np.cumsum([0, *map(len, bodies)], dtype=np.int64)

    found = kernels.body_crcs(data, ends[:-1], ends[1:])
    with compiled.switched_off():
        expected = kernels.body_crcs(data, ends[:-1], ends[1:])

    assert found.tolist() == expected.tolist() == [crc32(body) & 0x7FFFFFFF for body in bodies]
