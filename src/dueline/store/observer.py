"""What a store tells of itself, to all who count, measure or wait.

    accepted, delivered, cancelled, expired, …     after the verb, in the thread that called it
    shown, grown                                   under the store's lock: must be quick
    synced                                         under the lock of a log: likewise

An observer says which of these it wants by overriding them. One that fails is logged and stops
nothing: what it was told of has happened.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from dueline.store.kernels import Int64s

__all__ = ["Observer", "Observers"]

_log = logging.getLogger(__name__)


class Observer:
    """Hears what happens in a store; by itself it wants nothing."""

    def accepted(self, count: int, delayed_count: int, refused_count: int) -> None:
        """Messages were put, and some of them refused."""

    def delivered(self, *, count: int, skipped_count: int, dropped_count: int) -> None:
        """Delayed messages were carried over; those that were done before are skipped."""

    def cancelled(self, count: int) -> None:
        """Delayed messages were taken back."""

    def expired(self, count: int) -> None:
        """Delayed messages were so late that nobody gets them."""

    def rescheduled(self, count: int) -> None:
        """Delayed messages have another due time."""

    def shown(self, due_ms: Int64s, now_ms: int) -> None:
        """Delayed messages with these due times became visible now."""

    def synced(self, duration_s: float) -> None:
        """A log was made durable, which took so long."""

    def grown(self, queues: list[tuple[str, int]]) -> None:
        """Consumers find more in these queues: (topic, queue id) pairs."""


class Observers:
    """All observers of one store."""

    def __init__(self) -> None:
        self._observers: tuple[Observer, ...] = ()

    def __bool__(self) -> bool:
        return bool(self._observers)

    def add(self, observer: Observer) -> None:
        self._observers += (observer,)

    def tell(self, event: Callable[[Observer], None]) -> None:
        """Call each of them."""
        for observer in self._observers:
            try:
                event(observer)
            except Exception:  # noqa: BLE001 - the observer's mistake; what it is told is done
                _log.exception("an observer of the store failed")
