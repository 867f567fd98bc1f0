"""Putting tables of messages into the delay log: all of a table or nothing.

    put_many          an Arrow table
    put_encoded       rows that were encoded elsewhere
    replace_encoded   the same, in place of earlier messages

A table is looked at in parts, several at a time. What can be refused is refused then, before a
place in the log is taken. Its records are made while it is written: two threads encode the next
parts, and the one that holds the log's lock writes those that are ready, in their order. So of all
the records only a few parts are in memory.

    encoders     part 1   part 2   part 3 …
    writer                part 1   part 2   part 3 …   the group's end, fsync, index

The first part is encoded, with memory for all, before the first byte is written. From then on
whatever goes wrong closes the store, as everywhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dueline.errors import BrokerError
from dueline.store import bulk, control
from dueline.store.append import Append
from dueline.store.bulk_rows import Finished, Places
from dueline.store.core import Core
from dueline.store.kernels import Int64s
from dueline.store.run import Units
from dueline.store.states import MOVED

__all__ = ["Admit", "PutManyResult", "TablePutter"]

ENCODER_COUNT: Final = 2
"""Threads that encode a large table: more would take the processor from what is due."""

Admit = Callable[[Mapping[str, int]], None]
"""May rows go to these topics? Given the highest queue id of each; raises if not."""

_Part = tuple[bulk.Prepared, Places]
_Keys = tuple[npt.NDArray[np.uint32], Int64s]
"""Hashes, and the position that each belongs to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutManyResult:
    """An accepted table: its rows have the acceptance numbers [first_seq, first_seq + count)."""

    first_seq: int
    count: int
    due_ms: Int64s
    parts: Sequence[bulk.Prepared]

    @property
    def unique_ids(self) -> pa.Array:
        """Of all rows; those of the usual ones are made when somebody asks."""
        return pa.concat_arrays([part.unique_ids for part in self.parts])


class TablePutter:
    """The writing side of a store, for tables."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def put_many(self, table: pa.Table, admit: Admit | None = None) -> PutManyResult:
        """Accept a table of messages (see `dueline.store.bulk`), all of them or none.

        Raises:
            InvalidRequest, LimitExceeded: names the first bad row; nothing was changed.
        """
        self._core.check_open()
        now_ms = self._core.clock.now_ms()
        try:
            parts = self._prepare_parts(table, now_ms)
        except BrokerError:
            self._prepare(table, now_ms)  # refuses it too, and counts rows from the table's first
            raise
        if admit is not None:
            admit(_last_queue_ids(parts))
        return self._put(parts)

    def _prepare_parts(self, table: pa.Table, now_ms: int) -> list[bulk.Prepared]:
        """Look at a table in parts, several at a time: nearly all of it needs no interpreter."""
        part_rows = self._core.options.thresholds.part_rows
        tables = [
            table.slice(start, part_rows) for start in range(0, max(table.num_rows, 1), part_rows)
        ]
        if len(tables) == 1:
            return [self._prepare(table, now_ms)]
        with ThreadPoolExecutor(ENCODER_COUNT, thread_name_prefix="encoder") as encoders:
            return list(encoders.map(lambda part: self._prepare(part, now_ms), tables))

    def _prepare(self, table: pa.Table, now_ms: int) -> bulk.Prepared:
        core = self._core
        return bulk.prepare(
            table, now_ms=now_ms, rules=core.rules, ids=core.ids, store_host=core.store_host
        )

    def put_encoded(self, rows: bulk.Prepared) -> PutManyResult:
        """Append rows as one group."""
        return self._put([rows])

    def replace_encoded(
        self, rows: bulk.Bulk, replaced: Int64s, forget: Callable[[Int64s, int], None]
    ) -> PutManyResult:
        """Append encoded rows in place of earlier numbers, which are forgotten with it."""
        return self._put([rows], replaced, lambda: forget(replaced, MOVED))

    def _put(
        self,
        parts: Sequence[bulk.Prepared],
        replaced: Int64s = control.NO_NUMBERS,
        forget: Callable[[], None] = lambda: None,
    ) -> PutManyResult:
        core = self._core
        count = sum(len(part) for part in parts)
        if not count:
            empty = np.empty(0, dtype=np.int64)
            return PutManyResult(first_seq=core.next_seq, count=0, due_ms=empty, parts=parts)
        with core.delay_lock:
            core.check_open()
            core.room.check_send()
            sizes = np.concatenate([part.sizes for part in parts])
            core.check_size(max(part.size_bytes_max for part in parts), is_delayed=True)
            with Append(core, core.delay, sizes, numbers=replaced) as append:
                positions = append.positions
                store_ms = append.stamp()
                first_seq = core.next_seq
                offsets, ends = self._offsets(parts)
                keys: list[_Keys] = []
                placed = _placed(parts, positions, offsets, store_ms, first_seq)
                with closing(_finished(placed, keys)) as data:
                    first = next(data)
                    core.delay_queues.update(ends)
                    if len(parts) == 1:
                        append.write(first)
                    else:
                        append.write_parts(chain([first], data))
                with core.indexing():
                    core.next_seq += count
                    core.note_segments(positions, first_seq)
                    units = self._units(parts, positions, sizes, store_ms, first_seq)
                    core.timeline.add(units, end=first_seq + count, position_end=core.delay.end)
                    core.delay_keys.add(*_joined(keys), position_end=core.delay.end)
                    core.note_accepted(store_ms)
                    forget()
        return PutManyResult(first_seq=first_seq, count=count, due_ms=units.due_ms, parts=parts)

    def _offsets(self, parts: Sequence[bulk.Prepared]) -> tuple[list[Int64s], dict[str, int]]:
        """Queue offsets within SCHEDULE_TOPIC_XXXX/level - 1, or the timer topic's one queue; and
        the next ones of these queues."""
        ends: dict[str, int] = {}
        found = []
        for part in parts:
            offsets = np.empty(len(part), dtype=np.int64)
            for level in np.unique(part.level).tolist():
                chosen = part.level == level
                name = f"SCHEDULE_TOPIC_XXXX/{level - 1}" if level else "rmq_sys_wheel_timer/0"
                first = ends.get(name, self._core.delay_queues.get(name, 0))
                count = int(np.count_nonzero(chosen))
                offsets[chosen] = np.arange(first, first + count)
                ends[name] = first + count
            found.append(offsets)
        return found, ends

    def _units(
        self,
        parts: Sequence[bulk.Prepared],
        positions: Int64s,
        sizes: Int64s,
        store_ms: int,
        first_seq: int,
    ) -> Units:
        delays_ms = np.array([0, *self._core.rules.levels.delays_ms], dtype=np.int64)
        topics = self._core.timeline.topics
        numbers = [
            np.array([topics.number_of(name) for name in part.names], dtype=np.int32)[part.topic]
            for part in parts
        ]
        # A level counts from the time at which the message was stored.
        due_ms = [
            np.where(part.level > 0, store_ms + delays_ms[part.level], part.due_ms)
            for part in parts
        ]
        return Units(
            due_ms=np.concatenate(due_ms),
            seq=np.arange(first_seq, first_seq + len(positions), dtype=np.int64),
            position=positions,
            size=sizes.astype(np.int32),
            topic=np.concatenate(numbers),
            queue_id=np.concatenate([part.queue_id for part in parts]),
        )


def _placed(
    parts: Sequence[bulk.Prepared],
    positions: Int64s,
    offsets: Sequence[Int64s],
    store_ms: int,
    first_seq: int,
) -> list[_Part]:
    """Each part with the places of its rows."""
    found = []
    start = 0
    for part, own in zip(parts, offsets, strict=True):
        places = Places(
            positions=positions[start : start + len(part)],
            queue_offsets=own,
            store_ms=store_ms,
            first_seq=first_seq + start,
        )
        found.append((part, places))
        start += len(part)
    return found


def _finished(
    parts: Sequence[_Part], keys: list[_Keys]
) -> Generator[npt.NDArray[np.uint8], None, None]:
    """The records of all parts, in their order; each is valid until the next one is asked for.

    Args:
        keys: gets those of each part.
    """
    size = max(part.room_bytes for part, _ in parts)
    rooms = deque(np.empty(size, dtype=np.uint8) for _ in range(min(ENCODER_COUNT + 1, len(parts))))

    def ready(finished: Finished) -> npt.NDArray[np.uint8]:
        keys.append((finished.hashes, finished.owners))
        return finished.data

    if len(parts) == 1:
        ((part, places),) = parts
        yield ready(part.finish(places, rooms[0]))
        return
    with ThreadPoolExecutor(ENCODER_COUNT, thread_name_prefix="encoder") as encoders:
        under_way: deque[tuple[Future[Finished], npt.NDArray[np.uint8]]] = deque()
        for part, places in parts:
            if not rooms:
                future, room = under_way.popleft()
                yield ready(future.result())
                rooms.append(room)
            room = rooms.popleft()
            under_way.append((encoders.submit(part.finish, places, room), room))
        for future, _ in under_way:
            yield ready(future.result())


def _last_queue_ids(parts: Sequence[bulk.Prepared]) -> dict[str, int]:
    """The highest queue id of each topic."""
    last: dict[str, int] = {}
    for part in parts:
        highest = np.zeros(len(part.names), dtype=np.int32)
        np.maximum.at(highest, part.topic, part.queue_id)
        for name, queue_id in zip(part.names, highest.tolist(), strict=True):
            last[name] = max(queue_id, last.get(name, 0))
    return last


def _joined(keys: Sequence[_Keys]) -> _Keys:
    hashes, owners = zip(*keys, strict=True)
    return np.concatenate(hashes), np.concatenate(owners)
