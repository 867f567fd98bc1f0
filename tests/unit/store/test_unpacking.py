"""Packed records among others that were read: each becomes what it stands for."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from tests.unit.store import packing as making
from tests.unit.store.packing import packed_of

from dueline import compiled
from dueline.store.record import Record, seal
from dueline.store.unpacking import UNPACKING_KERNELS, expanded

pytest.importorskip("numba")


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    assert compiled.load([UNPACKING_KERNELS])


@given(st.lists(making.records(), min_size=1, max_size=6), st.booleans())
def test_unpacked_records_are_what_was_packed(
    made: list[tuple[Record, bytes]], is_compiled: bool
) -> None:
    expected = [seal(record) for record, _ in made]
    batch = pa.array(
        [packed_of(*one) or sealed for one, sealed in zip(made, expected, strict=True)]
    ).cast(pa.binary())
    positions = np.array([record.position for record, _ in made], dtype=np.int64)

    if is_compiled:
        assert expanded(batch, positions).to_pylist() == expected
        return
    with compiled.switched_off():
        assert expanded(batch, positions).to_pylist() == expected


def test_a_slice_of_rows_is_unpacked_as_any() -> None:
    record = making.usual_record()
    data = packed_of(record, making.USUAL_TEXT)
    assert data is not None
    batch = pa.array([b"", data, data, b"x" * 200], pa.binary()).slice(1, 2)
    positions = np.array([record.position, record.position + 1], dtype=np.int64)
    positions.flags.writeable = False  # as Arrow gives them

    assert expanded(batch, positions).to_pylist() == [seal(record), data]
