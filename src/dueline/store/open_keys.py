"""Entries of a key index that are in memory only, and are found quickly all the same.

A put brings a few entries, as two small arrays. Some dozens of such are looked through one by one;
more are gathered into one pair of arrays, and two of these into one that is twice as long, up to a
limit. So each entry is moved a few times, and most are never looked for before they are in a file:
a lookup puts the first pair that is not yet in order of hash into it, and looks through the others
as they are. So a lookup becomes a binary search in a few arrays where there are many lookups, and
nothing is sorted where there are none. Neither holds the store's lock for long. A table of messages
brings thousands at once: its arrays are kept as they come.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dueline.store.kernels import Int64s

__all__ = ["Hashes", "OpenKeys", "in_order"]

SMALL_COUNT_MAX: Final = 32
LARGE_ENTRIES_MIN: Final = 4_096
GATHERED_ENTRIES_MAX: Final = 1 << 16

_SHIFT: Final = np.uint64(32)
_PLACE: Final = np.uint64((1 << 32) - 1)

Hashes = npt.NDArray[np.uint32]
Entries = tuple[Hashes, Int64s]


class _Gathered(NamedTuple):
    hashes: Hashes
    positions: Int64s
    is_sorted: bool = False


class OpenKeys:
    """Hashes with positions. Not thread-safe, but for `sorted` beside `find`."""

    def __init__(self) -> None:
        self._small: list[Entries] = []
        self._gathered: list[_Gathered] = []
        self._large: list[Entries] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, hashes: Hashes, positions: Int64s) -> None:
        """Enter hash i for positions[i]."""
        if not len(hashes):
            return
        self._count += len(hashes)
        if len(hashes) >= LARGE_ENTRIES_MIN:
            self._large.append((hashes, positions))
            return
        self._small.append((hashes, positions))
        if len(self._small) >= SMALL_COUNT_MAX:
            self._gather()

    def _gather(self) -> None:
        group, self._small = self._small, []
        size = sum(len(hashes) for hashes, _ in group)
        while self._gathered and len(self._gathered[-1].hashes) <= 2 * size < GATHERED_ENTRIES_MAX:
            group.append(self._gathered.pop()[:2])
            size += len(group[-1][0])
        self._gathered.append(_Gathered(*_joined(group)))

    def find(self, hash_value: int) -> list[int]:
        """Positions entered under a hash, in no order."""
        found: list[int] = []
        self._sort_one()
        for hashes, positions, is_sorted in self._gathered:
            if is_sorted:
                start = int(np.searchsorted(hashes, np.uint32(hash_value), side="left"))
                stop = int(np.searchsorted(hashes, np.uint32(hash_value), side="right"))
                found.extend(positions[start:stop].tolist())
            else:
                found.extend(positions[hashes == hash_value].tolist())
        for hashes, positions in (*self._small, *self._large):
            found.extend(positions[hashes == hash_value].tolist())
        return found

    def _sort_one(self) -> None:
        for number, (hashes, positions, is_sorted) in enumerate(self._gathered):
            if not is_sorted:
                self._gathered[number] = _Gathered(*in_order([(hashes, positions)]), True)
                return

    def sorted(self) -> Entries:
        """All entries in order of hash."""
        gathered = [(hashes, positions) for hashes, positions, _ in self._gathered]
        return in_order([*gathered, *self._small, *self._large])

    def take_over(self, other: OpenKeys) -> None:
        """Have another's entries as well; it must not be used any more."""
        self._small += other._small
        self._gathered = sorted(self._gathered + other._gathered, key=_size, reverse=True)
        self._large += other._large
        self._count += len(other)


def _size(gathered: _Gathered) -> int:
    return len(gathered.hashes)


def _joined(group: list[Entries]) -> Entries:
    hashes = np.concatenate([hashes for hashes, _ in group])
    return hashes, np.concatenate([positions for _, positions in group])


def in_order(group: list[Entries]) -> Entries:
    """All entries of these in order of hash, those of one hash as they come."""
    hashes, positions = _joined(group)
    # Hash and place in one number: numpy sorts numbers many times quicker than it finds an order.
    places = hashes.astype(np.uint64) << _SHIFT | np.arange(len(hashes), dtype=np.uint64)
    places.sort()
    return (places >> _SHIFT).astype(np.uint32), positions[places & _PLACE]
