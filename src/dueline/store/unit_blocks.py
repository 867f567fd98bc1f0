"""Units of consume queues that were read from files not long ago, in blocks.

Those who read a queue read on, a little further each time, and several groups do so at different
places. So a read takes whole blocks, and the next ones need no file. Units in files do not change
any more; a block at the end of what is in files may be longer when it is read again.

At most `COUNT_MAX` blocks are kept, of all queues of a store: the oldest goes first. Any thread may
call.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["BLOCK_UNITS", "COUNT_MAX", "Block", "UnitBlocks"]

BLOCK_UNITS: Final = 512
COUNT_MAX: Final = 512
"""Of 10 KB each."""

Units = npt.NDArray[Any]


class Block(NamedTuple):
    """Units of a queue, in three forms of the same bytes."""

    first: int
    units: Units
    data: bytes
    array: npt.NDArray[np.uint8]


class UnitBlocks:
    """Blocks by queue and the offset of their first unit."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[Hashable, int], Block] = {}
        self._lock = threading.Lock()

    def get(self, queue: Hashable, base: int, start: int, stop: int) -> Units | None:
        """Units [start, stop) of a queue, if they are here.

        Args:
            base: an offset at which a block begins, at or before `start`.
        """
        block = self.block(queue, base, start, stop)
        if block is not None:
            return block.units[start - block.first : stop - block.first]
        parts = []
        at = start
        while at < stop:
            end = min(stop, at + BLOCK_UNITS - (at - base) % BLOCK_UNITS)
            block = self.block(queue, base, at, end)
            if block is None:
                return None
            parts.append(block.units[at - block.first : end - block.first])
            at = end
        # As in the file, not as the machine has it.
        return np.concatenate(parts, dtype=parts[0].dtype) if parts else None

    def block(self, queue: Hashable, base: int, start: int, stop: int) -> Block | None:
        """The block with the units [start, stop) of a queue, if one has them all."""
        block = self._blocks.get((queue, start - (start - base) % BLOCK_UNITS))
        if block is None or stop - block.first > len(block.units):
            return None
        return block

    def keep(self, queue: Hashable, first: int, units: Units) -> None:
        """Units of a queue from the beginning of a block on."""
        with self._lock:
            for start in range(0, len(units), BLOCK_UNITS):
                self._blocks.pop((queue, first + start), None)
                data = units[start : start + BLOCK_UNITS].tobytes()
                self._blocks[queue, first + start] = Block(
                    first + start,
                    np.frombuffer(data, dtype=units.dtype),
                    data,
                    np.frombuffer(data, dtype=np.uint8),
                )
            while len(self._blocks) > COUNT_MAX:
                del self._blocks[next(iter(self._blocks))]

    def forget(self, queue: Hashable) -> None:
        """A queue begins anew."""
        with self._lock:
            for key in [key for key in self._blocks if key[0] == queue]:
                del self._blocks[key]
