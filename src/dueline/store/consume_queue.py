"""Consume queues: for each topic and queue, 20-byte units that point into the commit log.

    | position (8) | size (4) | tags code (8) |      big-endian, RocketMQ's format

Unit i is the message with queue offset i. Files have a fixed length and are named by the byte
offset of their first unit: consumequeue/TOPIC/QUEUE/00000000000000000000. Everything here is
derived from the commit log and rebuilt by recovery; nothing is synced but at a checkpoint.

Units have no room for a check. A checkpoint keeps a CRC-32 of each file's units instead, and the
first read of a file compares it; a file that is damaged or missing is made again from the log
(`repair`), which takes a walk through it.

`end` is the next offset (what consumers may read ends there), `start` the first one that still
exists.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dueline.store.files import File, Files
from dueline.store.kernels import Int32s, Int64s

__all__ = ["UNIT_DTYPE", "UNIT_SIZE", "ConsumeQueue", "ConsumeQueues"]

UNIT_DTYPE: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
UNIT_SIZE: Final = UNIT_DTYPE.itemsize
FILE_UNITS_DEFAULT: Final = 300_000
FILLER_UNIT: Final = (0).to_bytes(8, "big") + 0x7FFFFFFF.to_bytes(4, "big") + bytes(8)
_ALLOCATE_BYTES: Final = 16 << 10
assert UNIT_SIZE == len(FILLER_UNIT) == 20

Units = npt.NDArray[Any]
Check = tuple[int, int]  # how many units, and their CRC-32
Repair = Callable[[int, int], Units]
"""Gives the units of offsets [start, end) as the log has them; size 0 where it has none."""


class ConsumeQueue:
    """One queue. One writer at a time; readers see units before `end` only."""

    def __init__(self, files: Files, folder: Path, file_units: int) -> None:
        self._files = files
        self._folder = folder
        self._file_units = file_units
        self._open: dict[int, File] = {}
        self._written: set[int] = set()
        self._room_end = 0  # units before this offset have disk space
        self._checked: set[int] = set()  # files that were found to be sound
        self._mutex = threading.Lock()
        self.checks: dict[int, Check] = {}  # by the file's first offset
        self.repair: Repair | None = None
        self.start = 0
        self.end = 0

    def begin(self, first: int) -> None:
        """Let an empty queue begin at this offset.

        What is before it in its file is not looked at again. Where nothing was it is filled as
        RocketMQ does, which takes a file that begins with zeros for an empty one.

        Raises:
            Unavailable: the disk is full; the queue is what it was.
        """
        assert self.end == self.start, "a queue that has messages begins where it began"
        base = self._base_of(first)
        checks: dict[int, Check] = {}
        if first > base:
            file = self._file(base, create=True)
            file.allocate(0, (first - base) * UNIT_SIZE)
            data = file.read_at(0, (first - base) * UNIT_SIZE)
            units = np.frombuffer(data, dtype=UNIT_DTYPE).copy()
            units[units["size"] <= 0] = np.frombuffer(FILLER_UNIT, dtype=UNIT_DTYPE)
            file.write_at(0, units.tobytes())
            self._written.add(base)
            checks[base] = (first - base, crc32(units.tobytes()))
        self.checks = checks
        self.start = self.end = first

    def reserve(self, count: int) -> None:
        """Make sure that `count` more units have disk space.

        Raises:
            Unavailable: the disk is full; nothing was changed.
        """
        while self._room_end < self.end + count:
            at = max(self.end, self._room_end)
            base = self._base_of(at)
            start = (at - base) * UNIT_SIZE
            end = min(start + _ALLOCATE_BYTES, self._file_units * UNIT_SIZE)
            self._file(base, create=True).allocate(start, end)
            self._room_end = base + end // UNIT_SIZE

    def append(self, units: Units) -> int:
        """Add units at the end; returns the offset of the first."""
        first = self.end
        done = 0
        while done < len(units):
            base = self._base_of(self.end)
            room = base + self._file_units - self.end
            part = units[done : done + room]
            data = part.tobytes()
            file = self._file(base, create=True)
            file.write_at((self.end - base) * UNIT_SIZE, data)
            self._written.add(base)
            count, check = self.checks.get(base, (0, 0))
            if count == self.end - base:
                self.checks[base] = (count + len(part), crc32(data, check))
            self.end += len(part)
            done += len(part)
        return first

    def read(self, offset: int, count: int) -> Units:
        """Units [offset, offset + count) as far as they exist and stand in one file."""
        base = self._base_of(offset)
        stop = min(offset + count, self.end, base + self._file_units)
        if offset < self.start or offset >= stop:
            return np.empty(0, dtype=UNIT_DTYPE)
        if base not in self._checked:
            self._check(base)
        data = self._file(base).read_at((offset - base) * UNIT_SIZE, (stop - offset) * UNIT_SIZE)
        return np.frombuffer(data, dtype=UNIT_DTYPE)

    def _check(self, base: int) -> None:
        """Compare a file with its check, and make it again if they differ."""
        with self._mutex:
            if base in self._checked:
                return
            count, check = self.checks.get(base, (0, 0))
            is_missing = not self._files.exists(self._folder / _file_name(base))
            file = self._file(base, create=True)
            data = file.read_at(0, count * UNIT_SIZE)
            if (is_missing or crc32(data) != check) and self.repair is not None:
                units = np.frombuffer(data, dtype=UNIT_DTYPE).copy()
                found = self.repair(base, base + count)
                units[found["size"] > 0] = found[found["size"] > 0]
                file.write_at(0, units.tobytes())
                self.checks[base] = (count, crc32(units.tobytes()))
                self._written.add(base)
            self._checked.add(base)

    def written_beyond(self, offset: int) -> Units:
        """Units on disk from `offset` on, whatever `end` says: what a crashed process had shown."""
        found = []
        base = self._base_of(offset)
        while (self._folder / _file_name(base)).exists():
            at = (offset - base) * UNIT_SIZE
            data = self._file(base).read_at(at, self._file(base).data_end(at) - at)
            units = np.frombuffer(data[: len(data) // UNIT_SIZE * UNIT_SIZE], dtype=UNIT_DTYPE)
            empty = np.flatnonzero(units["size"] <= 0)
            found.append(units[: int(empty[0])] if len(empty) else units)
            if len(empty) or len(units) < base + self._file_units - offset:
                break
            base += self._file_units
            offset = base
        return np.concatenate(found) if found else np.empty(0, dtype=UNIT_DTYPE)

    def clear_beyond(self) -> None:
        """Zero what stands on disk from `end` on, so that nothing stale is ever taken for real."""
        last = self._base_of(self.end)
        for base in self._bases():
            if base > last:
                self._remove(base)
        if last not in self._bases():
            return
        file = self._file(last)
        at = (self.end - last) * UNIT_SIZE
        data = file.read_at(at, file.data_end(at) - at)
        size = len(data.rstrip(b"\0"))
        if size:
            file.write_at(at, bytes(size))
            self._written.add(last)

    def trim(self, log_start: int) -> None:
        """Advance `start` past units whose records are gone; delete files with only such.

        Units are in order of visibility, not of position: one that is alive may stand before one
        that is gone. It is as old, and goes with it.
        """
        bases = self._bases()
        # An earlier trim may have been interrupted, and a power cut may have undone parts of it.
        first = base = self._base_of(max(self.end - 1, 0))
        while base in bases and base >= self._base_of(self.start):
            first, base = base, base - self._file_units
        at = self.start = max(self.start, min(first, self.end))
        while at < self.end:
            units = self.read(at, self._file_units)
            gone = np.flatnonzero(units["position"] < log_start)
            if not len(gone):
                break
            self.start = at + int(gone[-1]) + 1
            at += len(units)
        for base in bases:
            if base + self._file_units <= self.start and base != self._base_of(self.end):
                self._remove(base)

    def _bases(self) -> list[int]:
        """The first offsets of the files that are there."""
        return [int(name) // UNIT_SIZE for name in self._files.names(self._folder)]

    def _remove(self, base: int) -> None:
        file = self._open.pop(base, None)
        if file is not None:
            file.close()
        self._written.discard(base)
        self.checks.pop(base, None)
        self._files.remove(self._folder / _file_name(base))

    def sync(self) -> None:
        """Return when every unit that was appended before the call is on disk."""
        for base in sorted(self._written):
            self._written.discard(base)  # first: another thread may append meanwhile
            self._file(base).sync()

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _base_of(self, offset: int) -> int:
        return offset - offset % self._file_units

    def _file(self, base: int, *, create: bool = False) -> File:
        file = self._open.get(base)
        if file is None:
            path = self._folder / _file_name(base)
            if create and not self._files.exists(path):
                self._files.make_folder(self._folder)
                file = self._files.create(path, self._file_units * UNIT_SIZE)
            else:
                file = self._files.open(path, writable=True)
            self._open[base] = file
        return file


def _file_name(base: int) -> str:
    return f"{base * UNIT_SIZE:020d}"


class ConsumeQueues:
    """All queues of a store, by topic and queue id, and by a small number for arrays."""

    def __init__(self, files: Files, folder: Path, file_units: int = FILE_UNITS_DEFAULT) -> None:
        self._files = files
        self._folder = folder
        self._file_units = file_units
        self._numbers: dict[tuple[str, int], int] = {}
        self._queues: list[ConsumeQueue] = []
        self.repair: Callable[[str, int, int, int], Units] | None = None  # topic, queue, start, end
        self.names: list[tuple[str, int]] = []

    def number_of(self, topic: str, queue_id: int) -> int:
        """The small number of a queue, which is made if it is new."""
        number = self._numbers.get((topic, queue_id))
        if number is None:
            number = self._numbers[topic, queue_id] = len(self._queues)
            folder = self._folder / topic / str(queue_id)
            queue = ConsumeQueue(self._files, folder, self._file_units)
            if self.repair is not None:
                queue.repair = partial(self.repair, topic, queue_id)
            self._queues.append(queue)
            self.names.append((topic, queue_id))
        return number

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        number = self._numbers.get((topic, queue_id))
        return None if number is None else self._queues[number]

    def by_number(self, number: int) -> ConsumeQueue:
        return self._queues[number]

    def next_offsets(self, numbers: Int64s) -> Int64s:
        """The queue offsets that `append` would give to rows for these queues, which have room.

        Raises:
            Unavailable: the disk is full; nothing was changed.
        """
        offsets = np.empty(len(numbers), dtype=np.int64)
        for number, rows in _groups(numbers):
            self._queues[number].reserve(len(rows))
            first = self._queues[number].end
            offsets[rows] = np.arange(first, first + len(rows))
        return offsets

    def append(self, numbers: Int64s, positions: Int64s, sizes: Int32s, tags_codes: Int64s) -> None:
        """Add one unit per row, in row order within each queue."""
        units = np.empty(len(numbers), dtype=UNIT_DTYPE)
        units["position"] = positions
        units["size"] = sizes
        units["tags_code"] = tags_codes
        for number, rows in _groups(numbers):
            self._queues[number].append(units[rows])

    def ranges(self) -> dict[str, dict[str, list[int]]]:
        """Start and end of every queue, as a checkpoint keeps them."""
        result: dict[str, dict[str, list[int]]] = {}
        for (topic, queue_id), queue in zip(self.names, self._queues, strict=True):
            result.setdefault(topic, {})[str(queue_id)] = [queue.start, queue.end]
        return result

    def checks(self) -> dict[str, dict[str, dict[str, list[int]]]]:
        """The checks of every queue's files, as a checkpoint keeps them."""
        result: dict[str, dict[str, dict[str, list[int]]]] = {}
        for (topic, queue_id), queue in zip(self.names, self._queues, strict=True):
            result.setdefault(topic, {})[str(queue_id)] = {
                str(base): list(check) for base, check in queue.checks.items()
            }
        return result

    def restore(
        self,
        ranges: dict[str, dict[str, list[int]]],
        checks: dict[str, dict[str, dict[str, list[int]]]],
    ) -> None:
        """Take starts, ends and checks from a checkpoint; also know queues that exist only on
        disk."""
        for topic in self._files.names(self._folder):
            for queue_id in self._files.names(self._folder / topic):
                self.number_of(topic, int(queue_id))
        for topic, queues in ranges.items():
            for queue_id, (start, end) in queues.items():
                queue = self._queues[self.number_of(topic, int(queue_id))]
                queue.start, queue.end = start, end
                for base, (count, check) in checks.get(topic, {}).get(queue_id, {}).items():
                    queue.checks[int(base)] = (count, check)

    def __iter__(self) -> Any:
        return iter(self._queues)

    def sync(self) -> None:
        for queue in self._queues:
            queue.sync()

    def close(self) -> None:
        for queue in self._queues:
            queue.close()


def _groups(numbers: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Each distinct number with its rows, in row order."""
    order = np.argsort(numbers, kind="stable")
    grouped = numbers[order]
    cuts = [0, *(np.flatnonzero(np.diff(grouped)) + 1).tolist(), len(grouped)]
    for start, stop in pairwise(cuts):
        if stop > start:
            yield int(grouped[start]), order[start:stop]
