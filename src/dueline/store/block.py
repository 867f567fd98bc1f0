"""Rows of messages on their way into the logs: what kernels need beside them, and what they find.

The array form of `dueline.store.draft` for messages that came together (`dueline.message_rows`), as
`dueline.store.bulk` is for tables. `Block.plan` decides for each row which log it goes to, when it
is due and how large its record is; all that needs no lock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.message import SYS_BORN_HOST_V6, SYS_STORE_HOST_V6
from dueline.message_rows import ROW_HEAD, MessageRows
from dueline.store.kernels import Int64s
from dueline.store.packed import PLACE_WIDTH

__all__ = ["BLOCK_KERNELS", "Block"]

BLOCK_KERNELS: Final = "dueline.store.block_kernels"

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


@dataclass(slots=True, kw_only=True)
class Block:
    """Planned rows; `positions`, `offsets` and `dues` are filled in when they are written."""

    messages: MessageRows
    heads: Int64s
    topics: npt.NDArray[np.uint8]
    hosts: npt.NDArray[np.uint8]
    host_sizes: Int64s
    kinds: Int64s
    dues: Int64s
    sizes: Int64s
    packings: Int64s
    hash_count: int
    ordinary: Int64s = field(init=False)
    delayed: Int64s = field(init=False)
    positions: Int64s = field(init=False)
    offsets: Int64s = field(init=False)

    def __post_init__(self) -> None:
        self.ordinary = np.flatnonzero(self.kinds == KIND_ORDINARY)
        self.delayed = np.flatnonzero(self.kinds)
        self.positions = np.zeros(len(self.kinds), dtype=np.int64)
        self.offsets = np.zeros(len(self.kinds), dtype=np.int64)

    @classmethod
    def plan(cls, kernels: Any, messages: MessageRows, *, now_ms: int, store_host: bytes) -> Block:
        """Plan rows; `kernels` are those of `BLOCK_KERNELS`."""
        topics = [head.topic.encode("ascii") for head in messages.heads]
        table = []
        start = 0
        for head, topic in zip(messages.heads, topics, strict=True):
            end = start + len(topic)
            flags = head.sys_flag & ~_HOST_FLAGS
            table.append(
                (head.queue_id, head.flag, flags, head.reconsume_times, start, end, head.is_batch)
            )
            start = end
        count = len(messages)
        block_heads = np.array(table, dtype=np.int64)
        host_sizes = np.array([len(host) for host in messages.hosts], dtype=np.int64)
        hosts = messages.host_rows()
        kinds, dues, sizes = np.empty((3, count), dtype=np.int64)
        packings = np.empty((count, PLACE_WIDTH), dtype=np.int64)
        hash_count = kernels.plan(
            *(messages.texts, messages.rows, block_heads, hosts, host_sizes, len(store_host)),
            *(now_ms, kinds, dues, sizes, packings),
        )
        return cls(
            messages=messages,
            heads=block_heads,
            topics=np.frombuffer(b"".join(topics), dtype=np.uint8),
            hosts=hosts,
            host_sizes=host_sizes,
            kinds=kinds,
            dues=dues,
            sizes=sizes,
            packings=packings,
            hash_count=hash_count,
        )

    def head_of(self, chosen: Int64s) -> Int64s:
        """The number of each chosen row's head."""
        heads: Int64s = self.messages.rows[chosen, ROW_HEAD]
        return heads
