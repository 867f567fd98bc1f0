"""Pieces of answers; whole ones are compared in `test_turn_answers`."""

from __future__ import annotations

import base64

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dueline import compiled
from dueline.wire.turn_answers import ANSWER_KERNELS

pytest.importorskip("numba")


@given(st.binary(max_size=40))
def test_base64_is_that_of_the_standard_library(data: bytes) -> None:
    assert compiled.load([ANSWER_KERNELS])
    from dueline.wire import answer_kernels as kernels

    out = np.zeros(60, dtype=np.uint8)
    source = np.array(list(data), dtype=np.uint8)
    end = kernels._put_base64(out, 2, source, len(data))

    assert out[2:end].tobytes() == base64.urlsafe_b64encode(data)


@given(st.integers(-(1 << 62), 1 << 62))
def test_numbers_are_decimal(value: int) -> None:
    assert compiled.load([ANSWER_KERNELS])
    from dueline.wire import answer_kernels as kernels

    out = np.zeros(30, dtype=np.uint8)

    assert out[: kernels._put_number(out, 0, value)].tobytes() == b"%d" % value
