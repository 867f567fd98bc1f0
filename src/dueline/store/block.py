"""Rows of messages on their way into the logs: what kernels need beside them, and what they find.

The array form of `dueline.store.draft` for messages that came together (`dueline.message_rows`), as
`dueline.store.bulk` is for tables. `Block.plan` decides for each row which log it goes to, when it
is due and how large its record is; all that needs no lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.message import SYS_BORN_HOST_V6, SYS_STORE_HOST_V6
from dueline.message_rows import ROW_HEAD, Head, MessageRows
from dueline.store.kernels import Int64s
from dueline.store.packed import PLACE_WIDTH

__all__ = ["BLOCK_KERNELS", "Block"]

BLOCK_KERNELS: Final = "dueline.store.block_kernels"

Bytes8 = npt.NDArray[np.uint8]

(
    HEAD_QUEUE_ID,
    HEAD_FLAG,
    HEAD_SYS_FLAG,
    HEAD_TIMES,
    HEAD_TOPIC_START,
    HEAD_TOPIC_END,
    HEAD_IS_BATCH,
) = range(7)
KIND_ORDINARY: Final = 0
KIND_LEVEL: Final = 1
KIND_TIMER: Final = 2

_HOST_FLAGS: Final = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6


@lru_cache(maxsize=64)  # most turns have the heads of the one before
def _head_table(heads: tuple[Head, ...]) -> tuple[Int64s, Bytes8]:
    """What kernels need of heads, and the names of their topics together. Nobody writes to them."""
    table = []
    topics = []
    start = 0
    for head in heads:
        topic = head.topic.encode("ascii")
        topics.append(topic)
        end = start + len(topic)
        flags = head.sys_flag & ~_HOST_FLAGS
        table.append(
            (head.queue_id, head.flag, flags, head.reconsume_times, start, end, head.is_batch)
        )
        start = end
    return np.array(table, dtype=np.int64), np.frombuffer(b"".join(topics), dtype=np.uint8)


@dataclass(slots=True, kw_only=True)
class Block:
    """Planned rows; `positions`, `offsets` and `dues` are filled in when they are written."""

    messages: MessageRows
    heads: Int64s
    topics: Bytes8
    hosts: Bytes8
    host_sizes: Int64s
    kinds: Int64s
    dues: Int64s
    sizes: Int64s
    packings: Int64s
    hash_count: int
    ordinary: Int64s
    delayed: Int64s
    ordinary_heads: list[int]
    """The heads that ordinary rows have."""
    delayed_heads: list[int]
    positions: Int64s
    offsets: Int64s

    @classmethod
    def plan(cls, kernels: Any, messages: MessageRows, *, now_ms: int, store_host: bytes) -> Block:
        """Plan rows; `kernels` are those of `BLOCK_KERNELS`."""
        count, head_count = len(messages), len(messages.heads)
        heads, topics = _head_table(tuple(messages.heads))
        hosts, host_sizes = messages.host_rows()
        columns = np.empty((4, count), dtype=np.int64)
        kinds, dues, sizes, order = columns
        packings = np.empty((count, PLACE_WIDTH), dtype=np.int64)
        head_counts = np.zeros(2 * head_count, dtype=np.int64)
        hash_count = kernels.plan(
            *(messages.texts, messages.rows, heads, hosts, host_sizes, len(store_host)),
            *(now_ms, kinds, dues, sizes, packings, order, head_counts),
        )
        counts = head_counts.tolist()
        ordinary_count = sum(counts[:head_count])
        return cls(
            messages=messages,
            heads=heads,
            topics=topics,
            hosts=hosts,
            host_sizes=host_sizes,
            kinds=kinds,
            dues=dues,
            sizes=sizes,
            packings=packings,
            hash_count=hash_count,
            ordinary=order[:ordinary_count],
            delayed=order[ordinary_count:],
            ordinary_heads=[head for head in range(head_count) if counts[head]],
            delayed_heads=[head for head in range(head_count) if counts[head_count + head]],
            positions=np.zeros(count, dtype=np.int64),
            offsets=np.zeros(count, dtype=np.int64),
        )

    def head_of(self, chosen: Int64s) -> Int64s:
        """The number of each chosen row's head."""
        heads: Int64s = self.messages.rows[chosen, ROW_HEAD]
        return heads

    def sizes_of(self, chosen: Int64s) -> Int64s:
        """The size of each chosen row's record."""
        return self.sizes if len(chosen) == len(self.sizes) else self.sizes[chosen]
