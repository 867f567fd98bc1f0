"""How values are distributed, counted in classes since the start: what monitors call a histogram.

    >>> sizes = Distribution((1, 10, 100))
    >>> for size in (1, 7, 7, 5_000):
    ...     sizes.add(size)
    >>> sizes.counts.tolist(), sizes.total
    ([1, 2, 0, 1], 5015.0)

A class holds the values up to its bound and above the one before; the last one has no bound. Not
locked: an owner with several threads has the lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Distribution"]


class Distribution:
    """Counts by class, and the sum of all values."""

    def __init__(self, bounds: Sequence[float]) -> None:
        """Bounds in ascending order."""
        self.bounds: Final = tuple(bounds)
        self.counts: Final = np.zeros(len(bounds) + 1, dtype=np.int64)
        self.total = 0.0

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add_all(self, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Many values; returns how many came into each class."""
        classes = np.searchsorted(self.bounds, values, side="left")
        counts = np.bincount(classes, minlength=len(self.counts))
        np.add(self.counts, counts, out=self.counts)
        self.total += float(values.sum())
        return counts
