"""Which numbers messages have that a rule of the road has turned back at the gate."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["COUNT_MAX", "TurnedBack"]

COUNT_MAX: Final = 1 << 20
"""Numbers that are remembered, 16 bytes each; the lowest are forgotten first."""

Int64s = npt.NDArray[np.int64]


class TurnedBack:
    """Old numbers and the new ones, since the store was opened. Its owner holds a lock to `add`."""

    def __init__(self) -> None:
        none = np.empty(0, dtype=np.int64)
        self._pairs: tuple[Int64s, Int64s] = (none, none)  # by old number; replaced as a whole

    def add(self, old: Int64s, first: int) -> None:
        """These were given new numbers, from `first` on, in this order."""
        known, names = self._pairs
        known = np.concatenate([known, old])
        names = np.concatenate([names, np.arange(first, first + len(old), dtype=np.int64)])
        order = np.argsort(known)[-COUNT_MAX:]
        self._pairs = (known[order], names[order])

    def newest(self, seqs: Int64s) -> Int64s:
        """The newest number of each; its own if it was not turned back."""
        known, names = self._pairs
        newest = seqs.copy()
        while len(known):
            place = np.minimum(np.searchsorted(known, newest), len(known) - 1)
            is_old = known[place] == newest
            if not is_old.any():
                break
            newest[is_old] = names[place[is_old]]  # a higher one: there is an end
        return newest
