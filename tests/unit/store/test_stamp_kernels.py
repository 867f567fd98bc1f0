"""What `test_stamp` claims of arrays holds for the kernel, which must not leave its array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.test_record import RECORDS, V6
from tests.unit.store.test_stamp import MS, OTHER_HOST, laid_out

from dueline import compiled
from dueline.store import record as records
from dueline.store import stamp
from dueline.store.record import MARK_PRESENT, Record

pytest.importorskip("numba")


@pytest.fixture(scope="module", autouse=True)
def kernels() -> Any:
    assert compiled.load([stamp.STAMP_KERNELS])
    return compiled.ready(stamp.STAMP_KERNELS)


@given(
    st.lists(st.tuples(RECORDS, MS, MS, MS, st.integers(0, (1 << 44) - 1)), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, OTHER_HOST, V6]),
)
def test_kernel_and_arrays_agree(
    rows: list[tuple[Record, int, int, int, int]],
    with_marks: bool,
    with_offsets: bool,
    host: bytes | None,
) -> None:
    starts, _, data = laid_out([records.seal(row[0]) for row in rows])
    positions, times, offsets, numbers = (
        np.array([row[column] for row in rows], dtype=np.int64) for column in (1, 2, 3, 4)
    )
    marks = numbers.astype(np.uint64) | np.uint64(MARK_PRESENT)
    other = data.copy()

    def restamp(target: Any) -> None:
        stamp.restamp(
            target,
            starts,
            positions=positions,
            store_ms=times,
            queue_offsets=offsets if with_offsets else None,
            marks=marks if with_marks else None,
            store_host=host,
        )

    restamp(data)
    with compiled.switched_off():
        restamp(other)

    assert data.tobytes() == other.tobytes()


@pytest.mark.parametrize("start", [-1, 13, 200])
def test_record_outside_of_its_array_is_left_alone(kernels: Any, start: int) -> None:
    data = np.full(100, 7, dtype=np.uint8)
    one, none = np.array([start], dtype=np.int64), np.empty(0, dtype=np.int64)

    done = kernels.restamp(data, one, one, one, none, none, np.empty(0, dtype=np.uint8))

    assert not done
    assert set(data.tolist()) == {7}
