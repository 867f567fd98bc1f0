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

from dueline.broker.consumer_offsets import check_group
from dueline.budget import Budget, check_size
from dueline.clock import Clock
from dueline.message import check_topic

__all__ = ["QueueLocks"]

LOCK_MS_MAX: Final = 60_000
LOCKS_SIZE_BYTES_MAX: Final = 16 << 20
CLIENT_ID_SIZE_MAX: Final = 1_024
_LOCK_SIZE: Final = 512

Queue = tuple[str, int]
"""Topic and queue id."""


_Key = tuple[str, Queue]
"""Group and queue."""


@dataclass(slots=True)
class _Lock:
    client_id: str
    renewed_ms: int


class QueueLocks:
    """Locks by group and queue."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[_Key, _Lock] = {}
        self._lock = threading.Lock()
        self.budget: Final = Budget("locks of queues", LOCKS_SIZE_BYTES_MAX)

    def lock(self, group: str, client_id: str, queues: Iterable[Queue]) -> list[Queue]:
        """Lock or renew; returns those of the queues that the client now holds.

        Raises:
            InvalidRequest: names that cannot be.
            LimitExceeded: too many locks; those before it in the list are held.
        """
        check_group(group)
        check_size("client id", client_id, CLIENT_ID_SIZE_MAX)
        now_ms = self._clock.now_ms()
        held = []
        with self._lock:
            for queue in queues:
                check_topic(queue[0])
                known = self._held.get((group, queue))
                if known is None or known.client_id == client_id or _is_void(known, now_ms):
                    self._hold((group, queue), known, _Lock(client_id, now_ms))
                    held.append(queue)
        return held

    def _hold(self, key: _Key, known: _Lock | None, lock: _Lock) -> None:
        size = _size(key, lock) - (_size(key, known) if known is not None else 0)
        if not self.budget.has_room(size):
            self._prune(lock.renewed_ms)
        self.budget.take(size)
        self._held[key] = lock

    def unlock(self, group: str, client_id: str, queues: Iterable[Queue]) -> None:
        """Give up what the client holds of these."""
        with self._lock:
            for queue in queues:
                known = self._held.get((group, queue))
                if known is not None and known.client_id == client_id:
                    self.budget.give(_size((group, queue), known))
                    del self._held[group, queue]

    def _prune(self, now_ms: int) -> None:
        for key in [key for key, lock in self._held.items() if _is_void(lock, now_ms)]:
            self.budget.give(_size(key, self._held.pop(key)))


def _size(key: _Key, lock: _Lock) -> int:
    return _LOCK_SIZE + len(key[0]) + len(key[1][0]) + len(lock.client_id)


def _is_void(lock: _Lock, now_ms: int) -> bool:
    return now_ms - lock.renewed_ms > LOCK_MS_MAX
