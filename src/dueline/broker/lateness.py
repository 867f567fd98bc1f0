"""How late messages become visible: the promise "on time", measured.

A message's lateness is the time at which consumers could first see it minus its due time, whatever
kept it: a pipeline that came late, a gate that was opened late, or one of its queue that is due
earlier and was waited for.

Figures are exact within a window of the last minute: every opening of the gate leaves the distinct
values that it saw and how many of each.

Any thread may call; a call takes microseconds, so it may come from under the store's lock.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from dueline.store import Observer
from dueline.store.kernels import Int64s

__all__ = ["Lateness", "LatenessFigures"]

WINDOW_MS: Final = 60_000
_OPENINGS_MAX: Final = 100_000
"""An opening each millisecond for 100 s: never reached, since openings take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessFigures:
    """Of the messages that became visible within the window; None without any."""

    count: int
    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None


class Lateness(Observer):
    """Lateness of one broker's messages."""

    def __init__(self) -> None:
        self._openings: deque[tuple[int, Int64s, Int64s]] = deque(maxlen=_OPENINGS_MAX)
        self._lock = threading.Lock()
        self.late_ms_max = 0

    def shown(self, due_ms: Int64s, now_ms: int) -> None:
        """Messages with these due times became visible now."""
        if not len(due_ms):
            return
        values, counts = np.unique(now_ms - due_ms, return_counts=True)
        with self._lock:
            self._openings.append((now_ms, values, counts))
            self.late_ms_max = max(self.late_ms_max, int(values[-1]))
            self._expire(now_ms)

    def figures(self, now_ms: int) -> LatenessFigures:
        """Median, 99th percentile and maximum over the last minute."""
        with self._lock:
            self._expire(now_ms)
            openings = list(self._openings)
        if not openings:
            return LatenessFigures(count=0, p50_ms=None, p99_ms=None, max_ms=None)
        values = np.concatenate([values for _, values, _ in openings])
        counts = np.concatenate([counts for _, _, counts in openings])
        order = np.argsort(values, kind="stable")
        values, ends = values[order], np.cumsum(counts[order])
        total = int(ends[-1])

        def percentile(percent: int) -> int:
            rank = max(-(-total * percent // 100), 1)
            return int(values[np.searchsorted(ends, rank)])

        return LatenessFigures(
            count=total, p50_ms=percentile(50), p99_ms=percentile(99), max_ms=int(values[-1])
        )

    def _expire(self, now_ms: int) -> None:
        while self._openings and self._openings[0][0] < now_ms - WINDOW_MS:
            self._openings.popleft()
