"""The receipts on disk: an append-only file of changes to lanes, rewritten when it has grown.

    | magic "DUEPOP01" (8) | epoch (4) |
    | size (4) | crc32 (4) | changes … |     one frame per write, until a size of 0 or a torn one

    L  lane (4)  queue id (4)  cursor (8)  group size (1)  topic size (1)  group  topic
    C  lane (4)  cursor (8)
    H  lane (4)  offset (8)  message group (8)  attempt (4)  serial (4)  visible ms (8)
    F  lane (4)  offset (8)
    T  time (8)
    D  lane (4)

Big-endian. `L` names a lane, with the queue id's highest bit set if it goes through the group's
retry topic; the others are `advance`, `hold`, `finish` and `drop` of it. The epoch is a
random number made with the file: receipts that clients keep carry it, so those of a deleted store
are known as foreign.

`T` is the clock's time where it stands. Within a run it only grows; if a later run begins at an
earlier time, the wall clock was ahead before and was set right, and everything that is held moves
back by the difference: a message is hidden for no longer than its receiver asked for.

`append` never blocks: it gathers changes. `flush`, called by the owner's thread, writes what has
gathered with one write, and one fsync if somebody waits for it. Acknowledgements wait; receipts do
not, because to lose them in a power cut only means that messages come again. Since the order of
changes is the order in the file, and frames count up to the first that is not whole, no
acknowledgement counts without the receipt before it. Opening the file zeroes what is behind them.

When the file has grown, `flush` writes the state of all lanes as a new file, and the names change
places: the file is as long as what is in flight, not as what was ever received. Changes that were
gathered before and are written behind such a state are repeated by a reader; each of them says
what is, not what is added, so the end is the same. A change of a lane that the state does not have
any more (see `lanes.Lanes.reset`) says nothing.
"""

from __future__ import annotations

import contextlib
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dueline.broker.inflight.lane import Entry, Lane
from dueline.clock import Clock
from dueline.errors import (
    BrokerError,
    InvalidRequest,
    OutcomeUnknown,
    StoreClosed,
    StoreFailed,
    Unavailable,
)
from dueline.store.files import File, Files
from dueline.store.shortage import full_disk_is_unavailable

__all__ = ["Change", "LaneName", "ReceiptLog", "advance", "drop", "finish", "hold", "lane_change"]

MAGIC: Final = b"DUEPOP01"
REWRITE_SIZE_BYTES: Final = 32 << 20
GATHERED_COUNT_MAX: Final = 1_000_000
_ALLOCATE_BYTES: Final = 1 << 20
_FRAME_SIZE_BYTES_MAX: Final = 1 << 28
_REOPEN_COUNT_MAX: Final = 1_000
_REOPEN_S: Final = 0.05

_HEADER: Final = struct.Struct(">8sI")
_FRAME: Final = struct.Struct(">II")
_LANE: Final = struct.Struct(">cIIQBB")
_CURSOR: Final = struct.Struct(">cIQ")
_HOLD: Final = struct.Struct(">cIQQIIQ")
_FINISH: Final = struct.Struct(">cIQ")
_TIME: Final = struct.Struct(">cQ")
_DROP: Final = struct.Struct(">cI")

Change = bytes
Done = Callable[[BaseException | None], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneName:
    """Whose lane it is."""

    group: str
    topic: str


_Lanes = dict[int, tuple[Lane, LaneName]]


def lane_change(lane: Lane, name: LaneName) -> Change:
    group, topic = name.group.encode(), name.topic.encode()
    head = _LANE.pack(b"L", lane.number, lane.queue_id, lane.cursor, len(group), len(topic))
    return head + group + topic


def advance(lane: Lane) -> Change:
    return _CURSOR.pack(b"C", lane.number, lane.cursor)


def hold(lane: Lane, offset: int) -> Change:
    entry = lane.entries[offset]
    return _HOLD.pack(
        b"H",
        lane.number,
        offset,
        entry.message_group,
        entry.attempt,
        entry.serial,
        entry.visible_ms,
    )


def finish(lane: Lane, offset: int) -> Change:
    return _FINISH.pack(b"F", lane.number, offset)


def drop(lane: Lane) -> Change:
    return _DROP.pack(b"D", lane.number)


class ReceiptLog:
    """The file; any thread may `append`, one at a time may `flush`."""

    def __init__(self, path: Path, files: Files, clock: Clock, *, is_synced: bool = True) -> None:
        self._path = path
        self._clock = clock
        self._time_ms = 0  # the last that was gathered
        self._files = files
        self._is_synced = is_synced
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._gathered: list[Change] = []
        self._waiting: list[Done] = []
        self._failure: BaseException | None = None
        self._is_closed = False
        self._file: File | None = None
        self._end = 0
        self._torn_end = 0  # a failed write may have left bytes up to here
        self._allocated = 0
        self._rewrite_at = REWRITE_SIZE_BYTES
        self.epoch = 0
        self._on_gathered: list[Callable[[], None]] = []

    def on_gathered(self, callback: Callable[[], None]) -> None:
        """Call when there is something to flush; must be quick."""
        self._on_gathered.append(callback)

    # Opening

    def open(self) -> Iterator[tuple[Lane, LaneName]]:
        """The lanes as the file leaves them; a torn end is forgotten."""
        lanes: _Lanes = {}
        if not self._files.exists(self._path):
            self._files.make_folder(self._path.parent)
            self.epoch = int.from_bytes(os.urandom(4), "big")
            self._files.replace(self._path, [_HEADER.pack(MAGIC, self.epoch)])
        data = self._files.read(self._path)
        self._end = self._read_header(data)
        for frame_end, changes in _frames(data, self._end):
            self._time_ms = _replay(changes, lanes, self._time_ms)
            self._end = frame_end
        now_ms = self._clock.now_ms()
        if now_ms < self._time_ms:
            self._gathered.append(_TIME.pack(b"T", now_ms))
            self._time_ms = _set_back(lanes, self._time_ms, now_ms)
        for lane, _ in lanes.values():
            lane.settle()
        self._file = self._files.open(self._path, writable=True)
        self._clear(len(data[self._end :].rstrip(b"\0")))
        self._allocated = len(data)
        self._rewrite_at = max(REWRITE_SIZE_BYTES, 2 * self._end)
        return iter(lanes.values())

    def _clear(self, size: int) -> None:
        """Zero what is torn behind the last whole frame, for good: a frame further on may be whole,
        and would count again as soon as one of the right size is written in front of it."""
        assert self._file is not None
        if size:
            self._file.write_at(self._end, bytes(size))
            self._file.sync()

    def _read_header(self, data: bytes) -> int:
        if len(data) < _HEADER.size or not data.startswith(MAGIC):
            raise InvalidRequest(
                f"{self._path}: expected receipts ({MAGIC!r}), found {data[:8]!r}; restore the "
                "file, or remove it and let the groups receive anew from their offsets",
                path=str(self._path),
            )
        self.epoch = _HEADER.unpack_from(data)[1]
        return _HEADER.size

    # Writing

    def append(self, changes: Iterable[Change], done: Done | None = None) -> None:
        """Gather changes; with `done`, call it from the flushing thread when they are on disk."""
        with self._lock:
            if self._failure is not None or self._is_closed:
                raise StoreClosed(
                    f"receipts {self._path}: closed ({self._failure or 'stopped'}); restart the "
                    "broker"
                )
            if len(self._gathered) > GATHERED_COUNT_MAX:
                raise Unavailable(
                    f"receipts {self._path}: expected at most {GATHERED_COUNT_MAX} changes to wait "
                    f"for the disk, found {len(self._gathered)}; receive again later"
                )
            self._gather(changes)
            if done is not None:
                self._waiting.append(done)
        for callback in self._on_gathered:
            callback()

    def _gather(self, changes: Iterable[Change]) -> None:
        now_ms = self._clock.now_ms()
        before = len(self._gathered)
        self._gathered.extend(changes)
        if len(self._gathered) > before and now_ms != self._time_ms:
            self._gathered.insert(before, _TIME.pack(b"T", now_ms))
            self._time_ms = now_ms

    def flush(self, state: Callable[[], Iterable[Change]]) -> None:
        """Write what has gathered, and answer those who wait.

        Args:
            state: gives everything anew, if the file is to be rewritten.

        Raises:
            StoreClosed: a write or fsync failed; everybody was told.
        """
        with self._flush_lock:
            with self._lock:
                changes, self._gathered = self._gathered, []
                waiting, self._waiting = self._waiting, []
                time_ms = self._time_ms
            if not changes and not waiting:
                return
            error = self._write(changes, is_synced=bool(waiting) and self._is_synced)
            for done in waiting:
                done(error)
            if isinstance(error, StoreClosed):
                raise error
            if error is None and self._end >= self._rewrite_at:
                self._rewrite(state, time_ms)

    def close(self, state: Callable[[], Iterable[Change]]) -> None:
        """Write what has gathered and let go of the file."""
        with contextlib.suppress(StoreClosed):  # everybody knows
            self.flush(state)
        with self._flush_lock, self._lock:
            self._is_closed = True
            if self._file is not None:
                if self._failure is None:
                    self._file.sync()
                self._file.close()
                self._file = None

    def _write(self, changes: list[Change], *, is_synced: bool) -> BrokerError | None:
        assert self._file is not None
        payload = b"".join(changes)
        frame = _FRAME.pack(len(payload), zlib.crc32(payload)) + payload
        end = self._end + len(frame)
        try:
            # The zero size behind the last frame is its end mark, so there is always room for one.
            if payload and end + _FRAME.size > self._allocated:
                target = end + _FRAME.size + self._ahead_bytes()
                self._file.allocate(self._allocated, target)
                self._file.resize(target)
                self._allocated = target
            if payload:
                padded = frame.ljust(self._torn_end - self._end, b"\0")
                self._torn_end = max(self._torn_end, end)
                with full_disk_is_unavailable(self._path):
                    self._file.write_at(self._end, padded)
        except Unavailable as error:
            # Nothing counts before `_end` moves; the next write takes the same place, all of it.
            with self._lock:
                self._gathered[:0] = changes
            return OutcomeUnknown(
                f"receipts {self._path}: {error.message}; what was said counts, but a restart may "
                "forget it; say it again"
            )
        except OSError as error:
            return self._fail(error)
        if payload:
            self._end = end
        try:
            if is_synced:
                self._file.sync()
        except OSError as error:
            return self._fail(error)
        return None

    def _fail(self, error: OSError) -> BrokerError:
        """A failed write or fsync closes the log: what is on disk is not known any more."""
        with self._lock:
            self._failure = error
        return StoreFailed(f"receipts {self._path}: {error}; restart the broker")

    def _ahead_bytes(self) -> int:
        """How much to reserve beyond what is written: little where space is scarce."""
        free_bytes = self._files.disk(self._path.parent).free_bytes
        return _ALLOCATE_BYTES if free_bytes > 4 * _ALLOCATE_BYTES else 0

    def _rewrite(self, state: Callable[[], Iterable[Change]], time_ms: int) -> None:
        # Not the time of now: what was gathered in between, and follows, may be older.
        payload = b"".join([_TIME.pack(b"T", time_ms), *state()])
        frame = _FRAME.pack(len(payload), zlib.crc32(payload))
        chunks = [_HEADER.pack(MAGIC, self.epoch), frame, payload]
        try:
            self._files.replace(self._path, chunks)
        except Unavailable:
            self._rewrite_at = self._end + REWRITE_SIZE_BYTES
            return
        assert self._file is not None
        self._file.close()
        self._file = self._reopened()
        self._end = self._allocated = sum(map(len, chunks))
        self._torn_end = 0
        self._rewrite_at = max(REWRITE_SIZE_BYTES, 2 * self._end)

    def _reopened(self) -> File:
        """The new file. The old one's descriptor has just become free, but others want it too."""
        for _ in range(_REOPEN_COUNT_MAX):
            with contextlib.suppress(Unavailable):
                return self._files.open(self._path, writable=True)
            threading.Event().wait(_REOPEN_S)
        return self._files.open(self._path, writable=True)


def whole_size_bytes(data: bytes) -> int:
    """Where the last whole frame of a log ends; a copy may have been taken in mid-write."""
    return max((end for end, _ in _frames(data, _HEADER.size)), default=_HEADER.size)


def _frames(data: bytes, at: int) -> Iterator[tuple[int, memoryview]]:
    """Whole frames and where each ends; stops at the first that is not."""
    view = memoryview(data)
    while at + _FRAME.size <= len(data):
        size, crc = _FRAME.unpack_from(data, at)
        start, end = at + _FRAME.size, at + _FRAME.size + size
        if not size or size > _FRAME_SIZE_BYTES_MAX or end > len(data):
            return
        payload = view[start:end]
        if zlib.crc32(payload) != crc:
            return
        yield end, payload
        at = end


def _replay(changes: memoryview, lanes: _Lanes, time_ms: int) -> int:
    """Take in a frame's changes; returns the time that it has come to."""
    at = 0
    while at < len(changes):
        kind = bytes(changes[at : at + 1])
        if kind == b"L":
            at = _replay_lane(changes, at, lanes)
        elif kind == b"C":
            _, number, cursor = _CURSOR.unpack_from(changes, at)
            if number in lanes:
                lanes[number][0].advance(cursor)
            at += _CURSOR.size
        elif kind == b"H":
            _replay_hold(changes, at, lanes)
            at += _HOLD.size
        elif kind == b"T":
            time_ms = _set_back(lanes, time_ms, _TIME.unpack_from(changes, at)[1])
            at += _TIME.size
        elif kind == b"D":
            lanes.pop(_DROP.unpack_from(changes, at)[1], None)
            at += _DROP.size
        else:
            assert kind == b"F", f"receipts: unknown change {kind!r} in a sound frame"
            _, number, offset = _FINISH.unpack_from(changes, at)
            if number in lanes:
                lanes[number][0].finish(offset)
            at += _FINISH.size
    return time_ms


def _set_back(lanes: _Lanes, before_ms: int, now_ms: int) -> int:
    """Time goes on at `now_ms`; if that is earlier, so is the end of every holding."""
    if now_ms < before_ms:
        for lane, _ in lanes.values():
            lane.set_back(before_ms - now_ms)
    return now_ms


def _replay_hold(changes: memoryview, at: int, lanes: _Lanes) -> None:
    _, number, offset, message_group, attempt, serial, visible_ms = _HOLD.unpack_from(changes, at)
    if number in lanes:
        entry = Entry(
            attempt=attempt, visible_ms=visible_ms, serial=serial, message_group=message_group
        )
        lanes[number][0].hold(offset, entry)


def _replay_lane(changes: memoryview, at: int, lanes: _Lanes) -> int:
    _, number, queue_id, cursor, group_size, topic_size = _LANE.unpack_from(changes, at)
    at += _LANE.size
    group = bytes(changes[at : at + group_size]).decode()
    at += group_size
    topic = bytes(changes[at : at + topic_size]).decode()
    if number not in lanes:  # repeated behind a rewritten state, which knows it better
        lane = Lane(number=number, queue_id=queue_id, cursor=cursor)
        lanes[number] = (lane, LaneName(group=group, topic=topic))
    return at + int(topic_size)
