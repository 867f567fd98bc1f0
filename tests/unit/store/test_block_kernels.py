"""Counting within queues and their entries; records are compared in `test_block_writing`."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.unit.store.row_making import rows_of

from dueline import compiled
from dueline.message import Message
from dueline.store.block import BLOCK_KERNELS
from dueline.store.consume_queue import UNIT_DTYPE

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def kernels() -> Any:
    assert compiled.load([BLOCK_KERNELS])
    return compiled.ready(BLOCK_KERNELS)


@given(st.lists(st.integers(0, 3)))
def test_offsets_count_within_each_queue(kernels: Any, queues: list[int]) -> None:
    ends = np.array([5, 0, 100, 7], dtype=np.int64)
    offsets = np.zeros(len(queues), dtype=np.int64)

    kernels.queue_offsets(np.array(queues, dtype=np.int64), ends, offsets)

    firsts = [5, 0, 100, 7]
    expected = [firsts[queue] + queues[:row].count(queue) for row, queue in enumerate(queues)]
    assert offsets.tolist() == expected
    assert ends.tolist() == [first + queues.count(q) for q, first in enumerate(firsts)]


def test_entries_of_one_queue_stand_together(kernels: Any) -> None:
    messages = [
        Message(topic="t", body=b"", properties={"UNIQ_KEY": "A", "TAGS": tag}) for tag in "abcd"
    ]
    rows = rows_of(messages).rows
    chosen = np.arange(4, dtype=np.int64)
    units = np.zeros(4, dtype=UNIT_DTYPE)
    starts = np.array([0, 1], dtype=np.int64)
    queues = np.array([1, 0, 1, 1], dtype=np.int64)

    kernels.write_units(
        rows, chosen, chosen + 50, chosen * 1_000, queues, starts, units.view(np.uint8)
    )

    assert units.tolist() == [(1_000, 51, 98), (0, 50, 97), (2_000, 52, 99), (3_000, 53, 100)]
    assert starts.tolist() == [1, 4]
