"""What the parts of an open store share: logs, derived data, locks.

Three locks, always taken in this order:

    commit_lock   appends to the commit log, from stamping to fsync
    delay_lock    appends to the delay log, likewise
    lock          everything in memory; held for moments, never across an fsync

Order in a queue is a function of the commit log alone: records by (store time, position). A
delivered record's store time is the moment it becomes visible. So before an append stamps its
records with the time t, the gate is opened up to t; and while an append is under way, the gate
stays shut beyond the earliest time that the append has stamped (`in_flight_ms`).
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Final

import numpy as np

from dueline.clock import Clock
from dueline.errors import BrokerError, LimitExceeded, NotFound, StoreClosed, StoreFailed
from dueline.message import UniqueIds, pack_host
from dueline.store import layout, packed
from dueline.store.consume_queues import ConsumeQueues
from dueline.store.done_index import DoneIndex
from dueline.store.due import LevelHistory
from dueline.store.files import Files
from dueline.store.gate import Gate, GateRows
from dueline.store.kernels import Int64s
from dueline.store.key_index import KeyIndex
from dueline.store.laggards import Laggards
from dueline.store.layout import QUEUE_OFFSET_AT
from dueline.store.log import BLANK_SIZE, Log
from dueline.store.observer import Observers
from dueline.store.options import StoreOptions
from dueline.store.recovered import Recovered
from dueline.store.repair import units_from_log
from dueline.store.road import Road
from dueline.store.room import Room
from dueline.store.states import States
from dueline.store.synced import COMMIT_SLOT, DELAY_SLOT, SYNCED_FILE, Synced
from dueline.store.timeline import Timeline

__all__ = ["COMMIT_LOG", "DELAY_LOG", "QUEUES", "Core"]

COMMIT_LOG: Final = "commitlog"
DELAY_LOG: Final = "delaylog"
QUEUES: Final = "consumequeue"
# A delivered record may be longer than the delayed one (its topic is the real one), and a dead
# letter has a whole record as its body: what was accepted must always fit.
_DELIVERY_ROOM_BYTES: Final = 1024
_DELIVERY_ROOM_BYTES_MIN: Final = 16 << 10
_ROOM_RATIO: Final = 2 * packed.GROWTH_MAX
"""What waits is counted as it is packed; half of what is free is left to indexes and others."""
_WRONG_OFFSETS_MAX: Final = 4096


_log = logging.getLogger(__name__)


class _Closing:
    """`Core.closing_on_failure`: one for all, since every write passes it and it keeps nothing."""

    def __init__(self, core: Core) -> None:
        self._core: Final = core

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        self._core.fail(error)
        if isinstance(error, OSError | BrokerError):
            raise StoreFailed(
                f"store {self._core.path} was closed by a failed write ({error}) while this was "
                "written: it may be there or not; see to the disk, then open it again: "
                "recovery decides",
                path=str(self._core.path),
            ) from error


class _Indexing(_Closing):
    """`Core.indexing`, likewise."""

    def __enter__(self) -> None:
        self._core.lock.acquire()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self._core.lock.release()


class Core:
    """The open store's innards."""

    def __init__(self, path: Path, options: StoreOptions, *, clock: Clock, files: Files) -> None:
        self.path = path
        self.options = options
        self.rules = options.rules
        self.clock = clock
        self.files = files
        self.room = Room(files, path, options.room)
        self.lock = threading.RLock()
        self.store_host = pack_host(options.host, options.port)
        self.ids = UniqueIds(host=self.store_host, start_ms=clock.now_ms())
        self.commit = Log(files, path / COMMIT_LOG, options.commit_segment_size_bytes)
        self.delay = Log(files, path / DELAY_LOG, options.delay_segment_size_bytes)
        self.synced = Synced(files, path / SYNCED_FILE)
        thresholds = options.thresholds
        self.queues = ConsumeQueues(
            files,
            path / QUEUES,
            options.queue_file_units,
            lock=self.lock,
            repair=partial(units_from_log, self.commit),
            sync_each_max=thresholds.sync_each_max,
        )
        self.gate = Gate()
        self.timeline = Timeline(files, path / "timeline", States(), thresholds, clock=clock)
        laggards = Laggards(self.timeline, self._queue_name, options.order_wait_ms)
        self.road = Road(self.timeline, self.gate, laggards, self._queue_name)
        self.commit_keys = KeyIndex(files, path / "index" / COMMIT_LOG, thresholds)
        self.delay_keys = KeyIndex(files, path / "index" / DELAY_LOG, thresholds)
        self.done = DoneIndex(files, path / "done")
        self.delay_queues: dict[
            str, int
        ] = {}  # next queue offset of "topic/queue" in the delay log
        self.segments: dict[int, list[int]] = {}  # delay segment -> [first, end) acceptance numbers
        self.levels = LevelHistory(default=options.levels)
        self.next_seq = 0
        self.index_ms = 0  # the latest store time in the consume queues
        self.accepted_ms = 0  # the latest store time of a delayed message
        self.in_flight_ms: int | None = None  # set by `dueline.store.append` alone
        self.ordinary_size_max = options.commit_segment_size_bytes - BLANK_SIZE
        smaller = min(options.commit_segment_size_bytes, options.delay_segment_size_bytes)
        self.delayed_size_max = smaller - _DELIVERY_ROOM_BYTES
        self.commit_lock = threading.Lock()
        self.delay_lock = threading.Lock()
        self.observers = Observers()
        self._closing: Final = _Closing(self)
        self._indexing: Final = _Indexing(self)
        self._failure: BaseException | None = None
        self._is_closed = False
        self._wrong_offsets: dict[int, int] = {}

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where files are that the logs cannot bring back by themselves, and their parents."""
        index = self.path / "index"
        names = (COMMIT_LOG, DELAY_LOG, QUEUES, "timeline", "done")
        folders = (self.path / name for name in names)
        return (self.path, *folders, index, index / COMMIT_LOG, index / DELAY_LOG)

    @property
    def is_sync(self) -> bool:
        return self.options.flush == "sync"

    def is_busy(self) -> bool:
        """Would a put have to wait for another thread, or perhaps for a run to be written?"""
        is_locked = self.commit_lock.locked() or self.delay_lock.locked()
        return is_locked or len(self.timeline.open) >= self.options.open_units_max

    def check_open(self) -> None:
        """Raises StoreClosed if nothing more may be written."""
        if self._failure is not None:
            raise StoreClosed(
                f"store {self.path} was closed by a failed write ({self._failure}); "
                "see to the disk, then open it again: recovery repairs what was torn",
                path=str(self.path),
            ) from self._failure
        if self._is_closed:
            raise StoreClosed(f"store {self.path} is closed", path=str(self.path))

    def check_size(self, size: int, *, is_delayed: bool) -> None:
        """Refuse a record that does not fit into its log, or later into the commit log.

        Raises:
            LimitExceeded: names the limit; nothing was changed.
        """
        limit = self.delayed_size_max if is_delayed else self.ordinary_size_max
        if size > limit:
            raise LimitExceeded(
                f"record: expected at most {limit} bytes, found {size}; "
                "send less or use larger segments",
                limit=limit,
                found=size,
            )

    def fail(self, error: BaseException) -> None:
        """A write or fsync failed: what is on disk is unknown until recovery has looked."""
        if self._failure is None:
            self._failure = error

    def closing_on_failure(self) -> _Closing:
        """Close the store if something fails that leaves disk and memory apart.

        Raises:
            StoreFailed: in place of an error of the disk or of ours: bytes may be written.
        """
        return self._closing

    @contextlib.contextmanager
    def closing_on_disk_error(self) -> Iterator[None]:
        """Close the store if the disk fails; a full disk is the caller's to deal with.

        Raises:
            StoreClosed: in place of an error of the disk, and if it was closed before.
        """
        self.check_open()
        try:
            yield
        except OSError as error:
            self.fail(error)
            self.check_open()

    def indexing(self) -> _Indexing:
        """Hold `lock` while memory learns of records that are durable; a failure closes the store.

        Raises:
            StoreFailed: as `closing_on_failure`.
        """
        return self._indexing

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def mark_closed(self) -> None:
        self._is_closed = True

    def close(self) -> None:
        """Refuse everything from now on and let go of the files."""
        self.mark_closed()
        with self.commit_lock, self.delay_lock, self.lock:
            self.commit.close()
            self.delay.close()
            self.synced.close()
            self.timeline.close()
            self.commit_keys.close()
            self.delay_keys.close()
            self.room.close()
            self.done.close()

    @property
    def is_failed(self) -> bool:
        return self._failure is not None

    def reserve(self, log: Log, end: int, *, may_spend: bool = False) -> None:
        """Make sure that everything up to `end` of a log has disk space.

        Args:
            may_spend: what the store must be able to write, also on a full disk.

        Raises:
            Unavailable: the disk is full; nothing was changed.
            StoreClosed: the disk failed; nothing was changed.
        """
        try:
            log.reserve(end, may_spend=may_spend)
        except OSError as error:
            self.fail(error)
            self.check_open()

    def delivery_room_bytes(self) -> int:
        """How many bytes of messages, as they stand in the delay log, can be carried over now.

        They grow on the way, and so this is a sixth of what is free; 0 if that is hardly anything.
        """
        if not self.room.is_filled():
            return 0
        free_bytes = self.files.disk(self.path).free_bytes + self.commit.allocated_bytes
        return free_bytes // _ROOM_RATIO if free_bytes > _DELIVERY_ROOM_BYTES_MIN else 0

    def sync(self, log: Log) -> None:
        """If the store is sync, return when everything appended to a log is on disk."""
        if self.is_sync:
            started_s = perf_counter()
            log.sync()
            duration_s = perf_counter() - started_s
            self.observers.tell(lambda observer: observer.synced(duration_s))
            self.synced.note(COMMIT_SLOT if log is self.commit else DELAY_SLOT, log.end)

    def sync_both(self) -> None:
        """If the store is not sync, return when everything appended to both logs is on disk.

        The delay log goes first: a power cut between the two may then lose a delivery, which is
        made again, but leaves none whose message, or whose move to another time, is lost.
        """
        if not self.is_sync:
            self.delay.sync()
            self.commit.sync()

    def open_gate(self, until_ms: int) -> int:
        """Index what is visible by `until_ms`; the caller holds `lock`. Returns how many rows."""
        if self.gate.row_count:
            self.road.look(until_ms)
        if self.in_flight_ms is not None:
            until_ms = min(until_ms, self.in_flight_ms)
        return self._show(self.gate.open(until_ms, self.road))

    def open_gate_for_all(self, until_ms: int) -> int:
        """As `open_gate`, but nobody waits for anybody."""
        return self._show(self.gate.open(until_ms))

    def open_gate_before(self, queues: Iterable[int], store_ms: int) -> None:
        """As `open_gate`, before something ordinary becomes visible in these queues: what they hold
        back goes first, since it stands earlier in the log's order."""
        self.open_gate(store_ms)
        self._show(self.gate.release(list(queues), store_ms))

    def _show(self, rows: GateRows | None) -> int:
        if rows is None:
            return 0
        self._index(rows)
        self.note_shown(int(rows.visible_ms[-1]))
        if self.observers:
            since_ms, now_ms = self._since_ms(rows.take(np.flatnonzero(rows.origin >= 0)))
            self.observers.tell(lambda observer: observer.shown(since_ms, now_ms))
        return len(rows)

    def _since_ms(self, rows: GateRows) -> tuple[Int64s, int]:
        """From when on rows that are shown now count as late; and now."""
        since_ms = rows.due_ms
        if self.road.rules and len(rows):
            since_ms = since_ms.copy()
            for number in np.unique(rows.queue).tolist():
                own = np.flatnonzero(rows.queue == number)
                topic = self._queue_name(number)[0]
                since_ms[own] = self.road.since_ms(topic, rows.due_ms[own], rows.visible_ms[own])
        return since_ms, self.clock.now_ms()

    def _queue_name(self, number: int) -> tuple[str, int]:
        return self.queues.by_number(number).name

    def last_shown_ms(self, number: int) -> int | None:
        """The store time of a queue's last record: 0 before the first, None if it is not known."""
        queue = self.queues.by_number(number)
        if queue.end == 0:
            return 0
        try:
            position = int(queue.read(queue.end - 1, 1)["position"][0])
            return layout.store_ms_of(self.commit.read(position, layout.STORE_MS_END))
        except (NotFound, IndexError):
            return None

    def adopt(self, found: Recovered) -> None:
        """Go on from where recovery found the store."""
        self.clock.raise_floor(found.floor_ms)
        self.next_seq = found.next_seq
        self.accepted_ms = found.accepted_ms
        self.delay_queues = found.delay_queues
        self.segments = found.delay_segments
        self.levels = found.levels
        self.note_shown(found.index_ms)

    def note_shown(self, store_ms: int) -> None:
        """Records up to this store time stand in the queues; the caller holds `lock`."""
        self.index_ms = max(self.index_ms, store_ms)

    def note_accepted(self, store_ms: int) -> None:
        """Delayed messages were accepted at this time; the caller holds the delay lock."""
        self.accepted_ms = max(self.accepted_ms, store_ms)

    def _index(self, rows: GateRows) -> None:
        offsets = self.queues.next_offsets(rows.queue)
        with self.closing_on_failure():
            self.commit.scatter(
                rows.position + QUEUE_OFFSET_AT, offsets.astype(">i8").view(np.uint8).reshape(-1, 8)
            )
            self.queues.append(rows.queue, rows.position, rows.size, rows.tags_code)
        self.notify(np.unique(rows.queue).tolist())

    def note_wrong_offset(self, position: int, offset: int) -> None:
        """Remember that the record at a position should have this queue offset."""
        if len(self._wrong_offsets) < _WRONG_OFFSETS_MAX:
            self._wrong_offsets[position] = offset

    def mend_offsets(self) -> None:
        """Put the right queue offsets into records that readers found to have others.

        The caller holds the commit lock: no segment is dropped meanwhile.
        """
        while self._wrong_offsets:
            position, offset = self._wrong_offsets.popitem()
            row = np.frombuffer(offset.to_bytes(8, "big"), dtype=np.uint8).reshape(1, 8)
            with contextlib.suppress(NotFound):  # retention was quicker
                self.commit.scatter(np.array([position + QUEUE_OFFSET_AT], dtype=np.int64), row)

    def notify(self, numbers: list[int]) -> None:
        """Tell those who wait that these queues have grown."""
        if self.observers:
            queues = [self.queues.by_number(number).name for number in numbers]
            self.observers.tell(lambda observer: observer.grown(queues))

    def note_segments(self, positions: Int64s, first_seq: int) -> None:
        """Remember which acceptance numbers stand in which delay segment."""
        base = self.delay.base_of(int(positions[0]))
        if self.delay.base_of(int(positions[-1])) == base:
            self.segments.setdefault(base, [first_seq, first_seq])[1] = first_seq + len(positions)
            return
        bases = positions - positions % self.delay.segment_size_bytes
        found, starts, counts = np.unique(bases, return_index=True, return_counts=True)
        for base, start, count in zip(
            found.tolist(), starts.tolist(), counts.tolist(), strict=True
        ):
            first = first_seq + start
            known = self.segments.setdefault(base, [first, first])
            known[1] = first + count
