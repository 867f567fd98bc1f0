"""Compiled unpacking: what it says of anything is what its plain twin says."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from tests.unit.store import packing as making
from tests.unit.store.packing import packed_of

from dueline import compiled
from dueline.store.kernels import read_only
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


@pytest.mark.parametrize(
    ("at", "value"),
    [(13, 255), (15, 255), (17, 255), (12, 0), (12, 0x11), (16, 255), (52, 255), (4, 0), (0, 9)],
)
def test_what_has_changed_since_it_was_measured_is_not_written(at: int, value: int) -> None:
    """The file may be written to by somebody else: nothing outside of `out` may change."""
    functions: Any = compiled.ready(UNPACKING_KERNELS)
    record = making.usual_record()
    packed_record = packed_of(record, making.USUAL_TEXT)
    assert packed_record is not None
    changing = np.frombuffer(bytearray(packed_record), dtype=np.uint8)
    data = read_only(changing)
    starts, ends = np.array([0]), np.array([len(data)])
    positions, sizes = np.array([record.position]), np.zeros(1, dtype=np.int64)
    total = functions.measure(data, starts, ends, positions, sizes)
    assert total == len(seal(record))
    around = np.full(total + (2 << 20), 7, dtype=np.uint8)

    changing[at] = value

    out = around[1 << 20 : total + (1 << 20)]
    assert functions.expand(data, starts, ends, positions, sizes, out) == -1
    assert bool((around == 7).all())


def test_rows_that_are_not_within_the_data_are_left_alone() -> None:
    functions: Any = compiled.ready(UNPACKING_KERNELS)
    data = read_only(np.frombuffer(b"abcdef", dtype=np.uint8))
    starts, ends = np.array([0, 9, -5, 4]), np.array([3, 12, 2, 6])
    positions, sizes = np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
    total = functions.measure(data, starts, ends, positions, sizes)
    out = np.zeros(total, dtype=np.uint8)

    assert functions.expand(data, starts, ends, positions, sizes, out) == total
    assert (sizes.tolist(), out.tobytes()) == ([3, 0, 0, 2], b"abcef")
