"""The store: two logs, what is derived from them, and the verbs over both.

    with Store.open(path, StoreOptions()) as store:
        store.put(Message(topic="orders", body=b"17", properties={"TIMER_DELAY_MS": "1800000"}))
        corner = store.next_corner(until_ms=…, row_count_max=…)
        window = store.window(corner)
        store.deliver([restore.deliveries(store.read_window(window))])
        store.open_gate()
        store.read("orders", 0, 0)

Every verb may be called from any thread. The store starts no threads of its own: its owner calls
`open_gate` when something is due (`gate_next_ms` says when) and `maintain` now and then.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from dueline.clock import Clock, standstill
from dueline.errors import BrokerError, StoreClosed, Unavailable
from dueline.message import Message
from dueline.message_rows import MessageRows
from dueline.store import recovery
from dueline.store.adoption import Adopter, waiting_rows
from dueline.store.aside import Aside
from dueline.store.block_writing import BlockPutter, RowsResult, total_counts
from dueline.store.bulk import Bulk
from dueline.store.core import Core
from dueline.store.corner import CORNER_START, Corner, Key
from dueline.store.cut import Cut
from dueline.store.delivery import Deliverer, DeliverResult
from dueline.store.file_sizes import check_sizes
from dueline.store.files import Files
from dueline.store.kernels import Int64s
from dueline.store.maintenance import Maintainer, Retained
from dueline.store.numbers import Numbers
from dueline.store.observer import Observer
from dueline.store.options import StoreOptions
from dueline.store.pending import (
    Answer,
    Changed,
    Name,
    Overdue,
    Pending,
    PendingMessage,
)
from dueline.store.reading import Accept, Reader, ReadResult
from dueline.store.record import Record
from dueline.store.recovered import Report
from dueline.store.schema import WINDOW_SCHEMA
from dueline.store.survey import Survey
from dueline.store.table_writing import Admit, PutManyResult, TablePutter
from dueline.store.timeline import Window
from dueline.store.usual_reader import UsualReader
from dueline.store.writing import PutResult, Putter

__all__ = ["Store"]

_log = logging.getLogger(__name__)


class Store:
    """An open store; make one with `Store.open`."""

    def __init__(self, core: Core, lock: Any, report: Report) -> None:
        self._core = core
        self._folder_lock = lock
        self.report = report
        self._putter = Putter(core)
        self._tables = TablePutter(core)
        self._deliverer = Deliverer(core)
        self._reader = Reader(core)
        self._pending = Pending(core, self._putter)
        self.numbers = Numbers(core, self._tables, self._pending, self._seal_if_full)
        self.aside = Aside(core)
        self._adopter = Adopter(core)
        self._maintainer = Maintainer(core)
        self._tell = core.observers.tell
        self.is_busy = core.is_busy

    @classmethod
    def open(
        cls,
        path: Path | str,
        options: StoreOptions | None = None,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
    ) -> Store:
        """Open or create the store in a folder, repairing what a crash left.

        Raises:
            StoreLocked: another process has it open.
            InvalidRequest: options that cannot work, or do not fit the files that are there.
        """
        options = options or StoreOptions()
        options.check()
        files = files or Files()
        root = Path(path)
        files.make_folder(root)
        lock = files.lock(root / "lock")
        core = None
        try:
            core = Core(root, options, clock=clock or Clock(), files=files)
            core.room.open()
            check_sizes(core)
            found = recovery.recover(core)
            core.adopt(found)
            store = cls(core, lock, found.report)
            store._maintainer.adopt(found.start)
            store.numbers.load_rules()
            store._checkpoint_if_there_is_room()
            warning = standstill(core.clock)
            if warning is not None:
                _log.warning("%s", warning)
        except BaseException:
            if core is not None:
                core.close()
            lock.release()
            raise
        return store

    def close(self) -> None:
        """Finish, make a checkpoint and let go of the files; a failed store is only let go.

        Closing again does nothing.
        """
        if self._core.is_closed:
            return
        try:
            if not self._core.is_failed:
                self._checkpoint_if_there_is_room()
        finally:
            self._core.close()
            self._folder_lock.release()

    def _checkpoint_if_there_is_room(self) -> None:
        """A checkpoint only makes the next start quick: a full disk must not be in the way."""
        try:
            self._maintainer.checkpoint()
        except Unavailable as error:
            _log.warning("no checkpoint was made: %s", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def observe(self, observer: Observer) -> None:
        """Tell it from now on what happens here."""
        self._core.observers.add(observer)

    # Putting

    def put(self, message: Message) -> PutResult:
        """Accept one message; returns when it is durable."""
        self._accepted([result := self._putter.put(message)])
        return result

    def check(self, message: Message) -> None:
        """Refuse a message as a put would, whatever the disk says; nothing is changed.

        Raises:
            InvalidRequest, LimitExceeded: the message cannot be stored.
        """
        self._putter.check(message)

    def put_all(self, messages: Sequence[Message]) -> list[PutResult | BrokerError]:
        """Accept messages together, with one fsync per log; each is answered on its own."""
        results = self._putter.put_all(messages)
        self._accepted(results)
        return results

    def put_rows(self, parts: Sequence[MessageRows]) -> list[RowsResult]:
        """Accept rows of messages together, with one fsync per log; for compiled code."""
        results = BlockPutter(self._core).put(parts)
        self._settle(*total_counts(results))
        return results

    def put_many(self, table: pa.Table, *, admit: Admit | None = None) -> PutManyResult:
        """Accept a table of delayed messages (`SCHEDULE_SCHEMA`) if `admit` does, all or none."""
        result = self._tables.put_many(table, admit)
        self._settle(result.count, result.count, 0)
        return result

    def put_encoded(self, rows: Bulk) -> PutManyResult:
        """Accept rows that `bulk.encode` made, all of them or none."""
        result = self._tables.put_encoded(rows)
        self._settle(result.count, result.count, 0)
        return result

    def _accepted(self, results: Sequence[PutResult | BrokerError]) -> None:
        dues_ms = [each.due_ms for each in results if isinstance(each, PutResult)]
        count, delayed = len(dues_ms), len(dues_ms) - dues_ms.count(None)
        self._settle(count, delayed, len(results) - count)

    def _settle(self, count: int, delayed_count: int, refused_count: int) -> None:
        """What every put ends with."""
        self._seal_if_full()
        self._tell(lambda each: each.accepted(count, delayed_count, refused_count))

    def begin_queues(self, firsts: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        """Let queues that are new begin at these offsets, durably; returns the next of each."""
        return self._adopter.begin(firsts, self._maintainer.checkpoint)

    def adopt_visible(self, records: pa.BinaryArray) -> int:
        """Append records that RocketMQ wrote to their own queues, all of them or none."""
        return self._adopter.append(records)

    def adopt_waiting(self, records: pa.BinaryArray, due_ms: Int64s) -> PutManyResult:
        """Accept delayed records that RocketMQ wrote, with their due times, all or none."""
        return self.put_encoded(waiting_rows(records, due_ms, store_host=self._core.store_host))

    def _seal_if_full(self) -> None:
        """The open run must not outgrow its bound, whether or not the owner maintains. The put
        before it is accepted, even if this fails."""
        if len(self._core.timeline.open) >= 2 * self._core.options.open_units_max:
            with contextlib.suppress(StoreClosed):
                self._checkpoint_if_there_is_room()

    # Reading

    def offset_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first offset that exists and the next one to be written."""
        return self._reader.offset_range(topic, queue_id)

    def is_at_hand(self, topic: str, queue_id: int, offset: int, *, count_max: int) -> bool:
        """Would `read` find what it needs in memory, as far as can be told without a wait?"""
        return self._reader.is_at_hand(topic, queue_id, offset, count_max=count_max)

    def read(  # noqa: PLR0913 - as Reader.read
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        count_max: int = 32,
        size_bytes_max: int = 256 * 1024,
        accept: Accept | None = None,
    ) -> ReadResult:
        """Visible records of a queue from `offset` on."""
        place = topic, queue_id, offset
        return self._reader.read(
            *place, count_max=count_max, size_bytes_max=size_bytes_max, accept=accept
        )

    def usual_reader(self) -> UsualReader:
        """Reads the usual stretches of queues, for one thread."""
        return UsualReader(self._core)

    def read_rows(
        self, topic: str, queue_id: int, offset: int, *, count_max: int, size_bytes_max: int
    ) -> tuple[pa.RecordBatch, int]:
        """Many visible records at once (STORED_SCHEMA), and the offset to go on from."""
        return self._reader.read_rows(
            topic, queue_id, offset, count_max=count_max, size_bytes_max=size_bytes_max
        )

    def record_at(self, position: int) -> Record:
        """The commit-log record at a position."""
        return self._reader.record_at(position)

    def search_offset(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The first offset that became visible at or after a time."""
        return self._reader.search_offset(topic, queue_id, timestamp_ms)

    def query(self, topic: str, key: str, **limits: int) -> list[Record]:
        """Visible messages of a topic by key or unique id (limits: see `reading.query`)."""
        return self._reader.query(topic, key, **limits)

    def queues(self) -> list[tuple[str, int]]:
        """Every topic and queue id that holds messages."""
        return self._core.queues.names()

    def queue_ids(self, topic: str) -> list[int]:
        """The queue ids of a topic that hold messages."""
        return self._core.queues.ids(topic)

    # Delivering

    def next_corner(
        self,
        *,
        until_ms: int,
        row_count_max: int,
        start: Corner = CORNER_START,
        size_bytes_max: int = 1 << 62,
    ) -> Corner:
        """How far the next window reaches; `start` again if nothing is pending by `until_ms`.

        Args:
            size_bytes_max: of the window, packed, beside the configured maximum; one may be larger.
        """
        size_bytes_max = min(size_bytes_max, self._core.options.window_size_bytes_max)
        with self._core.lock:
            self._core.road.hold(self._core.clock.now_ms())
            return self._core.timeline.next_corner(
                until_ms=until_ms,
                row_count_max=row_count_max,
                size_bytes_max=size_bytes_max,
                start=start,
            )

    def delivery_room_bytes(self) -> int:
        """How many bytes of messages, packed, the disk has room to carry over; 0: hardly any."""
        return self._core.delivery_room_bytes()

    def window(
        self,
        end: Corner,
        *,
        after: Key | None = None,
        until: Key | None = None,
        row_count_max: int | None = None,
        with_held: bool = False,
    ) -> Window:
        """What is pending inside a corner, with keys in (after, until], the first rows of it.

        Args:
            with_held: also what the rules of its topic keep from being carried over now.
        """
        with self._core.lock:
            return self._core.timeline.window(
                end, after=after, until=until, row_count_max=row_count_max, with_held=with_held
            )

    def read_window(self, window: Window) -> pa.RecordBatch:
        """The window's raw records (`WINDOW_SCHEMA`)."""
        units = window.units
        return pa.RecordBatch.from_arrays(
            [
                pa.array(units.seq),
                pa.array(units.due_ms),
                window.topics(),
                pa.array(units.queue_id),
                self._core.delay.gather(units.position, units.size),
            ],
            schema=WINDOW_SCHEMA,
        )

    def deliver(
        self, batches: Sequence[pa.RecordBatch], *, dropped: Int64s | None = None
    ) -> DeliverResult:
        """Append deliveries once per origin; `dropped` origins count as done."""
        result = self._deliverer.deliver(batches, dropped=dropped)
        self.numbers.expire(result.expired)
        self._tell(
            lambda each: each.delivered(
                count=result.delivered_count,
                skipped_count=result.skipped_count,
                dropped_count=result.dropped_count,
            )
        )
        return result

    def open_gate(self) -> int:
        """Let everything be seen that is due by now; returns how many records."""
        return self._deliverer.open_gate()

    @property
    def gate_next_ms(self) -> int | None:
        """When the next record at the gate becomes visible."""
        return self._core.gate.next_ms

    @property
    def gate_row_count(self) -> int:
        return self._core.gate.row_count

    # Delayed messages

    def find_delayed(self, key: str) -> list[PendingMessage]:
        """Delayed messages by key, unique id or offset id, the newest first."""
        return self._pending.find(Name(key))

    def cancel(self, key: str) -> Answer:
        return self.cancel_many([key])[0]

    def cancel_many(self, keys: Sequence[str]) -> list[Answer]:
        """Cancel by key or id, many with one fsync."""
        return [changed.answer for changed in self.cancel_named([Name(key) for key in keys])]

    def cancel_named(self, names: Sequence[Name]) -> list[Changed]:
        """Cancel, many with one fsync; says how many messages each name has cancelled."""
        changed = self._pending.cancel(names)
        self._tell(lambda each: each.cancelled(sum(one.count for one in changed)))
        return changed

    def recall(self, topic: str, unique_id: str) -> Answer:
        """Cancel the message that was sent to a topic with this unique id, and no other."""
        return self.cancel_named([Name(unique_id, topic)])[0].answer

    def cancel_seqs(self, seqs: Int64s) -> Int64s:
        """Cancel by acceptance number; returns those that were still changeable."""
        cancelled = self._pending.cancel_seqs(seqs)
        self._tell(lambda each: each.cancelled(len(cancelled)))
        return cancelled

    def reschedule(self, key: str, due_ms: int) -> Answer:
        return self.reschedule_many([(key, due_ms)])[0]

    def reschedule_many(self, requests: Sequence[tuple[str, int]]) -> list[Answer]:
        """Move (key or id, due time) pairs, many with one fsync."""
        named = [(Name(key), due_ms) for key, due_ms in requests]
        return [changed.answer for changed in self.reschedule_named(named)]

    def reschedule_named(self, requests: Sequence[tuple[Name, int]]) -> list[Changed]:
        """Move, many with one fsync; says how many messages each name has moved."""
        changed = self._pending.reschedule(requests)
        self._tell(lambda each: each.rescheduled(sum(one.count for one in changed)))
        return changed

    def survey(self) -> Survey:
        """What waits now, to be looked through at leisure."""
        self._core.check_open()
        return Survey(self._core)

    def pending_count(self) -> int:
        return self._pending.count()

    def next_due_ms(self) -> int | None:
        """When the next pending message is due that may be carried over."""
        with self._core.lock:
            self._core.road.hold(self._core.clock.now_ms())
            return self._core.timeline.next_due_ms()

    def overdue(self, until_ms: int) -> Overdue:
        """What was due by `until_ms` and is not carried over: how many, and the oldest."""
        return self._pending.overdue(until_ms)

    # Housekeeping

    def maintain(self) -> None:
        """Make a checkpoint if enough has come together."""
        if self._maintainer.is_due():
            self._maintainer.checkpoint()

    def checkpoint(self) -> None:
        """Make everything derived durable now."""
        self._maintainer.checkpoint()

    def look_at_disk(self) -> None:
        """Notice that the disk is full, or that there is room again."""
        self._core.room.look()

    def retain(self) -> Retained:
        """Delete old segments and compact sparse ones."""
        return self._maintainer.retain()

    def hold(self, lease_s: float) -> None:
        """Delete no file for so long: a backup copies what `cut` named. Call again to renew."""
        self._maintainer.hold(lease_s)

    def release(self) -> None:
        """The hold is over."""
        self._maintainer.release()

    def cut(self) -> Cut:
        """A checkpoint, and the files that are a consistent copy of the store as of now."""
        return self._maintainer.cut()

    @property
    def clock(self) -> Clock:
        return self._core.clock

    @property
    def options(self) -> StoreOptions:
        return self._core.options

    @property
    def path(self) -> Path:
        return self._core.path

    def stats(self) -> dict[str, Any]:
        """Figures for people and monitors."""
        core = self._core
        with core.lock:
            return {
                "commit_log": core.commit.stats(),
                "delay_log": core.delay.stats(),
                "accepted_delayed": core.next_seq,
                "pending": core.timeline.pending_count(),
                "at_gate": core.gate.row_count,
                "gate_next_ms": core.gate.next_ms,
                "run_count": len(core.timeline.runs),
                "open_units": len(core.timeline.open),
                "delay_offsets": dict(core.delay_queues),
            }
