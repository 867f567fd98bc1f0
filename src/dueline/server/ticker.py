"""Opens the gate on the millisecond.

A thread that sleeps until the next record at the gate is due and then lets the store show it.
Nothing at the gate: it sleeps until something is delivered, and costs nothing. A record that comes
to the gate and is due earlier than the one slept for wakes it.

Due times are wall-clock times and sleeping is measured by another clock, so it never sleeps longer
than `SLEEP_S_MAX` while something waits: a wall clock that is set forward is noticed by then.

The clock answers whole milliseconds, rounded down: `n` ms to go are between n - 1 and n. The last
one is slept in halves. While an append is under way the store keeps the gate shut beyond the
append's own time; then there is nothing to do but to look again in a millisecond.

A gate that cannot be opened now (no disk space, no descriptor) is tried again soon: what is due
waits, and nothing else does.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic
from typing import Final, Protocol

from dueline.broker import Observer
from dueline.clock import Clock
from dueline.errors import Unavailable
from dueline.server.threads import OnFailure, Worker

__all__ = ["GateStore", "GateTicker"]

SLEEP_S_MAX: Final = 1.0
_HALF_MS: Final = 0.0005
_SHUT_S: Final = 0.001
_AGAIN_S: Final = 0.1
_WARN_S: Final = 10.0

log = logging.getLogger(__name__)


class GateStore(Protocol):
    """What is asked of the store here."""

    @property
    def gate_next_ms(self) -> int | None: ...

    def open_gate(self) -> int: ...


class GateTicker(Observer, Worker):
    """The gate's clock; observes the store, to be awake when something new waits at the gate."""

    def __init__(self, store: GateStore, clock: Clock, *, on_failure: OnFailure) -> None:
        super().__init__("gate", on_failure=on_failure)
        self._store = store
        self._clock = clock
        self._news = threading.Event()
        self._warn_at_s = 0.0

    def delivered(self, *, count: int, skipped_count: int, dropped_count: int) -> None:
        """Something new waits at the gate. Any thread; returns at once."""
        if count:
            self._news.set()

    def _wake(self) -> None:
        self._news.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._news.wait(self.turn())
            # Cleared before anything is looked at, the end too: what comes later sets it again.
            self._news.clear()

    def turn(self) -> float | None:
        """Open the gate if it is time; returns how long to sleep, None for "until woken"."""
        due_ms = self._store.gate_next_ms
        if due_ms is not None and due_ms <= self._clock.now_ms():
            try:
                self._store.open_gate()
            except Unavailable as error:
                self._warn(error)
                return _AGAIN_S
            due_ms = self._store.gate_next_ms
        if due_ms is None:
            return None
        left_ms = due_ms - self._clock.now_ms()
        if left_ms <= 0:
            return _SHUT_S
        return min(left_ms / 1000 - _HALF_MS, SLEEP_S_MAX)

    def _warn(self, error: Unavailable) -> None:
        if monotonic() >= self._warn_at_s:
            self._warn_at_s = monotonic() + _WARN_S
            log.warning("messages that are due wait, and are shown as soon as possible: %s", error)
