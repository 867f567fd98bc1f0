"""Many messages as rows of numbers: the array form of `dueline.message.Message`, for kernels.

    data     bytes as they came; bodies are slices of it
    texts    properties as records keep them (`dueline.message.encode_properties`)
    rows     a row for each message: where body, properties, unique id and keys stand, the tag's
             hash, when it is due, when it was born
    heads    what many rows say alike: topic, queue, flags
    hosts    where they came from

A protocol's kernel makes rows (`dueline.wire.turn`), the store's writes them
(`dueline.store.block`). `messages` gives the same messages one by one, for everything that is rare.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dueline.message import Message, decode_properties

__all__ = ["Head", "MessageRows"]

Bytes8 = npt.NDArray[np.uint8]
Int64s = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]
"""With two dimensions."""

(
    ROW_BODY_START,
    ROW_BODY_END,
    ROW_TEXT_START,
    ROW_TEXT_END,
    ROW_ID_START,
    ROW_ID_END,
    ROW_KEYS_START,
    ROW_KEYS_END,
    ROW_TAG,
    ROW_LEVEL,
    ROW_TIMER,
    ROW_TIMER_MS,
    ROW_BORN_MS,
    ROW_FLAG,
    ROW_HEAD,
    ROW_FRAME,
    ROW_CHANNEL,
    ROW_WIDTH,
) = range(18)

TIMER_AFTER: Final = 1
"""So many milliseconds after acceptance."""
TIMER_AT: Final = 2
"""At this time."""

HOST_SIZE_MAX: Final = 20


class Head(NamedTuple):
    """What many messages say alike."""

    topic: str
    queue_id: int
    flag: int
    sys_flag: int
    reconsume_times: int
    is_batch: bool
    """Messages of a batch have a flag each, and were not consumed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRows:
    """Messages; row i has heads[rows[i, ROW_HEAD]] and hosts[rows[i, ROW_CHANNEL]]."""

    data: Bytes8
    texts: Bytes8
    rows: Rows
    heads: list[Head]
    hosts: list[bytes]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size_bytes(self) -> int:
        """Of the bodies together."""
        return int((self.rows[:, ROW_BODY_END] - self.rows[:, ROW_BODY_START]).sum())

    def messages(self) -> list[Message]:
        """One by one."""
        return [self._message(row) for row in self.rows.tolist()]

    def _message(self, row: list[int]) -> Message:
        head = self.heads[row[ROW_HEAD]]
        text = self.texts[row[ROW_TEXT_START] : row[ROW_TEXT_END]].tobytes()
        return Message(
            topic=head.topic,
            body=self.data[row[ROW_BODY_START] : row[ROW_BODY_END]].tobytes(),
            queue_id=head.queue_id,
            properties=decode_properties(text),
            flag=row[ROW_FLAG] if head.is_batch else head.flag,
            sys_flag=head.sys_flag,
            born_ms=row[ROW_BORN_MS],
            born_host=self.hosts[row[ROW_CHANNEL]],
            reconsume_times=0 if head.is_batch else head.reconsume_times,
        )

    def part(self, start: int, end: int) -> MessageRows:
        """Rows [start, end); a view."""
        return MessageRows(
            data=self.data,
            texts=self.texts,
            rows=self.rows[start:end],
            heads=self.heads,
            hosts=self.hosts,
        )

    def host_rows(self) -> tuple[Bytes8, Int64s]:
        """Hosts as an array with rows of `HOST_SIZE_MAX` bytes, zeros behind each; their sizes."""
        return _host_table(tuple(self.hosts))


@lru_cache(maxsize=64)  # most turns have the connections of the one before
def _host_table(hosts: tuple[bytes, ...]) -> tuple[Bytes8, Int64s]:
    """Nobody writes to them."""
    joined = b"".join(host.ljust(HOST_SIZE_MAX, b"\0") for host in hosts)
    sizes = np.array([len(host) for host in hosts], dtype=np.int64)
    return np.frombuffer(joined, dtype=np.uint8).reshape(len(hosts), HOST_SIZE_MAX), sizes
