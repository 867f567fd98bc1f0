"""One consume queue: 20-byte units that point into the commit log.

    | position (8) | size (4) | tags code (8) |      big-endian, RocketMQ's format

Unit i is the message with queue offset i. `end` is the next offset (what consumers may read ends
there), `start` the first one that still exists.

New units are in memory; `flush` moves them to files, which have a fixed length and are named by the
byte offset of their first unit. The memory is lost with the process: the commit log has it all, and
recovery puts units behind the last checkpoint into memory again. So an append needs no file, no
disk space and no wait. No file stays open: one is opened for each read and each flush. A read takes
more than it was asked for, and those near it need no file (`dueline.store.unit_blocks`).

Units have no room for a check. A checkpoint keeps a CRC-32 of each file's units instead, and the
first read of a file compares it; a file that is damaged or missing is made again from the log
(`Shelf.repair`), which takes a walk through it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from struct import Struct
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dueline.store.files import POSITION_NAME, File, Files
from dueline.store.queue_folder import queue_folder
from dueline.store.shortage import full_disk_is_unavailable
from dueline.store.unit_blocks import BLOCK_UNITS, UnitBlocks

__all__ = [
    "UNIT_DTYPE",
    "UNIT_SIZE",
    "Check",
    "ConsumeQueue",
    "QueueUnits",
    "Shelf",
    "pack_unit",
]

UNIT_DTYPE: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
UNIT_SIZE: Final = UNIT_DTYPE.itemsize
FILE_UNITS_DEFAULT: Final = 300_000
TRIM_LOOK_FILES: Final = 8
READ_UNITS_MAX: Final = 2 * BLOCK_UNITS
"""What reads more than this is not for those who read on."""
FILLER_UNIT: Final = (0).to_bytes(8, "big") + 0x7FFFFFFF.to_bytes(4, "big") + bytes(8)
assert UNIT_SIZE == len(FILLER_UNIT) == 20
_place_in: Final = Struct(">qi").unpack_from
"""A unit's position and size."""
pack_unit: Final = Struct(">qiq").pack
"""A unit as files have it, of position, size and tags code."""

QueueUnits = npt.NDArray[Any]
Bytes8 = npt.NDArray[np.uint8]
Check = tuple[int, int]  # how many units, and their CRC-32
Repair = Callable[[str, int, int, int], QueueUnits]
"""Gives the units of a topic's queue with offsets [start, end) as the log has them; size 0 where it
has none."""


def no_units() -> QueueUnits:
    return np.empty(0, dtype=UNIT_DTYPE)


@dataclass(slots=True, kw_only=True)
class Shelf:
    """What the queues of a store share: where their files are and how these are made."""

    files: Files
    folder: Path
    file_units: int
    repair: Repair | None = None
    folds_case: bool = False
    blocks: UnitBlocks = field(default_factory=UnitBlocks)
    """Units that were read from files not long ago."""

    def folder_of(self, topic: str, queue_id: int) -> Path:
        return queue_folder(self.folder, topic, queue_id, folds_case=self.folds_case)

    def open(self, path: Path) -> tuple[File, bool]:
        """A queue file to write to, and whether it is new; nothing is synced."""
        size_bytes = self.file_units * UNIT_SIZE
        is_new = False
        try:
            file = self.files.open(path, writable=True)
        except FileNotFoundError:
            for folder in (path.parent.parent, path.parent):
                self.files.make_unsynced_folder(folder)
            file = self.files.new(path)
            is_new = True
        if file.size_bytes != size_bytes:  # new, or left so by a crash
            file.resize(size_bytes)
        return file, is_new


class ConsumeQueue:
    """One queue. One writer at a time; readers see units before `end` only."""

    __slots__ = ("_checked", "_mutex", "_shelf", "_tail",
                 "checks", "end", "name", "start")  # fmt: skip

    def __init__(self, shelf: Shelf, topic: str, queue_id: int) -> None:
        self._shelf = shelf
        self._tail: tuple[int, bytearray] = (0, bytearray())  # from this offset on, in memory
        self._checked: frozenset[int] = frozenset()  # files that were found to be sound
        self._mutex = threading.Lock()
        self.name: Final = (topic, queue_id)
        self.checks: dict[int, Check] = {}  # by the file's first offset
        self.start = 0
        self.end = 0

    @property
    def flushed_end(self) -> int:
        """Units before this offset are in files."""
        return self._tail[0]

    def begin(self, first: int) -> None:
        """Let an empty queue begin at this offset.

        What is before it in its file is not looked at again.
        """
        assert self.end == self.start, "a queue that has messages begins where it began"
        self.checks = {}
        self._shelf.blocks.forget(self)
        self._tail = (first, bytearray())
        self.start = self.end = first

    def restore(self, start: int, end: int, checks: dict[int, Check]) -> None:
        """Be what a checkpoint says: all units are in files."""
        self._shelf.blocks.forget(self)
        self._tail = (end, bytearray())
        self.start, self.end, self.checks = start, end, checks

    def append(self, units: bytes) -> int:
        """Add units, as files have them, at the end; returns the offset of the first."""
        first = self.end
        self._tail[1].extend(units)
        self.end = first + len(units) // UNIT_SIZE
        return first

    def read(self, offset: int, count: int) -> QueueUnits:
        """Units [offset, offset + count) as far as they exist and stand in one file, and those in
        memory behind them."""
        stop = min(offset + count, self.end)  # first: units before it stay in memory or in files
        memory_start, memory = self._tail
        if not self.start <= offset < stop:
            return no_units()
        units = no_units()
        if offset < memory_start:
            units = self._read_file(offset, min(stop, memory_start))
            if offset + len(units) < memory_start:
                return units
        start_byte = UNIT_SIZE * max(offset - memory_start, 0)
        data = memory[start_byte : UNIT_SIZE * (stop - memory_start)]
        in_memory = np.frombuffer(data, dtype=UNIT_DTYPE)
        if not len(units):
            return in_memory
        return np.concatenate([units, in_memory], dtype=UNIT_DTYPE)  # as bytes the same as in files

    def at_hand(self, offset: int, count: int) -> tuple[Bytes8, int, int] | None:
        """What `read` gives, if that needs no file: its bytes, where the first message begins and
        where the last one ends."""
        stop = min(offset + count, self.end)  # first, as in `read`
        memory_start, memory = self._tail
        if not self.start <= offset < stop:
            return None
        if offset >= memory_start:
            at, end = 0, UNIT_SIZE * (stop - offset)
            start = UNIT_SIZE * (offset - memory_start)
            data = bytes(memory[start : start + end])
            array = np.frombuffer(data, dtype=np.uint8)
        else:
            block = self._shelf.blocks.block(self, self._base_of(offset), offset, stop)
            if block is None or stop > memory_start:
                return None
            at, end = UNIT_SIZE * (offset - block.first), UNIT_SIZE * (stop - block.first)
            data, array = block.data, block.array[at:end]
        first, _ = _place_in(data, at)
        last, size = _place_in(data, end - UNIT_SIZE)
        return array, first, last + size

    def needs_file(self, offset: int, count: int) -> bool:
        """Does `read` have to open one for this?"""
        base = self._base_of(offset)
        stop = min(offset + count, self._tail[0], base + self._shelf.file_units)
        return offset < stop and self._shelf.blocks.get(self, base, offset, stop) is None

    def _read_file(self, offset: int, stop: int) -> QueueUnits:
        """Units [offset, stop) as far as one file has them."""
        base = self._base_of(offset)
        stop = min(stop, base + self._shelf.file_units)
        found = self._shelf.blocks.get(self, base, offset, stop)
        if found is not None:
            return found
        try:
            if base not in self._checked:
                self._check(base)
            with closing(self._shelf.files.open(self._path_of(base))) as file:
                return self._read_blocks(file, base, offset, stop)
        except FileNotFoundError:
            if offset < self.start:
                return no_units()  # retention was quicker
            raise

    def _read_blocks(self, file: File, base: int, offset: int, stop: int) -> QueueUnits:
        """Units [offset, stop) of the file that begins at `base`, and what is in their blocks."""
        start = end = 0
        if stop - offset <= READ_UNITS_MAX:
            start = (offset - base) // BLOCK_UNITS * BLOCK_UNITS
            end = -(-(stop - base) // BLOCK_UNITS) * BLOCK_UNITS
            end = min(end, self._shelf.file_units, self._tail[0] - base)
        if end < stop - base:  # much at once, or the queue began anew meanwhile
            data = file.read_at((offset - base) * UNIT_SIZE, (stop - offset) * UNIT_SIZE)
            return np.frombuffer(data, dtype=UNIT_DTYPE)
        data = file.read_at(start * UNIT_SIZE, (end - start) * UNIT_SIZE)
        units = np.frombuffer(data, dtype=UNIT_DTYPE)
        self._shelf.blocks.keep(self, base + start, units)
        return units[offset - base - start : stop - base - start]

    def _check(self, base: int) -> None:
        """Compare a file with its check, and make it again if they differ."""
        with self._mutex:
            count, check = self.checks.get(base, (0, 0))
            if base in self._checked:
                return
            data = self._bytes_of(base, count)
            if data is None or crc32(data) != check:
                if base + self._shelf.file_units <= self.start:
                    raise FileNotFoundError(self._path_of(base))
                self._mend(base, (data or b"").ljust(count * UNIT_SIZE, b"\0"))
            self._checked |= {base}

    def _bytes_of(self, base: int, count: int) -> bytes | None:
        try:
            with closing(self._shelf.files.open(self._path_of(base))) as file:
                return file.read_at(0, count * UNIT_SIZE)
        except FileNotFoundError:
            return None

    def _mend(self, base: int, data: bytes) -> None:
        if self._shelf.repair is None:
            return
        units = np.frombuffer(data, dtype=UNIT_DTYPE).copy()
        found = self._shelf.repair(*self.name, base, base + len(units))
        units[found["size"] > 0] = found[found["size"] > 0]
        with full_disk_is_unavailable(self._path_of(base)):
            file, _ = self._shelf.open(self._path_of(base))
            with closing(file):
                file.write_at(0, units.tobytes())
        self.checks[base] = (len(units), crc32(units.tobytes()))

    # Files

    def flush(self, end: int) -> list[Path]:
        """Write units before `end` to files; returns the files, and the folders of new ones.

        Others may read and append meanwhile. `forget` has to follow.

        Raises:
            Unavailable: the disk is full; all units are in memory as before.
        """
        first, memory = self._tail
        touched: list[Path] = []
        checks: dict[int, Check] = {}
        at = first
        while True:
            base = self._base_of(at)
            stop = min(end, base + self._shelf.file_units)
            if stop > at or (at > base and base not in self.checks):
                data = bytes(memory[UNIT_SIZE * (at - first) : UNIT_SIZE * (stop - first)])
                paths, checks[base] = self._write(base, at, data)
                touched += paths
            if stop >= end:
                break
            at = stop
        # Not before all is written: what a full disk interrupted is written and counted again.
        with self._mutex:
            self._checked |= checks.keys() - self.checks.keys()
            self.checks.update(checks)
        return touched

    def _write(self, base: int, at: int, data: bytes) -> tuple[list[Path], Check]:
        """Write units to a file; returns what has to be synced, and the file's new check."""
        path = self._path_of(base)
        with self._mutex, full_disk_is_unavailable(path):
            is_known = base in self.checks
            file, is_new = self._shelf.open(path)
            with closing(file):
                if not is_known:
                    data, at = _filled(file.read_at(0, UNIT_SIZE * (at - base))) + data, base
                if not is_known and not is_new:
                    # Nothing stale must follow: RocketMQ reads a queue as far as there are units.
                    file.resize(0)
                    file.resize(self._shelf.file_units * UNIT_SIZE)
                file.write_at(UNIT_SIZE * (at - base), data)
            count, check = self.checks.get(base, (0, 0))
        changed = (count + len(data) // UNIT_SIZE, crc32(data, check))
        if is_known and not is_new:
            return [path], changed
        return [path, path.parent, path.parent.parent, self._shelf.folder], changed

    def forget(self, end: int) -> int:
        """Keep units before `end` no longer in memory; returns how many. The caller keeps others
        from appending."""
        first, memory = self._tail
        self._tail = (end, memory[UNIT_SIZE * (end - first) :])
        return end - first

    def trim(self, log_start: int) -> None:
        """Advance `start` past units whose records are gone; delete files with only such.

        Units are in order of visibility, not of position: one that is alive may stand before one
        that is gone. It is as old, and goes with it. After `TRIM_LOOK_FILES` files' worth of units
        that are alive, none is expected to be gone.
        """
        at = start = self.start
        while at < self.end and at < start + TRIM_LOOK_FILES * self._shelf.file_units:
            units = self.read(at, self._shelf.file_units)
            if not len(units):
                break
            gone = np.flatnonzero(units["position"] < log_start)
            if len(gone):
                start = at + int(gone[-1]) + 1
            at += len(units)
        self.start = start
        first = self._base_of(min(self.start, max(self.end - 1, 0)))
        if any(base < first for base in self.checks):
            for base in self._bases():
                if base < first:
                    self._remove(base)

    def skip_missing(self) -> None:
        """Advance `start` to where files are without a break: a trim before a crash may have
        deleted some, and a power cut may have undone parts of it."""
        bases = self._bases()
        first = base = self._base_of(max(self.flushed_end - 1, 0))
        while base in bases and base >= self._base_of(self.start):
            first, base = base, base - self._shelf.file_units
        self.start = max(self.start, min(first, self.end))

    def _bases(self) -> list[int]:
        """The first offsets of the files that are there."""
        folder = self._shelf.folder_of(*self.name)
        names = self._shelf.files.names(folder, POSITION_NAME)
        return [int(name) // UNIT_SIZE for name in names]

    def _remove(self, base: int) -> None:
        with self._mutex:
            self.checks.pop(base, None)
            self._shelf.files.remove(self._path_of(base))

    def _base_of(self, offset: int) -> int:
        return offset - offset % self._shelf.file_units

    def _path_of(self, base: int) -> Path:
        return self._shelf.folder_of(*self.name) / f"{base * UNIT_SIZE:020d}"


def _filled(data: bytes) -> bytes:
    """Units before a queue's beginning: fillers where nothing was, as RocketMQ does. It takes a
    file that begins with zeros for an empty one."""
    units = np.frombuffer(data, dtype=UNIT_DTYPE).copy()
    units[units["size"] <= 0] = np.frombuffer(FILLER_UNIT, dtype=UNIT_DTYPE)
    return units.tobytes()
