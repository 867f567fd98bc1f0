"""Locks of orderly consumption: a queue belongs to one client of a group at a time.

A client renews its locks every 20 s and does not consume with one older than 30 s; after 60 s
without renewal a lock is void. A lock is not given up when its client's connection breaks: the
client may still be at work on a message, and order would be lost. Any thread may call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dueline.clock import Clock

__all__ = ["QueueLocks"]

LOCK_MS_MAX: Final = 60_000
_PRUNE_COUNT: Final = 10_000

Queue = tuple[str, int]
"""Topic and queue id."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: int


class QueueLocks:
    """Locks by group and queue."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[tuple[str, Queue], _Lock] = {}
        self._lock = threading.Lock()

    def lock(self, group: str, client_id: str, queues: Iterable[Queue]) -> list[Queue]:
        """Lock or renew; returns those of the queues that the client now holds."""
        now_ms = self._clock.now_ms()
        held = []
        with self._lock:
            if len(self._held) > _PRUNE_COUNT:
                self._prune(now_ms)
            for queue in queues:
                known = self._held.get((group, queue))
                if known is None or known.client_id == client_id or _is_void(known, now_ms):
                    self._held[group, queue] = _Lock(client_id, now_ms)
                    held.append(queue)
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[Queue]) -> None:
        """Give up what the client holds of these."""
        with self._lock:
            for queue in queues:
                known = self._held.get((group, queue))
                if known is not None and known.client_id == client_id:
                    del self._held[group, queue]

    def holder(self, group: str, queue: Queue) -> str | None:
        """Who holds a queue now."""
        with self._lock:
            known = self._held.get((group, queue))
            if known is None or _is_void(known, self._clock.now_ms()):
                return None
            return known.client_id

    def _prune(self, now_ms: int) -> None:
        self._held = {key: lock for key, lock in self._held.items() if not _is_void(lock, now_ms)}


def _is_void(lock: _Lock, now_ms: int) -> bool:
    return now_ms - lock.renewed_ms > LOCK_MS_MAX
