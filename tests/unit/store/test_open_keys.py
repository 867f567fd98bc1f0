"""Keys in memory against a dictionary of lists, however they came."""

from __future__ import annotations

import numpy as np
import pytest

from dueline.store import open_keys
from dueline.store.open_keys import OpenKeys


def fill(keys: OpenKeys, sizes: list[int], *, seed: int, first: int = 0) -> dict[int, list[int]]:
    """Enter groups of these sizes under some dozens of hashes."""
    random = np.random.default_rng(seed)
    expected: dict[int, list[int]] = {}
    position = first
    for size in sizes:
        hashes = random.integers(0, 60, size).astype(np.uint32)
        positions = np.arange(position, position + size, dtype=np.int64)
        keys.add(hashes, positions)
        for value, place in zip(hashes.tolist(), positions.tolist(), strict=True):
            expected.setdefault(value, []).append(place)
        position += size
    return expected


SIZES = {
    "singles": [1] * 5_000,
    "groups": [7, 1, 300, 2, 0, 40] * 60,
    "tables": [5_000, 1, 1, 4_096, 4_095, 3] * 8,
}


@pytest.mark.parametrize("kind", SIZES)
def test_every_entry_is_found(kind: str) -> None:
    keys = OpenKeys()

    expected = fill(keys, SIZES[kind], seed=3)

    assert len(keys) == sum(SIZES[kind])
    for value in range(61):
        assert sorted(keys.find(value)) == expected.get(value, [])
    hashes, positions = keys.sorted()
    assert hashes.tolist() == sorted(hashes.tolist())
    assert sorted(positions.tolist()) == list(range(sum(SIZES[kind])))


def test_entries_of_two_are_found_together() -> None:
    first, second = OpenKeys(), OpenKeys()
    expected = fill(first, [1] * 700, seed=1)
    later = fill(second, [3] * 100 + [5_000], seed=2, first=700)

    first.take_over(second)
    fill(first, [1] * 100, seed=4, first=10_000)

    assert len(first) == 700 + 5_300 + 100
    for value in range(60):
        found = [position for position in sorted(first.find(value)) if position < 10_000]
        assert found == expected.get(value, []) + later.get(value, [])


def test_a_lookup_looks_at_few_arrays() -> None:
    """After any number of single puts: this is what the time of a lookup goes with."""
    keys = OpenKeys()
    counts = []
    for number in range(50_000):
        keys.add(np.array([number], dtype=np.uint32), np.array([number], dtype=np.int64))
        if number % 1_000 == 0:
            counts.append(len(keys._small) + len(keys._gathered))

    assert max(counts) < open_keys.SMALL_COUNT_MAX + 20
    assert keys.find(49_999) == [49_999]


def test_only_lookups_sort_and_each_no_more_than_one_array() -> None:
    keys = OpenKeys()
    expected = fill(keys, [4_000] * 160, seed=5)

    def unsorted_count() -> int:
        return sum(not each.is_sorted for each in keys._gathered)

    count = unsorted_count()
    assert count == len(keys._gathered) > 3
    for number in range(count + 2):
        assert sorted(keys.find(number)) == expected[number]
        assert unsorted_count() == max(count - number - 1, 0)
    later = fill(keys, [4_000] * 40, seed=6, first=1 << 40)
    for value in range(60):
        assert sorted(keys.find(value)) == sorted(expected[value] + later[value])
    hashes, positions = keys.sorted()
    assert hashes.tolist() == sorted(hashes.tolist())
    assert len(set(positions.tolist())) == 200 * 4_000
