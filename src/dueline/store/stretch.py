"""One stretch of a queue, read record by record or, where kernels are ready, many at a time."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from dueline import compiled
from dueline.errors import NotFound
from dueline.store import layout
from dueline.store.consume_queue import QueueUnits
from dueline.store.core import Core
from dueline.store.kernels import read_only
from dueline.store.record import is_sound

__all__ = ["READ_KERNELS", "Mask", "Stretch"]

READ_KERNELS: Final = "dueline.store.read_kernels"

Mask = npt.NDArray[np.bool_]

_ALL: Final = read_only(np.empty(0, dtype=np.uint8))


class Stretch:
    """What has been read so far; `row` is the unit to go on from."""

    __slots__ = (
        "_core",
        "_offset",
        "_positions",
        "_size_bytes",
        "_size_bytes_max",
        "_sizes",
        "_units",
        "_wanted",
        "chunks",
        "damaged",
        "row",
    )  # fmt: skip

    def __init__(
        self,
        core: Core,
        units: QueueUnits,
        wanted: Mask | None,
        offset: int,
        size_bytes_max: int,
    ) -> None:
        """`offset` is that of the first unit; `wanted` says which, None: all."""
        self._core = core
        self._units = units
        self._wanted = wanted
        self._offset = offset
        self._size_bytes = 0
        self._size_bytes_max = size_bytes_max
        self._positions: list[int] | None = None
        self._sizes: list[int] = []
        self.row = 0
        self.chunks: list[memoryview] = []
        """The records, one or more in each, as they stand in the log."""
        self.damaged: list[int] = []

    def run(self) -> None:
        """Read up to the end of the units, or until the next record would be too much."""
        is_usual = True  # where one is not, its neighbours may be of its kind
        while self.row < len(self._units):
            is_usual = is_usual and self._gather()
            if self.row < len(self._units) and not self._step():
                return

    def _gather(self) -> bool:
        """The usual records from here on; False if the next one is none."""
        kernels = compiled.ready(READ_KERNELS)
        if kernels is None:
            return False
        log = self._core.commit
        base = log.base_of(int(self._units["position"][self.row]))
        try:
            segment = log.file_of(base).view()
        except NotFound:
            return False
        count, data = kernels.gather(
            segment,
            base,
            read_only(self._units[self.row :].view(np.uint8)),
            _ALL if self._wanted is None else read_only(self._wanted[self.row :].view(np.uint8)),
            self._offset + self.row,
            self._size_bytes_max - self._size_bytes,
            bool(self.chunks),
        )
        if len(data):
            self.chunks.append(data.data)
            self._size_bytes += len(data)
        self.row += count
        return bool(count)

    def _step(self) -> bool:
        """One record of any kind; False if it would be too much."""
        if self._wanted is not None and not self._wanted[self.row]:
            self.row += 1
            return True
        if self._positions is None:  # many by themselves: as lists, which are quicker than arrays
            self._positions = self._units["position"].tolist()
            self._sizes = self._units["size"].tolist()
        position, size, offset = (
            self._positions[self.row],
            self._sizes[self.row],
            self._offset + self.row,
        )
        if self.chunks and self._size_bytes + size > self._size_bytes_max:
            return False
        try:
            view = self._core.commit.read(position, size)
        except NotFound:
            view = memoryview(b"")
        if len(view) == size and is_sound(view, position):
            if int.from_bytes(view[layout.QUEUE_OFFSET], "big") != offset:
                # The one field that has no check. What the log has is mended with the next
                # checkpoint.
                self._core.note_wrong_offset(position, offset)
                view = memoryview(layout.with_queue_offset(view, offset))
            self.chunks.append(view)
            self._size_bytes += size
        else:
            self.damaged.append(offset)
        self.row += 1
        return True
