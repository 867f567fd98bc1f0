"""Small arrays that a whole log can be boiled down to: sets of numbers, and sums of its rows.

A *digest* is a sum of one 64-bit hash per row. Two collections with equal counts and digests hold
the same rows, in whatever order they were read; so a log and an index of it can be compared without
keeping either in memory.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dueline.store.kernels import Int64s

__all__ = ["Hashes", "NumberSet", "Tally", "mix"]

Hashes = npt.NDArray[np.uint64]


def mix(*columns: npt.NDArray[np.generic]) -> Hashes:
    """One 64-bit hash for each row of columns of whole numbers."""
    result = np.full(len(columns[0]), 0x9E3779B97F4A7C15, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            result ^= column.astype(np.int64).view(np.uint64)
            result = (result ^ result >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
            result = (result ^ result >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
            result ^= result >> np.uint64(31)
    return result


class NumberSet:
    """A set of whole numbers below a bound, one bit each."""

    def __init__(self, end: int) -> None:
        self._bits = np.zeros((max(end, 0) >> 3) + 1, dtype=np.uint8)
        self.end = end

    def add(self, numbers: Int64s) -> Int64s:
        """Put numbers in; returns those that were in before, or came twice."""
        numbers = numbers[(numbers >= 0) & (numbers < self.end)]
        distinct, counts = np.unique(numbers, return_counts=True)
        known = distinct[(counts > 1) | self.has(distinct)]
        np.bitwise_or.at(self._bits, distinct >> 3, (1 << (distinct & 7)).astype(np.uint8))
        result: Int64s = known
        return result

    def has(self, numbers: Int64s) -> npt.NDArray[np.bool_]:
        """Which of the numbers are in."""
        inside = (numbers >= 0) & (numbers < self.end)
        at = np.where(inside, numbers, 0)
        result: npt.NDArray[np.bool_] = (self._bits[at >> 3] >> (at & 7) & 1 == 1) & inside
        return result


class Tally:
    """Counts and digests of rows, for each of a number of owners."""

    def __init__(self, owner_count: int) -> None:
        self.counts = np.zeros(owner_count, dtype=np.int64)
        self.digests = np.zeros(owner_count, dtype=np.uint64)

    def add(self, owners: Int64s, hashes: Hashes) -> None:
        """Add a row with a hash to each owner."""
        if not len(owners):
            return
        order = np.argsort(owners, kind="stable")
        sorted_owners = owners[order]
        starts = np.flatnonzero(np.r_[True, np.diff(sorted_owners) != 0])
        distinct = sorted_owners[starts]
        self.counts[distinct] += np.diff(np.r_[starts, len(owners)])
        with np.errstate(over="ignore"):
            self.digests[distinct] += np.add.reduceat(hashes[order], starts)

    def differs(self, other: Tally) -> Int64s:
        """The owners whose rows are not the same."""
        found = (self.counts != other.counts) | (self.digests != other.digests)
        result: Int64s = np.flatnonzero(found)
        return result
