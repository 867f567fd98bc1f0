"""Pending messages whose time has come: what is due later in their queues waits for them.

A message that was carried over ahead of time stands at the gate. If one of its queue that is due
earlier has not been carried over yet, because it was accepted since and the pipeline is behind,
then to open the gate would let the later one pass. So the gate asks here, and holds back.

Nobody is held back for ever: a message that is more than `wait_ms` late is not waited for any more.
A stuck pipeline so costs what stands at the gate at most that much, and only in queues for which
something is pending.

What is known is the earliest due time of each queue among those messages. It is looked up again
when time has passed, and when something was carried over, cancelled or dropped while somebody is
late; as long as nobody is, that is next to nothing. Not thread-safe: its owner holds the store's
lock.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.store.gate import GateRows
from dueline.store.kernels import Int64s
from dueline.store.run import Units
from dueline.store.timeline import Timeline

__all__ = ["Laggards"]

LOOK_AHEAD_MS: Final = 50
_REST_RATIO: Final = 20
_NEVER: Final = 1 << 62

QueueName = tuple[str, int]


class Laggards:
    """The earliest pending due time of each queue, as far as it matters now."""

    def __init__(self, timeline: Timeline, name_of: Callable[[int], QueueName], wait_ms: int):
        self._timeline = timeline
        self._name_of = name_of
        self._wait_ms = wait_ms
        self._dues: dict[QueueName, int] = {}
        self._until_ms = 0
        self._expire_ms = 0
        self._look_ms = 0
        self.version = 0  # differs whenever somebody may have become free

    def __len__(self) -> int:
        return len(self._dues)

    def look(self, now_ms: int) -> None:
        """Know who is late by now."""
        if not self._wait_ms:
            return
        news = self._timeline.news
        is_known = now_ms <= self._until_ms and not news.is_full
        if is_known:
            self._add(news.added)
            is_known = not self._dues or (not news.is_marked and now_ms < self._expire_ms)
        if not is_known:
            self._look_up(now_ms)
        news.clear()

    def _add(self, added: list[Units]) -> None:
        """Know of messages that were accepted since."""
        for units in added:
            soon = units.take(np.flatnonzero(units.due_ms <= self._until_ms))
            if not len(soon):
                continue
            for name, due_ms in self._timeline.earliest_of(soon).items():
                self._dues[name] = min(self._dues.get(name, _NEVER), due_ms)
                self._expire_ms = min(self._expire_ms, due_ms + self._wait_ms)

    def _look_up(self, now_ms: int) -> None:
        """Look through the timeline. If that takes long, not soon again: the store is locked."""
        start_s = perf_counter()
        until_ms = now_ms + LOOK_AHEAD_MS + _REST_RATIO * self._look_ms
        dues = self._timeline.earliest(after_ms=now_ms - self._wait_ms, until_ms=until_ms)
        self._until_ms = until_ms
        self.version += dues != self._dues
        self._dues = dues
        self._expire_ms = min(dues.values(), default=_NEVER) + self._wait_ms
        self._look_ms = int(1000 * (perf_counter() - start_s))

    def blocks(self, rows: GateRows) -> npt.NDArray[np.bool_]:
        """Which rows are due after a message of their queue that is late."""
        queues, inverse = np.unique(rows.queue, return_inverse=True)
        limits: Int64s = np.array(
            [self._dues.get(self._name_of(number), _NEVER) for number in queues.tolist()],
            dtype=np.int64,
        )
        return (rows.origin >= 0) & (rows.due_ms > limits[inverse])
