"""A group's lanes in one topic: one per queue, and more for what 4.x clients have refused.

With them a lock, which the owner of each method here holds, and those who wait for news.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from dueline.broker.inflight.holding import Held
from dueline.broker.inflight.lane import RETRY_LANE, Lane
from dueline.broker.inflight.log import LaneName
from dueline.broker.inflight.receipt import receipt_text
from dueline.broker.names import retry_topic
from dueline.store import ReadResult, ReadStatus
from dueline.store.reading import Accept

__all__ = ["LaneSet", "QueueReader"]


class QueueReader(Protocol):
    """What is asked of the store here."""

    def offset_range(self, topic: str, queue_id: int) -> tuple[int, int]: ...

    def read(  # noqa: PLR0913 - the store's own
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        count_max: int = 32,
        size_bytes_max: int = 256 * 1024,
        accept: Accept | None = None,
    ) -> ReadResult: ...


class LaneSet:
    """A group's part in a topic: its lanes, and who waits for them."""

    def __init__(self, name: LaneName, store: QueueReader, epoch: int) -> None:
        self.name: Final = name
        self.store: Final = store
        self.lock: Final = threading.Lock()
        self.lanes: dict[int, Lane] = {}
        self.watchers: set[Callable[[], None]] = set()
        self._retry_topic = retry_topic(name.group)
        self._epoch = epoch
        self._turn = 0

    def wake(self) -> None:
        for wake in list(self.watchers):
            wake()

    def next_turn(self, queue_ids: Iterable[int]) -> list[int]:
        """The queues, each time beginning with another one."""
        ids = list(queue_ids)
        self._turn = (self._turn + 1) % max(len(ids), 1)
        return ids[self._turn :] + ids[: self._turn]

    def source(self, lane: Lane) -> tuple[str, int]:
        """The topic and the queue that a lane reads."""
        if lane.is_retry:
            return self._retry_topic, lane.queue_id & ~RETRY_LANE
        return self.name.topic, lane.queue_id

    def read_one(self, lane: Lane, offset: int) -> bytes | None:
        """The record at an offset, if it is still there and sound."""
        result = self.store.read(*self.source(lane), offset, count_max=1)
        return bytes(result.records[0]) if result.status is ReadStatus.FOUND else None

    def held(self, lane: Lane, offset: int, data: bytes) -> Held:
        entry = lane.entries[offset]
        return Held(
            data,
            receipt=receipt_text(self._epoch, lane.number, offset, entry.serial),
            attempt=entry.attempt,
            visible_ms=entry.visible_ms,
        )

    def receipt(self, lane: Lane, offset: int) -> str:
        return receipt_text(self._epoch, lane.number, offset, lane.entries[offset].serial)
