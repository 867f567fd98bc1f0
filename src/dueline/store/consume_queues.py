"""All consume queues of a store: consumequeue/TOPIC/QUEUE/00000000000000000000.

Everything here is derived from the commit log and rebuilt by recovery. New units are in memory
until a checkpoint flushes them, one queue after the other, without the store's lock: however many
queues there are, few files are open, and nobody waits for them.

The caller of everything but `flush` and `trim` holds the store's lock; `get` needs none.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np

from dueline.store.consume_queue import (
    FILE_UNITS_DEFAULT,
    UNIT_DTYPE,
    UNIT_SIZE,
    ConsumeQueue,
    Repair,
    Shelf,
)
from dueline.store.files import Files
from dueline.store.kernels import Int32s, Int64s
from dueline.store.queue_folder import folds_case, tell_apart
from dueline.store.thresholds import USUAL

__all__ = ["Checks", "ConsumeQueues", "Flush", "Ranges", "rows_by_queue"]

"""More files and folders than that are synced with one call, along with all else on their disk."""

Ranges = dict[str, dict[str, list[int]]]
"""Topic, queue id, [start, end)."""
Checks = dict[str, dict[str, dict[str, list[int]]]]
"""Topic, queue id, first offset of a file, [number of units, CRC-32]."""
Flush = list[tuple[ConsumeQueue, int]]
"""Queues, each with the offset before which its units are to be written."""


class ConsumeQueues:
    """The queues by topic and queue id, and by a small number for arrays."""

    def __init__(  # noqa: PLR0913 - where the files are and how they are kept
        self,
        files: Files,
        folder: Path,
        file_units: int = FILE_UNITS_DEFAULT,
        *,
        lock: threading.RLock | None = None,
        repair: Repair | None = None,
        sync_each_max: int = USUAL.sync_each_max,
    ) -> None:
        self._sync_each_max = sync_each_max
        self._shelf = Shelf(files=files, folder=folder, file_units=file_units, repair=repair)
        self._lock = lock or threading.RLock()
        self._numbers: dict[tuple[str, int], int] = {}
        self._queues: list[ConsumeQueue] = []
        self._ids: dict[str, list[int]] = {}
        self._dirty: dict[ConsumeQueue, None] = {}  # with units in memory; in order
        self._unsynced: set[Path] = set()
        self.open_count = 0  # units in memory
        files.make_folder(folder)
        if folds_case(files, folder):
            self._shelf.folds_case = True
            tell_apart(files, folder)

    def number_of(self, topic: str, queue_id: int) -> int:
        """The small number of a queue, which is made if it is new."""
        number = self._numbers.get((topic, queue_id))
        if number is None:
            queue = ConsumeQueue(self._shelf, topic, queue_id)
            number = len(self._queues)
            self._queues.append(queue)
            self._ids.setdefault(topic, []).append(queue_id)
            self._numbers[queue.name] = number
        return number

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        number = self._numbers.get((topic, queue_id))
        return None if number is None else self._queues[number]

    def by_number(self, number: int) -> ConsumeQueue:
        return self._queues[number]

    def names(self) -> list[tuple[str, int]]:
        """Every topic and queue id; needs no lock."""
        return [queue.name for queue in self]

    def ids(self, topic: str) -> list[int]:
        """The queue ids of a topic that hold messages, or held some; needs no lock."""
        return list(self._ids.get(topic, ()))

    def begin(self, number: int, first: int) -> None:
        """Let an empty queue begin at this offset."""
        self._queues[number].begin(first)
        self._dirty[self._queues[number]] = None

    def next_offsets(self, numbers: Int64s) -> Int64s:
        """The queue offsets that `append` would give to rows for these queues."""
        offsets = np.empty(len(numbers), dtype=np.int64)
        for number, rows in rows_by_queue(numbers):
            first = self._queues[number].end
            offsets[rows] = np.arange(first, first + len(rows))
        return offsets

    def append(self, numbers: Int64s, positions: Int64s, sizes: Int32s, tags_codes: Int64s) -> None:
        """Add one unit per row, in row order within each queue."""
        units = np.empty(len(numbers), dtype=UNIT_DTYPE)
        units["position"] = positions
        units["size"] = sizes
        units["tags_code"] = tags_codes
        for number, rows in rows_by_queue(numbers):
            self.append_to(number, units[rows].tobytes())

    def append_to(self, number: int, units: bytes) -> None:
        """Add units, as files have them, to one queue."""
        queue = self._queues[number]
        queue.append(units)
        self._dirty[queue] = None
        self.open_count += len(units) // UNIT_SIZE

    # Files

    def begin_flush(self) -> Flush:
        """What is in memory now."""
        pending = [(queue, queue.end) for queue in self._dirty]
        self._dirty = {}
        return pending

    def flush(self, pending: Flush) -> None:
        """Bring what `begin_flush` gave to disk; returns when it is there. One thread at a time.

        Raises:
            Unavailable: the disk is full; what was not written is in memory as before.
        """
        done = 0
        try:
            for queue, end in pending:
                self._unsynced.update(queue.flush(end))
                with self._lock:
                    self.open_count -= queue.forget(end)
                done += 1
        finally:
            with self._lock:
                self._dirty |= {queue: None for queue, _ in pending[done:]}
        self._sync()

    def _sync(self) -> None:
        files = self._shelf.files
        if len(self._unsynced) > self._sync_each_max:
            files.sync_disk(self._shelf.folder)
        else:
            for path in sorted(self._unsynced):
                files.sync_path(path)
        self._unsynced.clear()

    def ranges(self) -> Ranges:
        """Start and flushed end of every queue, as a checkpoint keeps them; needs no lock."""
        result: Ranges = {}
        for queue in self:
            topic, queue_id = queue.name
            result.setdefault(topic, {})[str(queue_id)] = [queue.start, queue.flushed_end]
        return result

    def checks(self) -> Checks:
        """The checks of every queue's files, as a checkpoint keeps them; needs no lock."""
        result: Checks = {}
        for queue in self:
            topic, queue_id = queue.name
            result.setdefault(topic, {})[str(queue_id)] = {
                str(base): list(check) for base, check in list(queue.checks.items())
            }
        return result

    def restore(self, ranges: Ranges, checks: Checks) -> None:
        """Take starts, ends and checks from a checkpoint."""
        for topic, queues in ranges.items():
            of_topic: Mapping[str, dict[str, list[int]]] = checks.get(topic, {})
            for queue_id, (start, end) in queues.items():
                found = {
                    int(base): (count, check)
                    for base, (count, check) in of_topic.get(queue_id, {}).items()
                }
                number = self.number_of(topic, int(queue_id))
                self._queues[number].restore(start, end, found)

    def trim(self, log_start: int, *, after_crash: bool = False) -> None:
        """Let go of units whose records are gone. One thread at a time; needs no lock."""
        for queue in self:
            if after_crash:
                queue.skip_missing()
            queue.trim(log_start)

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(self._queues.copy())


def rows_by_queue(numbers: Int64s) -> Iterator[tuple[int, Int64s]]:
    """Each distinct number with its rows, in row order."""
    order = np.argsort(numbers, kind="stable")
    grouped = numbers[order]
    cuts = [0, *(np.flatnonzero(np.diff(grouped)) + 1).tolist(), len(grouped)]
    for start, stop in pairwise(cuts):
        if stop > start:
            yield int(grouped[start]), order[start:stop]
