"""The compiled MD5 beside that of `hashlib`."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dueline import compiled

pytest.importorskip("numba")

KERNELS = "dueline.server.grpc.md5_kernels"


@given(data=st.binary(max_size=300), start=st.integers(0, 300), size=st.integers(0, 300))
@example(data=b"x" * 300, start=1, size=55)
@example(data=b"x" * 300, start=0, size=56)
@example(data=b"x" * 300, start=0, size=64)
@example(data=b"x" * 300, start=0, size=0)
@example(data=bytes(range(256)) * 20, start=3, size=5_000)
def test_a_digest_is_that_of_the_library(data: bytes, start: int, size: int) -> None:
    assert compiled.load([KERNELS])
    kernels = compiled.ready(KERNELS)
    assert kernels is not None
    start = min(start, len(data))
    end = min(start + size, len(data))
    out = np.zeros(40, dtype=np.uint8)
    work = np.empty(20, dtype=np.uint64)

    stop = kernels.put_md5(out, 3, np.frombuffer(data, dtype=np.uint8), start, end, work)

    expected = hashlib.md5(data[start:end], usedforsecurity=False).hexdigest().upper()
    assert stop == 35
    assert out.tobytes() == bytes(3) + expected.encode() + bytes(5)
