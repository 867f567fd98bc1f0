"""How late messages become visible: the promise "on time", measured.

A message's lateness is the time at which consumers could first see it minus its due time. Messages
are carried over ahead of time and then wait at the gate, so the measure has two halves: `carried`
is told the due times of what was delivered, `seen` is told when the gate has opened, and up to
where. In between a due time waits here as it waits there, eight bytes each, so memory is bounded by
the gate's own bound.

Figures are exact within a window of the last minute: every opening leaves the distinct values that
it saw and how many of each. A message that is cancelled while it waits at the gate is counted as if
it had been seen; figures are for people, and the store's states are the truth.

Any thread may call; a call takes microseconds, so it may come from under the store's lock.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["Lateness", "LatenessFigures"]

WINDOW_MS: Final = 60_000
_OPENINGS_MAX: Final = 100_000
"""An opening each millisecond for 100 s: never reached, since openings take longer."""

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class LatenessFigures:
    """Of the messages that became visible within the window; None without any."""

    count: int
    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None


class Lateness:
    """Lateness of one broker's messages."""

    def __init__(self) -> None:
        self._waiting: list[Int64s] = []  # sorted due times, a batch each
        self._openings: deque[tuple[int, Int64s, Int64s]] = deque(maxlen=_OPENINGS_MAX)
        self._lock = threading.Lock()
        self.late_ms_max = 0
        self.seen_count = 0

    def carried(self, due_ms: Int64s) -> None:
        """Messages with these due times now wait at the gate, or are late already."""
        if len(due_ms):
            with self._lock:
                self._waiting.append(np.sort(due_ms))

    def seen(self, now_ms: int, gate_next_ms: int | None) -> None:
        """The gate has been opened; what it still holds is due at `gate_next_ms` or later."""
        end_ms = now_ms + 1 if gate_next_ms is None else min(now_ms + 1, gate_next_ms)
        with self._lock:
            opened = [batch[: np.searchsorted(batch, end_ms)] for batch in self._waiting]
            opened = [part for part in opened if len(part)]
            if not opened:
                return
            self._waiting = [
                batch[np.searchsorted(batch, end_ms) :]
                for batch in self._waiting
                if int(batch[-1]) >= end_ms
            ]
            values, counts = np.unique(now_ms - np.concatenate(opened), return_counts=True)
            self._openings.append((now_ms, values, counts))
            self.late_ms_max = max(self.late_ms_max, int(values[-1]))
            self.seen_count += int(counts.sum())
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
