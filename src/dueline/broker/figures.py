"""Figures for people and monitors: counters since the start, what is there now, and lateness.

Whatever reaches the store, by whichever protocol, is counted once, because the store itself tells
of it. The counters start at zero with the process; the store's own states are what survives.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dueline.broker.lateness import Lateness, LatenessFigures
from dueline.broker.watches import Watches
from dueline.store import Observer, Store
from dueline.store.pending import Overdue

__all__ = ["Counters", "Figures", "LogRange", "Meter"]

OVERDUE_MS: Final = 1_000
"""A message that was due so long ago is late for a reason that a person should see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRange:
    """The positions that a log has now."""

    start: int
    end: int

    @property
    def size_bytes(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Counters since the start, what is there now, and lateness over the last minute.

    `overdue` is what was due more than `OVERDUE_MS` ago and is not carried over: the pipeline is
    missing, slow or fails.
    """

    now_ms: int
    started_ms: int
    sent_count: int
    sent_delayed_count: int
    refused_count: int
    delivered_count: int
    dropped_count: int
    skipped_count: int
    cancelled_count: int
    expired_count: int
    rescheduled_count: int
    pending_count: int
    at_gate_count: int
    next_due_ms: int | None
    waiting_reader_count: int
    late_ms_max: int
    lateness: LatenessFigures
    overdue: Overdue
    commit_log: LogRange
    delay_log: LogRange


class Counters(Observer):
    """Numbers since the start. Any thread may tell."""

    def __init__(self) -> None:
        self.sent_count = 0
        self.sent_delayed_count = 0
        self.refused_count = 0
        self.delivered_count = 0
        self.dropped_count = 0
        self.skipped_count = 0
        self.cancelled_count = 0
        self.expired_count = 0
        self.rescheduled_count = 0
        self._lock = threading.Lock()

    def accepted(self, count: int, delayed_count: int, refused_count: int) -> None:
        with self._lock:
            self.sent_count += count
            self.sent_delayed_count += delayed_count
            self.refused_count += refused_count

    def refused(self) -> None:
        """A message was refused before it came to the store."""
        with self._lock:
            self.refused_count += 1

    def delivered(self, *, count: int, skipped_count: int, dropped_count: int) -> None:
        with self._lock:
            self.delivered_count += count
            self.skipped_count += skipped_count
            self.dropped_count += dropped_count

    def cancelled(self, count: int) -> None:
        with self._lock:
            self.cancelled_count += count

    def expired(self, count: int) -> None:
        with self._lock:
            self.expired_count += count

    def rescheduled(self, count: int) -> None:
        with self._lock:
            self.rescheduled_count += count


class Meter:
    """Counts and measures what happens in one store."""

    def __init__(self, store: Store, readers: Watches) -> None:
        self._store = store
        self._readers = readers
        self._started_ms = store.clock.now_ms()
        self.counters: Final = Counters()
        self.lateness: Final = Lateness()
        store.observe(self.counters)
        store.observe(self.lateness)

    def figures(self) -> Figures:
        store, counters = self._store, self.counters
        now_ms, stats = store.clock.now_ms(), store.stats()
        return Figures(
            now_ms=now_ms,
            started_ms=self._started_ms,
            sent_count=counters.sent_count,
            sent_delayed_count=counters.sent_delayed_count,
            refused_count=counters.refused_count,
            delivered_count=counters.delivered_count,
            dropped_count=counters.dropped_count,
            skipped_count=counters.skipped_count,
            cancelled_count=counters.cancelled_count,
            expired_count=counters.expired_count,
            rescheduled_count=counters.rescheduled_count,
            pending_count=store.pending_count(),
            at_gate_count=store.gate_row_count,
            next_due_ms=self._next_due_ms(),
            waiting_reader_count=len(self._readers),
            late_ms_max=self.lateness.late_ms_max,
            lateness=self.lateness.figures(now_ms),
            overdue=store.overdue(now_ms - OVERDUE_MS),
            commit_log=_range(stats["commit_log"]),
            delay_log=_range(stats["delay_log"]),
        )

    def _next_due_ms(self) -> int | None:
        """What consumers will see next: pending still, or at the gate already."""
        times = (self._store.next_due_ms(), self._store.gate_next_ms)
        return min((time for time in times if time is not None), default=None)


def _range(stats: Mapping[str, int]) -> LogRange:
    return LogRange(start=stats["start"], end=stats["end"])
