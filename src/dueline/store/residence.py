"""Which parts of a log's files were in memory a moment ago.

To ask the operating system takes some microseconds and a read of what is asked for; a reader of
many neighbouring records would ask for the same pages again and again. So a block that was found
in memory counts as being there for `KEPT_S`. It may have to go meanwhile, as it may right after
being asked for: who reads it then waits for the disk once. Any thread may ask.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Final

from dueline.errors import NotFound
from dueline.store.log import LogReader

__all__ = ["Residence"]

BLOCK_SIZE_BYTES: Final = 64 << 10
KEPT_S: Final = 0.5
KEPT_COUNT_MAX: Final = 4_096
"""Blocks that are remembered: 256 MiB of a log."""


class Residence:
    """What is known of one log."""

    def __init__(self, log: LogReader, *, clock_s: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._clock_s = clock_s
        self._found_s: dict[int, float] = {}  # by block

    def has(self, start: int, end: int) -> bool:
        """Can these bytes be read without a wait? False also if nobody can tell, and where they
        are not all in one segment."""
        base = self._log.base_of(start)
        if end > base + self._log.segment_size_bytes:
            return False
        oldest_s = self._clock_s() - KEPT_S
        first = (start - base) // BLOCK_SIZE_BYTES * BLOCK_SIZE_BYTES
        for at in range(base + first, end, BLOCK_SIZE_BYTES):
            if self._found_s.get(at, oldest_s) <= oldest_s and not self._find(base, at):
                return self._is_cached(base, start, end)
        return True

    def _find(self, base: int, at: int) -> bool:
        """Ask for the block that begins at `at`."""
        end = min(at + BLOCK_SIZE_BYTES, base + self._log.segment_size_bytes)
        if not self._is_cached(base, at, end):
            return False
        if len(self._found_s) >= KEPT_COUNT_MAX:
            self._found_s.clear()
        self._found_s[at] = self._clock_s()
        return True

    def _is_cached(self, base: int, start: int, end: int) -> bool:
        try:
            return self._log.file_of(base).is_cached(start - base, end - base)
        except NotFound:
            return False
