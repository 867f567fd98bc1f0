"""Compiled unpacking: what it says of anything is what its plain twin says."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from tests.unit.store import packing as making
from tests.unit.store.packing import packed_of

from dueline import compiled
from dueline.store.record import seal
from dueline.store.unpacking import UNPACKING_KERNELS, expanded

pytest.importorskip("numba")


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    assert compiled.load([UNPACKING_KERNELS])


@st.composite
def rows(draw: st.DrawFn) -> tuple[bytes, int]:
    """What may be read at a place of a delay log: a record of either form, sound or not."""
    record, text = draw(making.records())
    data = packed_of(record, text) if draw(st.booleans()) else None
    data = data or seal(record)
    kind = draw(st.sampled_from(["sound", "sound", "flipped", "cut", "longer", "elsewhere"]))
    if kind == "flipped":
        changed = bytearray(data)
        changed[draw(st.integers(0, len(data) - 1))] ^= 1 << draw(st.integers(0, 7))
        data = bytes(changed)
    elif kind == "cut":
        data = data[: draw(st.integers(0, len(data)))]
    elif kind == "longer":
        data += b"x"
    return data, record.position + (kind == "elsewhere")


@given(st.lists(rows(), max_size=6))
def test_both_ways_to_unpack_say_the_same(made: list[tuple[bytes, int]]) -> None:
    # As they come out of a log: records begin with their size, or are a few bytes.
    batch = pa.array([data for data, _ in made], pa.binary())
    positions = np.array([position for _, position in made], dtype=np.int64)

    found = expanded(batch, positions)
    with compiled.switched_off():
        plain = expanded(batch, positions)

    assert found.to_pylist() == plain.to_pylist()
    found.validate(full=True)
