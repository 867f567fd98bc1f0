"""What happened, minute by minute over a day, and how it is distributed since the start.

    minutes          sent, shown and lateness of each minute; the last one is not over
    batches          the last deliveries of the pipeline
    lateness_ms      of every message that became visible
    sync_s           how long the disk took, fsync by fsync
    group_rows       how many messages were accepted together
    batch_rows       how many were carried over together

Lateness is kept in classes (1, 2, 3, 5, 7, 10, 15 … ms): a percentile of a minute is the bound of
its class, the maximum is exact. A day takes less than a megabyte, whatever the load. Any thread may
call; a call takes microseconds, so it may come from under the store's lock.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.broker.distribution import Distribution
from dueline.clock import Clock
from dueline.store import Observer
from dueline.store.kernels import Int64s

__all__ = ["Batch", "History", "Minute"]

MINUTE_MS: Final = 60_000
MINUTE_COUNT_MAX: Final = 24 * 60
BATCH_COUNT_MAX: Final = 60
_LATE_MS_MAX: Final = 7 * 86_400_000


def _lateness_bounds() -> tuple[int, ...]:
    bounds = {
        round(step * 10**power) for power in range(9) for step in (1, 1.5, 2, 3, 5, 7) if power
    }
    return tuple(sorted({0, 1, 2, 3, 5, 7} | {each for each in bounds if each < _LATE_MS_MAX}))


LATENESS_BOUNDS_MS: Final = _lateness_bounds()
SYNC_BOUNDS_S: Final = tuple(step * 10.0**power for power in range(-5, 1) for step in (1, 2, 5))
ROW_BOUNDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 50_000)
BATCH_BOUNDS: Final = (1, 10, 100, 1_000, 10_000, 50_000, 100_000, 500_000, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """What happened from `start_ms` on; lateness is of delayed messages, None without any."""

    start_ms: int
    sent_count: int
    delayed_count: int
    shown_count: int
    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One delivery of the pipeline."""

    time_ms: int
    row_count: int
    skipped_count: int
    dropped_count: int


class _Counts:
    """A minute that is being counted."""

    def __init__(self, start_ms: int) -> None:
        self.start_ms: Final = start_ms
        self.sent_count = 0
        self.delayed_count = 0
        self.late: npt.NDArray[np.int32] | None = None
        self.late_ms_max = 0

    def minute(self) -> Minute:
        shown_count = 0 if self.late is None else int(self.late.sum())
        return Minute(
            start_ms=self.start_ms,
            sent_count=self.sent_count,
            delayed_count=self.delayed_count,
            shown_count=shown_count,
            p50_ms=self._percentile(50),
            p99_ms=self._percentile(99),
            max_ms=self.late_ms_max if shown_count else None,
        )

    def _percentile(self, percent: int) -> int | None:
        if self.late is None:
            return None
        ends = np.cumsum(self.late)
        rank = max(-(-int(ends[-1]) * percent // 100), 1)
        place = int(np.searchsorted(ends, rank))
        if place == len(LATENESS_BOUNDS_MS):
            return self.late_ms_max
        return min(LATENESS_BOUNDS_MS[place], self.late_ms_max)


class History(Observer):
    """The last day of one store."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._minutes: deque[_Counts] = deque(maxlen=MINUTE_COUNT_MAX)
        self._batches: deque[Batch] = deque(maxlen=BATCH_COUNT_MAX)
        self.lateness_ms: Final = Distribution(LATENESS_BOUNDS_MS)
        self.sync_s: Final = Distribution(SYNC_BOUNDS_S)
        self.group_rows: Final = Distribution(ROW_BOUNDS)
        self.batch_rows: Final = Distribution(BATCH_BOUNDS)

    # What the store tells

    def accepted(self, count: int, delayed_count: int, refused_count: int) -> None:
        if not count:
            return
        with self._lock:
            minute = self._minute(self._clock.now_ms())
            minute.sent_count += count
            minute.delayed_count += delayed_count
            self.group_rows.add(count)

    def delivered(self, *, count: int, skipped_count: int, dropped_count: int) -> None:
        now_ms = self._clock.now_ms()
        batch = Batch(
            time_ms=now_ms,
            row_count=count,
            skipped_count=skipped_count,
            dropped_count=dropped_count,
        )
        with self._lock:
            self._batches.append(batch)
            self.batch_rows.add(count)

    def shown(self, due_ms: Int64s, now_ms: int) -> None:
        if not len(due_ms):
            return
        late_ms = np.maximum(now_ms - due_ms, 0)
        with self._lock:
            counts = self.lateness_ms.add_all(late_ms)
            minute = self._minute(now_ms)
            minute.late = counts.astype(np.int32) if minute.late is None else minute.late + counts
            minute.late_ms_max = max(minute.late_ms_max, int(late_ms.max()))

    def synced(self, duration_s: float) -> None:
        with self._lock:
            self.sync_s.add(duration_s)

    # What people ask

    def minutes(self) -> list[Minute]:
        """Those in which something happened, the oldest first."""
        oldest_ms = self._clock.now_ms() - MINUTE_COUNT_MAX * MINUTE_MS
        with self._lock:
            return [each.minute() for each in self._minutes if each.start_ms >= oldest_ms]

    def batches(self) -> list[Batch]:
        """The last ones, the oldest first."""
        with self._lock:
            return list(self._batches)

    def _minute(self, now_ms: int) -> _Counts:
        """The minute of now; the caller holds the lock. Times never go back."""
        start_ms = now_ms - now_ms % MINUTE_MS
        if not self._minutes or self._minutes[-1].start_ms < start_ms:
            self._minutes.append(_Counts(start_ms))
        return self._minutes[-1]
