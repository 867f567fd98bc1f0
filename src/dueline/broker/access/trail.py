"""The audit trail: a line for every refusal and every change, with who, from where, what, how many.

    {"n":17,"time":"2026-11-17T19:00:00.123Z","event":"change","user":"admin","address":"10.0.0.1",
     "door":"remoting","what":"DELETE_TOPIC_IN_BROKER","on":["Topic:orders"]}

Lines never hold bodies or secrets. Noting one is an entry in a queue in memory, whatever the disk
does; a thread of the server calls `write`. A crowd of refusals must not fill the disk nor push the
changes out: of those beyond `REFUSED_PER_PERIOD` in a period only the number is written, by user,
address and reason. When the newest file is full it is renamed, and of the older ones the oldest is
removed. `n` counts lines and goes on after a restart.

Any thread may note; one thread writes.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from dueline.broker.access.values import ANONYMOUS, Caller, Resource
from dueline.clock import Clock
from dueline.errors import BrokerError
from dueline.store.files import Files

__all__ = ["CHANGE", "REFUSED", "Entry", "Trail"]

CHANGE: Final = "change"
REFUSED: Final = "refused"
LOST: Final = "lost"
"""Lines that the disk was too slow for; only their number is known."""

SIZE_BYTES_MAX_DEFAULT: Final = 64 << 20
FILE_COUNT: Final = 8
QUEUE_COUNT_MAX: Final = 10_000
"""Lines that wait for the disk."""
PERIOD_MS: Final = 10_000
REFUSED_PER_PERIOD: Final = 50
COUNTED_MAX: Final = 200
"""Kinds of refusals that are counted by themselves in a period; the others are one kind."""
RECENT_COUNT: Final = 2_000
"""Lines that are kept in memory for those who follow."""
TEXT_SIZE_MAX: Final = 300

_OTHERS: Final = ("", "", "", "", "others")


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line."""

    n: int = 0
    time: str = ""
    event: str
    user: str | None = None
    address: str = ""
    method: str = ""
    door: str = ""
    what: str = ""
    on: tuple[str, ...] = ()
    reason: str = ""
    count: int | None = None

    @property
    def time_ms(self) -> int:
        return int(datetime.fromisoformat(self.time).timestamp() * 1_000)


class Trail:
    """The lines of one broker."""

    def __init__(
        self,
        folder: Path,
        files: Files,
        *,
        clock: Clock,
        size_bytes_max: int = SIZE_BYTES_MAX_DEFAULT,
    ) -> None:
        self.path: Final = folder / "audit.jsonl"
        self._files = files
        self._clock = clock
        self._file_size_max = max(size_bytes_max // FILE_COUNT, 1)
        self._lock = threading.Lock()
        self._queue: deque[Entry] = deque()
        self._recent: deque[Entry] = deque(maxlen=RECENT_COUNT)
        self._lost_count = 0
        self._period_start_ms = 0
        self._refused_in_period = 0
        self._counted: Counter[tuple[str, ...]] = Counter()
        self._is_torn = files.exists(self.path) and not files.read(self.path).endswith(b"\n")
        self._next = self._last_number() + 1

    # Noting

    def refused(
        self, caller: Caller, *, door: str, what: str, error: BrokerError, name: str | None = None
    ) -> None:
        """Somebody asked who may not, or whom we do not know; `name`: who they say they are."""
        reason = str(error.details.get("reason", "")) or type(error).__name__
        user = caller.user or name or str(error.details.get("user", ""))
        with self._lock:
            self._end_period()
            self._refused_in_period += 1
            if self._refused_in_period > REFUSED_PER_PERIOD:
                kind = (user[:64], caller.address, door, what, reason)
                if kind not in self._counted and len(self._counted) >= COUNTED_MAX:
                    kind = _OTHERS
                self._counted[kind] += 1
                return
            on = error.details.get("resource")
            self._add(
                caller,
                Entry(
                    event=REFUSED,
                    user=user,
                    door=door,
                    what=what,
                    on=(str(on),) if on else (),
                    reason=reason,
                ),
            )

    def changed(
        self,
        caller: Caller,
        *,
        door: str,
        what: str,
        on: Iterable[Resource | str] = (),
        count: int | None = None,
    ) -> None:
        """Somebody has changed something."""
        names = tuple(map(str, on))
        with self._lock:
            self._add(caller, Entry(event=CHANGE, door=door, what=what, on=names, count=count))

    def _add(self, caller: Caller, event: Entry) -> None:
        """Put an event in line, with its number, time and caller; under the lock."""
        if len(self._queue) >= QUEUE_COUNT_MAX:
            self._lost_count += 1
            return
        entry = msgspec.structs.replace(
            event,
            n=self._next,
            time=_iso(self._clock.now_ms()),
            user=(event.user or caller.user or "")[:64] or None,
            address=caller.address,
            method=caller.method,
            what=event.what[:TEXT_SIZE_MAX],
            on=tuple(each[:TEXT_SIZE_MAX] for each in event.on),
            reason=event.reason[:TEXT_SIZE_MAX],
        )
        self._next += 1
        self._queue.append(entry)
        self._recent.append(entry)

    def _end_period(self) -> None:
        """Write how many refusals were left out, when their time is over; under the lock."""
        now_ms = self._clock.now_ms()
        if now_ms - self._period_start_ms < PERIOD_MS:
            return
        self._period_start_ms = now_ms
        self._refused_in_period = 0
        counted, self._counted = self._counted, Counter()
        for (user, address, door, what, reason), count in counted.items():
            event = Entry(event=REFUSED, door=door, what=what, reason=reason, count=count)
            self._add(Caller(user or None, address), event)

    # Writing

    def write(self) -> None:
        """Write what was noted; blocks for the disk.

        Raises:
            OSError: it cannot be written; it is tried again with the next.
        """
        with self._lock:
            self._end_period()
            if self._lost_count and len(self._queue) < QUEUE_COUNT_MAX:
                count, self._lost_count = self._lost_count, 0
                self._add(ANONYMOUS, Entry(event=LOST, count=count))
            entries = list(self._queue)
        if not entries:
            return
        data = b"".join(msgspec.json.encode(entry) + b"\n" for entry in entries)
        self._files.make_folder(self.path.parent)
        if self._files.exists(self.path):
            size_bytes = self._files.size_bytes(self.path)
            if size_bytes and size_bytes + len(data) > self._file_size_max:
                self._rotate()
        with self._files.open_to_append(self.path) as file:
            # A line that a crash has cut must not swallow the next one.
            file.write(b"\n" + data if self._is_torn else data)
            self._is_torn = False
            os.fsync(file.fileno())
        with self._lock:
            for _ in entries:
                self._queue.popleft()

    def _rotate(self) -> None:
        paths = [self.path, *self._older()]
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(paths[-1])
        for newer, older in reversed(list(itertools.pairwise(paths))):
            if self._files.exists(newer):
                self._files.move(newer, older)

    def _older(self) -> list[Path]:
        """The names of older files, the newest of them first."""
        return [
            self.path.with_name(f"{self.path.name}.{number}") for number in range(1, FILE_COUNT)
        ]

    # Reading

    def recent(self, after: int) -> list[Entry] | None:
        """The lines after a number, if all of them are in memory; else `read` has them."""
        with self._lock:
            first = self._recent[0].n if self._recent else self._next
            if after + 1 < first:
                return None
            return [entry for entry in self._recent if entry.n > after]

    def read(self) -> Iterator[Entry]:
        """Every line on disk, the oldest first; what is damaged is left out."""
        for path in (*reversed(self._older()), self.path):
            if self._files.exists(path):
                yield from _decode(self._files.read(path))

    def _last_number(self) -> int:
        for path in (self.path, *self._older()):
            if self._files.exists(path):
                last = deque(_decode(self._files.read(path)), maxlen=1)
                if last:
                    return last[0].n
        return 0


def _decode(data: bytes) -> Iterator[Entry]:
    lines: Sequence[bytes] = data.split(b"\n")
    for line in lines:
        if line:
            with contextlib.suppress(msgspec.DecodeError):
                yield msgspec.json.decode(line, type=Entry)


def _iso(time_ms: int) -> str:
    time = datetime.fromtimestamp(time_ms // 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{time}.{time_ms % 1_000:03d}Z"
