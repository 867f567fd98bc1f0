"""The folder of a RocketMQ broker, opened for reading: its log in batches and its configuration.

While a source is open, no broker can start on it: RocketMQ locks the first byte of `lock` for
itself, and a shared lock on that byte is in its way. Nothing is written.

The commit log is the truth. Consume queues are looked into (`units`), since they alone know which
records of a topic that was deleted and made again are gone, and when a delayed message is due by
the level table of its time; what a killed broker had not entered there yet is in the log all the
same. Memory is bounded by one segment's positions and one batch of records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dueline.errors import CorruptRecord, InvalidRequest, NotFound, StoreLocked
from dueline.store.consume_queue import UNIT_DTYPE, UNIT_SIZE
from dueline.store.core import DELAY_LOG
from dueline.store.files import POSITION_NAME, File, Files
from dueline.store.kernels import Int32s, Int64s
from dueline.store.rocketmq import QUEUE_NAME, TOPIC_NAME, RocketmqStore
from dueline.store.scan import Damage, scan

__all__ = ["MappedQueue", "Mark", "Source", "SourceBatch", "TimerProgress"]

_OPEN_QUEUES_MAX: Final = 64
_FILLER_SIZE: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceBatch:
    """Sound records in log order; `records` are their bytes."""

    positions: Int64s
    sizes: Int32s
    records: pa.BinaryArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What tells one store from another: its last record, and where the log ends."""

    position: int
    size: int
    crc: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerProgress:
    """How far a 5.x broker was with its timer: slots before `read_ms` were delivered, messages
    before `queue_offset` were entered into slots."""

    read_ms: int = 0
    queue_offset: int = 0


class Source:
    """An open source; close it, or use it in a `with` block."""

    def __init__(
        self, path: Path, *, commit_log: Path | None = None, files: Files | None = None
    ) -> None:
        """Open a folder (`storePathRootDir`).

        Args:
            commit_log: where the log is, if not in the folder (`storePathCommitLog`).

        Raises:
            NotFound: not a store.
            InvalidRequest: a store of ours.
            StoreLocked: a broker runs on it.
        """
        self._files = files or Files()
        self.path: Final = path
        log = commit_log or path / "commitlog"
        if (path / DELAY_LOG).is_dir():
            raise InvalidRequest(
                f"{path}: expected a store of RocketMQ, found one of Dueline; "
                "`dueline serve --data` runs on it as it is",
                path=str(path),
            )
        if not self._files.names(log, POSITION_NAME):
            raise NotFound(
                f"{path}: expected a store of RocketMQ with segments in {log}, found "
                f"{', '.join(self._files.all_names(path)[:8]) or 'nothing'}; name the broker's "
                "storePathRootDir (~/store by default), and --commitlog if its log is elsewhere",
                path=str(path),
            )
        try:
            self._lock = self._files.lock_shared(path / "lock")
        except StoreLocked as error:
            raise StoreLocked(
                f"{path}: expected a store that nobody uses, found a broker running on it; "
                "stop the broker (mqshutdown broker) and run this again",
                path=str(path),
            ) from error
        self._store = RocketmqStore(path, self._files, commit_log=log)
        self._queues: dict[tuple[str, int], MappedQueue] = {}
        self.damage: list[Damage] = []
        self.was_killed: Final = self._files.exists(path / "abort")
        self.has_queues: Final = bool(self._topics())

    def close(self) -> None:
        for units in self._queues.values():
            units.close()
        self._queues.clear()
        self._store.log.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # The log

    @property
    def size_bytes(self) -> int:
        return len(self._store.bases) * self._store.log.segment_size_bytes

    @property
    def start(self) -> int:
        return self._store.bases[0]

    def batches(self) -> Iterator[SourceBatch]:
        """Every sound record, and `damage` as it is found."""
        self.damage = []
        log = self._store.log
        for before, base in zip([None, *self._store.bases], self._store.bases, strict=False):
            if before is not None and before + log.segment_size_bytes != base:
                lost = Damage(
                    start=before + log.segment_size_bytes, end=base, reason="missing segments"
                )
                self.damage.append(lost)
            found = scan(log, base, [base])
            for rows, records in found.batches(log):
                yield SourceBatch(
                    positions=found.positions[rows], sizes=found.sizes[rows], records=records
                )
            self.damage += found.damage
            log.forget_pages()

    def mark(self, position: int, size: int, end: int) -> Mark:
        """What to remember of a store whose last record stands here."""
        return Mark(position=position, size=size, crc=self._crc(position, size), end=end)

    def has(self, mark: Mark) -> bool:
        """Is the record of a mark in this store?"""
        return self._crc(mark.position, mark.size) == mark.crc

    def _crc(self, position: int, size: int) -> int:
        try:
            return crc32(self._store.log.read(position, size))
        except (NotFound, ValueError):
            return -1

    # Queues

    def units(self, topic: str, queue_id: int) -> MappedQueue:
        """What a consume queue says of its messages; a bounded number is kept open."""
        name = (topic, queue_id)
        units = self._queues.pop(name, None)
        if units is None:
            while len(self._queues) >= _OPEN_QUEUES_MAX:
                self._queues.pop(next(iter(self._queues))).close()
            units = MappedQueue(self._files, self.path / "consumequeue" / topic / str(queue_id))
        self._queues[name] = units
        return units

    @cached_property
    def entered_end(self) -> int:
        """Everything in the log before this position was entered into its queue, if it had one.

        Nothing is known of a broker that was killed: a power cut may have left any of its queues
        behind the others.
        """
        if self.was_killed:
            return 0
        ends = [MappedQueue(self._files, folder).log_end() for folder in self._queue_folders()]
        return max(ends, default=0)

    def _queue_folders(self) -> Iterator[Path]:
        root = self.path / "consumequeue"
        for topic in self._topics():
            for queue_id in self._files.names(root / topic, QUEUE_NAME, are_folders=True):
                yield root / topic / queue_id

    def _topics(self) -> list[str]:
        return self._files.names(self.path / "consumequeue", TOPIC_NAME, are_folders=True)

    def has_queue(self, topic: str) -> bool:
        folder = self.path / "consumequeue" / topic
        return bool(self._files.names(folder, QUEUE_NAME, are_folders=True))

    # Configuration

    def table(self, name: str, field: str) -> dict[str, Any] | None:
        """One table of a configuration file (or of its backup); None if there is no such file."""
        try:
            content = self._store.config(name)
        except NotFound:
            return None
        found = content.get(field, {}) if isinstance(content, dict) else None
        if not isinstance(found, dict):
            path = self.path / "config" / name
            raise CorruptRecord(
                f"{path}: expected {field}, found {content!r:.80}; restore the file from its "
                f"backup {name}.bak",
                path=str(path),
                position=0,
            )
        return found

    def delay_offsets(self) -> dict[int, int] | None:
        """Level -> the next unit of its queue to be delivered; None without the file."""
        table = self.table("delayOffset.json", "offsetTable")
        return None if table is None else {int(level): int(at) for level, at in table.items()}

    def timer_progress(self) -> TimerProgress | None:
        """How far the timer was; None without its file."""
        path = self.path / "config" / "timercheck"
        if not self._files.exists(path):
            return None
        data = self._files.read(path)[:24]
        if len(data) < 24:
            return None
        numbers = np.frombuffer(data, dtype=">i8").tolist()
        return TimerProgress(read_ms=max(numbers[0], 0), queue_offset=max(numbers[2], 0))


class MappedQueue:
    """One consume queue's files, mapped as they are needed."""

    def __init__(self, files: Files, folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._bases = np.array(
            [int(name) // UNIT_SIZE for name in files.names(folder, POSITION_NAME)],
            dtype=np.int64,
        )
        self._open: dict[int, File] = {}

    def find(self, offsets: Int64s) -> npt.NDArray[Any]:
        """The unit of each offset (UNIT_DTYPE); size 0 where there is none, -1 before the first."""
        found = np.zeros(len(offsets), dtype=UNIT_DTYPE)
        if not len(self._bases):
            return found
        at = np.searchsorted(self._bases, offsets, side="right") - 1
        found["size"][at < 0] = -1
        for number in np.unique(at[at >= 0]).tolist():
            rows = np.flatnonzero(at == number)
            units = self._file(int(self._bases[number]))
            places = offsets[rows] - self._bases[number]
            inside = places < len(units)
            found[rows[inside]] = units[places[inside]]
        found["size"][found["size"] == _FILLER_SIZE] = -1
        return found

    def log_end(self) -> int:
        """Behind the last message's record in the log."""
        for base in self._bases[::-1].tolist():
            sizes = self._file(base)["size"]
            low, high = 0, len(sizes)
            while low < high:  # messages first, then zeros
                middle = (low + high) // 2
                low, high = (middle + 1, high) if sizes[middle] > 0 else (low, middle)
            if low:
                last = self._file(base)[low - 1]
                self.close()
                return int(last["position"]) + int(last["size"])
        self.close()
        return 0

    def _file(self, base: int) -> npt.NDArray[Any]:
        file = self._open.get(base)
        if file is None:
            path = self._folder / f"{base * UNIT_SIZE:020d}"
            file = self._open[base] = self._files.open(path)
        if file.size_bytes < UNIT_SIZE:
            return np.empty(0, dtype=UNIT_DTYPE)
        view = file.view()
        return view[: len(view) - len(view) % UNIT_SIZE].view(UNIT_DTYPE)

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()
