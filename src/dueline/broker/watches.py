"""Who waits for a queue to grow: the wake-up half of long polling.

A reader that finds nothing leaves a function to be called, once, when the queue (or any queue of
the topic) has grown. The call comes from whichever thread made the message visible, under the
store's lock: it must only pass the news on, such as `loop.call_soon_threadsafe` or `Event.set`.

Any thread may call. The memory of all watches is bounded: a broker that is asked to remember more
than that says so.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final

from dueline.budget import Budget
from dueline.store import Observer

__all__ = ["Watch", "Watches"]

WATCHES_SIZE_BYTES_MAX: Final = 64 << 20
_WATCH_SIZE: Final = 640
"""Bytes that a watch takes, more or less, if it is the only one of its topic."""

Wake = Callable[[], None]


class Watch:
    """One waiting reader; `cancel` if it no longer waits."""

    __slots__ = ("_owner", "queue_id", "topic", "wake")

    def __init__(self, owner: Watches, topic: str, queue_id: int | None, wake: Wake) -> None:
        self._owner = owner
        self.topic = topic
        self.queue_id = queue_id
        self.wake = wake

    def cancel(self) -> None:
        """Forget it; no error if it was called already."""
        self._owner.remove(self)


class Watches(Observer):
    """All waiting readers of a broker, by topic."""

    def __init__(self, *, size_bytes_max: int = WATCHES_SIZE_BYTES_MAX) -> None:
        self._budget: Final = Budget("waiting readers", size_bytes_max)
        self._by_topic: dict[str, set[Watch]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._count

    def add(self, topic: str, queue_id: int | None, wake: Wake) -> Watch:
        """Call `wake` once when a queue of the topic has grown; None: any of its queues.

        Raises:
            LimitExceeded: too many wait already.
        """
        watch = Watch(self, topic, queue_id, wake)
        with self._lock:
            self._budget.take(_size(watch))
            self._by_topic.setdefault(topic, set()).add(watch)
            self._count += 1
        return watch

    def remove(self, watch: Watch) -> None:
        with self._lock:
            self._remove(watch)

    def grown(self, queues: Iterable[tuple[str, int]]) -> None:
        """These queues have grown."""
        if not self._by_topic:
            return
        woken = []
        with self._lock:
            for topic, queue_id in queues:
                for watch in list(self._by_topic.get(topic, ())):
                    if watch.queue_id in (None, queue_id):
                        self._remove(watch)
                        woken.append(watch)
        for watch in woken:
            watch.wake()

    def wake_all(self) -> None:
        """Let everyone look again: the broker is about to stop."""
        with self._lock:
            woken = [watch for watches in self._by_topic.values() for watch in watches]
            self._by_topic.clear()
            self._count = 0
            self._budget.give(self._budget.size_bytes)
        for watch in woken:
            watch.wake()

    def _remove(self, watch: Watch) -> None:
        watches = self._by_topic.get(watch.topic)
        if watches is None or watch not in watches:
            return
        watches.remove(watch)
        self._count -= 1
        self._budget.give(_size(watch))
        if not watches:
            del self._by_topic[watch.topic]


def _size(watch: Watch) -> int:
    return _WATCH_SIZE + len(watch.topic)
