"""The one clock. Milliseconds since 1970, and never backwards.

Acceptance times are promises: a due time is an acceptance time plus a delay, and the order of a
queue is the order of its store timestamps. So a wall clock that steps back must not be seen:
`Clock.now_ms` holds the last value until the wall clock has caught up. A step forward is passed
on, since messages that the wall says are due are due.

`Clock` takes its time source as an argument; tests pass `dueline.testing.ManualClock`. No other
module asks the operating system for the time of day. Any thread may call it.

A clock far ahead of the wall stands still for long, and its operator has to know: `standstill`
says so. See `docs/clock.md`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

__all__ = ["Clock", "standstill", "system_time_ms"]

STANDSTILL_MS: Final = 10_000
"""So far behind is a wall clock that was set back; less than that is a correction."""


def system_time_ms() -> int:
    """The operating system's wall clock in milliseconds."""
    return time.time_ns() // 1_000_000


class Clock:
    """A wall clock that never runs backwards.

    >>> readings = iter([100, 90, 120])
    >>> clock = Clock(lambda: next(readings))
    >>> [clock.now_ms(), clock.now_ms(), clock.now_ms()]
    [100, 100, 120]
    """

    def __init__(self, source_ms: Callable[[], int] = system_time_ms) -> None:
        self._source_ms = source_ms
        self._last_ms = 0
        self._lock = threading.Lock()

    def now_ms(self) -> int:
        """The current time; at least as late as every earlier answer and every floor."""
        reading = self._source_ms()
        with self._lock:
            if reading > self._last_ms:
                self._last_ms = reading
            return self._last_ms

    def ahead_ms(self) -> int:
        """By how much the wall clock is behind: for so long this clock stands still."""
        return max(self.now_ms() - self._source_ms(), 0)

    def raise_floor(self, floor_ms: int) -> None:
        """Never answer less than `floor_ms` again: what a reopened store has already stamped."""
        with self._lock:
            self._last_ms = max(self._last_ms, floor_ms)


def standstill(clock: Clock) -> str | None:
    """What to tell an operator if time will stand still for long; None if it does not."""
    ahead_ms = clock.ahead_ms()
    if ahead_ms < STANDSTILL_MS:
        return None
    return (
        f"time stands still for {ahead_ms // 1000} s: the wall clock is so far behind what this "
        "broker has shown or accepted already. Until then delays do not run down, and times that "
        "are past count as due. If the wall clock is right now, see docs/clock.md for the ways out"
    )
