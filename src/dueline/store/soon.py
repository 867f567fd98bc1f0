"""Delayed messages that were accepted a moment ago and are due before a batch could carry them.

The timeline puts them in here while it takes them in, and somebody takes them out at once to carry
them over without the pipeline (`dueline.broker.pipeline.shortcut`). They are in the timeline like
all others: what is not taken out, or not carried over, is the pipeline's, as if nothing had been.

So this may forget, and does: when too many come together, which is what the pipeline is good at,
and in a crash. Not thread-safe: its owner holds the store's lock.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dueline.clock import Clock
from dueline.store.kernels import Int64s
from dueline.store.run import Units

__all__ = ["Soon"]

ROW_COUNT_MAX: Final = 2_000
"""More than that at a time are no short delays but a crowd."""

_NONE: Final = np.empty(0, dtype=np.int64)


class Soon:
    """Units that are due within some time of their acceptance, which `keep` says."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._parts: list[Units] = []
        self._row_count = 0
        self._taken = _NONE
        self._within_ms = 0
        self.has_news = False
        """Has anything come since the last `take` that is due soon, kept or not?"""

    def keep(self, within_ms: int) -> None:
        """From now on keep what is due within this time; 0: nothing, and forget what is here."""
        self._within_ms = within_ms
        if not within_ms:
            self._parts, self._row_count, self._taken = [], 0, _NONE
            self.has_news = False

    def add(self, units: Units) -> None:
        """Keep those of the units that are due soon, unless that makes a crowd."""
        if not self._within_ms:
            return
        chosen = np.flatnonzero(units.due_ms <= self._clock.now_ms() + self._within_ms)
        self.has_news |= len(chosen) > 0
        if not len(chosen) or self._row_count + len(chosen) > ROW_COUNT_MAX:
            return
        self._parts.append(units if len(chosen) == len(units) else units.take(chosen))
        self._row_count += len(chosen)

    def take(self) -> Units | None:
        """Take out what is here, in due order; it is under way until the next call."""
        parts, self._parts, self._row_count = self._parts, [], 0
        self._taken = _NONE
        self.has_news = False
        if not parts:
            return None
        units = Units.concat(parts)
        units = units.take(np.argsort(units.due_ms, kind="stable"))
        self._taken = units.seq
        return units

    def numbers(self) -> Int64s:
        """The acceptance numbers of what is here or under way."""
        return np.concatenate([self._taken, *(part.seq for part in self._parts)])
