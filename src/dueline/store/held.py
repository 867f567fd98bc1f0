"""Which pending messages may not be carried over yet: by topic, all beyond a key.

The limits are those of the topics' rules (`road.py`). A new object for each change, with another
`version`: runs remember how much of their beginning is held, as long as it stays the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.store.corner import Key
from dueline.store.run import Units

__all__ = ["NOTHING", "Held"]

_LAST: Final = 1 << 62
_VERSIONS: Final = itertools.count()


class Held:
    """The last key of each topic that may be carried over; topics without one have no limit."""

    def __init__(self, limits: Mapping[int, Key] | None = None) -> None:
        self._limits: Final = dict(limits or {})
        self.version: Final = next(_VERSIONS)
        width = max(self._limits, default=-1) + 2  # the last one stands for all other topics
        self._due = np.full(width, _LAST, dtype=np.int64)
        self._seq = np.full(width, _LAST, dtype=np.int64)
        for number, (due_ms, seq) in self._limits.items():
            self._due[number], self._seq[number] = due_ms, seq

    def __bool__(self) -> bool:
        return bool(self._limits)

    def changed(self, limits: Mapping[int, Key]) -> Held:
        """With these limits; itself if they are the same."""
        return self if limits == self._limits else Held(limits)

    def allows(self, units: Units) -> npt.NDArray[np.bool_]:
        """Which units may be carried over."""
        topic = np.minimum(units.topic, len(self._due) - 1)
        due_ms = self._due[topic]
        is_last = (units.due_ms == due_ms) & (units.seq <= self._seq[topic])
        allowed: npt.NDArray[np.bool_] = (units.due_ms < due_ms) | is_last
        return allowed

    def left(self, units: Units) -> Units:
        """The units that may be carried over."""
        if not self._limits:
            return units
        allowed = self.allows(units)
        return units if bool(allowed.all()) else units.take(np.flatnonzero(allowed))


NOTHING: Final = Held()
