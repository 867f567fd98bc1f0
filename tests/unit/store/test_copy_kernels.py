"""The kernels that copy records, by themselves: nothing is read or written outside of an array."""

from typing import Any

import numpy as np
import pytest

from dueline import compiled
from dueline.store.copies import COPY_KERNELS, VALUE_WIDTH

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def kernels() -> Any:
    assert compiled.load([COPY_KERNELS])
    return compiled.ready(COPY_KERNELS)


def test_numbers_that_make_no_sense_are_refused(kernels: Any) -> None:
    data = np.zeros(200, dtype=np.uint8)
    data.flags.writeable = False
    sizes, counts = np.zeros((2, 1), dtype=np.int64)
    for bounds in ([-5, 100], [100, 50], [0, 1 << 40], [1 << 40, 1 << 41]):
        offsets = np.array(bounds, dtype=np.int64)
        values = np.zeros((1, VALUE_WIDTH), dtype=np.int64)
        kernels.measure(data, offsets, np.array([1]), sizes, counts, values)
        assert sizes.tolist() == [-1]
        one = np.zeros(1, dtype=np.int64)
        two = np.zeros(2, dtype=np.int64)
        assert not kernels.copy(
            *(data, offsets, data, two, one, one, one, one, values),
            *(np.zeros(9, dtype=np.uint8), two, two, one, np.zeros(1, dtype=np.uint32)),
        )
