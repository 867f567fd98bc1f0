"""Consume queues: for each topic and queue, 20-byte units that point into the commit log.

    | position (8) | size (4) | tags code (8) |      big-endian, RocketMQ's format

Unit i is the message with queue offset i. Files have a fixed length and are named by the byte
offset of their first unit: consumequeue/TOPIC/QUEUE/00000000000000000000. Everything here is
derived from the commit log and rebuilt by recovery; nothing is synced but at a checkpoint.

`end` is the next offset (what consumers may read ends there), `start` the first one that still
exists.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.store.files import File, Files
from dueline.store.kernels import Int32s, Int64s

__all__ = ["UNIT_DTYPE", "UNIT_SIZE", "ConsumeQueue", "ConsumeQueues"]

UNIT_DTYPE: Final = np.dtype([("position", ">i8"), ("size", ">i4"), ("tags_code", ">i8")])
UNIT_SIZE: Final = UNIT_DTYPE.itemsize
FILE_UNITS_DEFAULT: Final = 300_000
assert UNIT_SIZE == 20

Units = npt.NDArray[Any]


class ConsumeQueue:
    """One queue. One writer at a time; readers see units before `end` only."""

    def __init__(self, files: Files, folder: Path, file_units: int) -> None:
        self._files = files
        self._folder = folder
        self._file_units = file_units
        self._open: dict[int, File] = {}
        self._written: set[int] = set()
        self.start = 0
        self.end = 0

    def append(self, units: Units) -> int:
        """Add units at the end; returns the offset of the first."""
        first = self.end
        done = 0
        while done < len(units):
            base = self._base_of(self.end)
            room = base + self._file_units - self.end
            part = units[done : done + room]
            file = self._file(base, create=True)
            file.write_at((self.end - base) * UNIT_SIZE, part.tobytes())
            self._written.add(base)
            self.end += len(part)
            done += len(part)
        return first

    def read(self, offset: int, count: int) -> Units:
        """Units [offset, offset + count) as far as they exist and stand in one file."""
        base = self._base_of(offset)
        stop = min(offset + count, self.end, base + self._file_units)
        if offset < self.start or offset >= stop:
            return np.empty(0, dtype=UNIT_DTYPE)
        data = self._file(base).read_at((offset - base) * UNIT_SIZE, (stop - offset) * UNIT_SIZE)
        return np.frombuffer(data, dtype=UNIT_DTYPE)

    def written_beyond(self, offset: int) -> Units:
        """Units on disk from `offset` on, whatever `end` says: what a crashed process had shown."""
        found = []
        base = self._base_of(offset)
        while (self._folder / _file_name(base)).exists():
            data = self._file(base).read_at(
                (offset - base) * UNIT_SIZE, (base + self._file_units - offset) * UNIT_SIZE
            )
            units = np.frombuffer(data, dtype=UNIT_DTYPE)
            empty = np.flatnonzero(units["size"] <= 0)
            found.append(units[: int(empty[0])] if len(empty) else units)
            if len(empty):
                break
            base += self._file_units
            offset = base
        return np.concatenate(found) if found else np.empty(0, dtype=UNIT_DTYPE)

    def clear_beyond(self) -> None:
        """Zero what stands on disk from `end` on, so that nothing stale is ever taken for real."""
        count = len(self.written_beyond(self.end))
        at = self.end
        while count > 0:
            base = self._base_of(at)
            part = min(count, base + self._file_units - at)
            self._file(base).write_at((at - base) * UNIT_SIZE, bytes(part * UNIT_SIZE))
            self._written.add(base)
            at += part
            count -= part

    def trim(self, log_start: int) -> None:
        """Advance `start` past units whose records are gone; delete files with only such."""
        while self.start < self.end:
            units = self.read(self.start, self._file_units)
            alive = np.flatnonzero(units["position"] >= log_start)
            self.start += int(alive[0]) if len(alive) else len(units)
            if len(alive) or not len(units):
                break
        for name in self._files.names(self._folder):
            base = int(name) // UNIT_SIZE
            if base + self._file_units <= self.start and base != self._base_of(self.end):
                file = self._open.pop(base, None)
                if file is not None:
                    file.close()
                self._written.discard(base)
                self._files.remove(self._folder / name)

    def sync(self) -> None:
        for base in self._written:
            self._file(base).sync()
        self._written.clear()

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
        self.names: list[tuple[str, int]] = []

    def number_of(self, topic: str, queue_id: int) -> int:
        """The small number of a queue, which is made if it is new."""
        number = self._numbers.get((topic, queue_id))
        if number is None:
            number = self._numbers[topic, queue_id] = len(self._queues)
            folder = self._folder / topic / str(queue_id)
            self._queues.append(ConsumeQueue(self._files, folder, self._file_units))
            self.names.append((topic, queue_id))
        return number

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        number = self._numbers.get((topic, queue_id))
        return None if number is None else self._queues[number]

    def by_number(self, number: int) -> ConsumeQueue:
        return self._queues[number]

    def next_offsets(self, numbers: Int64s) -> Int64s:
        """The queue offsets that `append` would give to rows for these queues; changes nothing."""
        offsets = np.empty(len(numbers), dtype=np.int64)
        for number, rows in _groups(numbers):
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

    def restore(self, ranges: dict[str, dict[str, list[int]]]) -> None:
        """Take starts and ends from a checkpoint; also know queues that exist only on disk."""
        for topic in self._files.names(self._folder):
            for queue_id in self._files.names(self._folder / topic):
                self.number_of(topic, int(queue_id))
        for topic, queues in ranges.items():
            for queue_id, (start, end) in queues.items():
                queue = self._queues[self.number_of(topic, int(queue_id))]
                queue.start, queue.end = start, end

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
