"""Blocks of units that were read not long ago."""

from __future__ import annotations

import numpy as np

from dueline.store.unit_blocks import BLOCK_UNITS, COUNT_MAX, UnitBlocks


def units(start: int, end: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(start, end, dtype=np.int64)


def test_what_is_kept_is_found_within_and_across_blocks() -> None:
    blocks = UnitBlocks()
    blocks.keep("q", 1_000, units(1_000, 1_000 + 2 * BLOCK_UNITS + 7))

    for start, stop in ((1_000, 1_001), (1_500, 1_520), (1_010, 1_000 + 2 * BLOCK_UNITS + 7)):
        found = blocks.get("q", 1_000, start, stop)
        assert found is not None
        assert found.tolist() == list(range(start, stop))
    assert blocks.get("q", 1_000, 1_500, 1_000 + 2 * BLOCK_UNITS + 8) is None
    assert blocks.get("q", 1_000, 3_000, 3_001) is None
    assert blocks.get("other", 1_000, 1_000, 1_001) is None


def test_a_short_block_does_not_hide_what_is_missing() -> None:
    blocks = UnitBlocks()
    blocks.keep("q", 0, units(0, 5))
    blocks.keep("q", BLOCK_UNITS, units(BLOCK_UNITS, 2 * BLOCK_UNITS))

    assert blocks.get("q", 0, 0, BLOCK_UNITS + 3) is None
    blocks.keep("q", 0, units(0, BLOCK_UNITS))
    found = blocks.get("q", 0, 0, BLOCK_UNITS + 3)

    assert found is not None
    assert found.tolist() == list(range(BLOCK_UNITS + 3))


def test_the_oldest_go_first_and_one_queue_is_forgotten() -> None:
    blocks = UnitBlocks()
    for number in range(COUNT_MAX + 1):
        blocks.keep(number, 0, units(0, 1))

    assert blocks.get(0, 0, 0, 1) is None
    assert blocks.get(1, 0, 0, 1) is not None
    blocks.forget(1)
    assert blocks.get(1, 0, 0, 1) is None
    assert blocks.get(2, 0, 0, 1) is not None
