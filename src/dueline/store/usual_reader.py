"""Reading the usual stretch of a queue, compiled, without an object for any of its parts.

Near the end of a queue, where consumers read, records are of the usual kind, stand in one segment
and in memory. They are then checked where they stand and copied to a buffer by one call of a
kernel. Where anything is otherwise, a reader says None, and `dueline.store.reading` reads the same
and finds what is wrong, gone or elsewhere.

Worth it where pulls are many and each has few messages: it takes a third of the time of a read.
For one thread.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from dueline import compiled
from dueline.errors import NotFound
from dueline.store.core import Core
from dueline.store.residence import Residence
from dueline.store.stretch import READ_KERNELS

__all__ = ["UsualRead", "UsualReader"]

HEAD_SIZE_MAX: Final = 1_024
"""What may stand before the records (`UsualReader.behind`)."""
SIZE_BYTES_MAX: Final = 1 << 20


class UsualRead(NamedTuple):
    """How many bytes of records there are, and where to go on, as `ReadResult`."""

    size_bytes: int
    next_offset: int
    start: int
    end: int


class UsualReader:
    """Reads into a buffer of its own, which the next read uses anew."""

    def __init__(self, core: Core) -> None:
        self._queues = core.queues
        self._log = core.commit
        self._residence = Residence(core.commit)
        self._buffer = np.empty(HEAD_SIZE_MAX + SIZE_BYTES_MAX, dtype=np.uint8)
        self._view = self._buffer.data

    def read(  # noqa: PLR0913 - a place and its limits
        self,
        topic: str,
        queue_id: int,
        offset: int,
        count_max: int,
        size_bytes_max: int,
        near_count: int,
    ) -> UsualRead | None:
        """What `Reader.read` would find, if it finds records, all of them are usual, and no file
        has to be opened for their units.

        Args:
            near_count: further from the end, records are read only if they are in memory.
        """
        kernels = compiled.ready(READ_KERNELS)
        queue = self._queues.get(topic, queue_id)
        if kernels is None or queue is None:
            return None
        found = queue.at_hand(offset, count_max)
        if found is None:
            return None
        units, first, last = found
        start, end = queue.start, queue.end  # behind the units, also if the queue has just grown
        if end - offset > near_count and not self._has(first, last):
            return None
        base = self._log.base_of(first)
        try:
            segment = self._log.file_of(base).view()
        except NotFound:
            return None
        copied = kernels.copy_usual(
            segment, base, units, offset, size_bytes_max, self._buffer, HEAD_SIZE_MAX
        )
        if copied <= 0:
            return None
        return UsualRead(copied & 0xFFFFFFFF, offset + (copied >> 32), start, end)

    def behind(self, head: bytes, size_bytes: int) -> bytes:
        """`head`, and behind it what was read last."""
        start = HEAD_SIZE_MAX - len(head)
        self._view[start:HEAD_SIZE_MAX] = head
        return bytes(self._view[start : HEAD_SIZE_MAX + size_bytes])

    def _has(self, first: int, end: int) -> bool:
        """Are the records [first, end) in memory?"""
        return 0 < end - first <= SIZE_BYTES_MAX and self._residence.has(first, end)
