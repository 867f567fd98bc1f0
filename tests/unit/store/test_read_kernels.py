"""The kernel that reads a queue gets bytes that make no sense; the rest is in test_stretch."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dueline import compiled
from dueline.store.kernels import read_only
from dueline.store.stretch import READ_KERNELS

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def kernels() -> Any:
    assert compiled.load([READ_KERNELS])
    return compiled.ready(READ_KERNELS)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    segment=st.binary(max_size=300),
    base=st.integers(-(1 << 63), (1 << 63) - 1),
    units=st.binary(max_size=80),
    wanted=st.binary(max_size=5),
    offset=st.integers(0, 1 << 62),
    size_bytes_max=st.integers(-1, 1 << 40),
    is_bound=st.booleans(),
)
def test_what_makes_no_sense_gives_nothing(  # noqa: PLR0913 - arrays and numbers
    kernels: Any,
    segment: bytes,
    base: int,
    units: bytes,
    wanted: bytes,
    offset: int,
    size_bytes_max: int,
    is_bound: bool,
) -> None:
    arrays = [read_only(np.frombuffer(each, dtype=np.uint8)) for each in (segment, units, wanted)]

    count, data = kernels.gather(
        arrays[0], base, arrays[1], arrays[2], offset, size_bytes_max, is_bound
    )

    assert 0 <= count <= len(units) // 20
    assert len(data) == 0

    out = np.empty(64, dtype=np.uint8)
    for at in (-1, 0, 64, 65):
        copied = kernels.copy_usual(arrays[0], base, arrays[1], offset, size_bytes_max, out, at)
        assert copied == (0 if len(units) < 20 and 0 <= at <= 64 else -1)
