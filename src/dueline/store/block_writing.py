"""Putting rows of messages into the logs: what `Putter.put_all` does, with compiled code.

    put    rows of several senders with one write and one fsync per log

The rules are those of `dueline.store.writing`: a message is answered when it is on disk, what is
written together is one group, and what can be refused is refused before the first byte. Rows that
come here were looked at (`dueline.wire.turn`): none of them is refused for what it says.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from dueline import compiled
from dueline.errors import BrokerError, Unavailable
from dueline.message import LEVEL_TOPIC, TIMER_TOPIC
from dueline.message_rows import ROW_LEVEL, MessageRows
from dueline.store import control
from dueline.store.append import Append
from dueline.store.block import BLOCK_KERNELS, HEAD_QUEUE_ID, Block
from dueline.store.consume_queue import UNIT_SIZE
from dueline.store.core import Core
from dueline.store.kernels import Int64s
from dueline.store.log import Log
from dueline.store.record import MARK_DELAYED, MARK_GROUP
from dueline.store.run import Units

__all__ = ["BlockPutter", "RowsResult", "total_counts"]

ROWS_AS_LIST_MAX: Final = 32
"""So few are placed with lists, which is quicker than arrays."""


class RowsResult(NamedTuple):
    """The result for rows: each has its place, unless there is an error for its kind."""

    positions: Int64s
    offsets: Int64s
    dues: Int64s
    """0: not delayed."""
    is_delayed: npt.NDArray[np.bool_]
    store_host: bytes
    ordinary_error: BrokerError | None
    delayed_error: BrokerError | None
    delayed_count: int
    """Of the rows, however they fared."""

    def part(self, start: int, end: int) -> RowsResult:
        """Of rows [start, end)."""
        return self._replace(
            positions=self.positions[start:end],
            offsets=self.offsets[start:end],
            dues=self.dues[start:end],
            is_delayed=self.is_delayed[start:end],
            delayed_count=int(np.count_nonzero(self.is_delayed[start:end])),
        )

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many were accepted, how many of these are delayed, how many were refused."""
        delayed = self.delayed_count
        ordinary = len(self.is_delayed) - delayed
        taken = 0 if self.ordinary_error else ordinary
        waiting = 0 if self.delayed_error else delayed
        return taken + waiting, waiting, ordinary + delayed - taken - waiting


def total_counts(results: Sequence[RowsResult]) -> tuple[int, int, int]:
    """The counts of all results together."""
    accepted, delayed, refused = map(sum, zip(*[each.counts for each in results], strict=True))
    return accepted, delayed, refused


class BlockPutter:
    """The writing side of a store, for rows."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def put(self, parts: Sequence[MessageRows]) -> list[RowsResult]:
        """Accept rows together.

        Raises:
            StoreClosed: nothing can be written; none of the messages was.
            Unavailable: the kernels are not there, or not any more.
        """
        core = self._core
        core.check_open()
        kernels = compiled.ready(BLOCK_KERNELS)
        if kernels is None:
            raise Unavailable("compiled functions were switched off meanwhile; send again")
        now_ms, host = core.clock.now_ms(), core.store_host
        blocks = [Block.plan(kernels, part, now_ms=now_ms, store_host=host) for part in parts]
        has_ordinary = any(len(block.ordinary) for block in blocks)
        has_delayed = any(len(block.delayed) for block in blocks)
        ordinary_error = delayed_error = None
        with (
            core.commit_lock if has_ordinary else contextlib.nullcontext(),
            core.delay_lock if has_delayed else contextlib.nullcontext(),
        ):
            core.check_open()
            is_written = False
            try:
                core.room.check_send()
                if has_ordinary and has_delayed:
                    core.reserve(core.delay, _end_of(core.delay, blocks))
                if has_ordinary:
                    self._put_ordinary(kernels, blocks)
                is_written = True
                if has_delayed:
                    self._put_delayed(kernels, blocks)
            except BrokerError as error:
                delayed_error = error
                ordinary_error = None if is_written else error
        return [
            RowsResult(
                *(block.positions, block.offsets, block.dues, block.kinds > 0, host),
                *(ordinary_error, delayed_error, len(block.delayed)),
            )
            for block in blocks
        ]

    def _put_ordinary(self, kernels: Any, blocks: list[Block]) -> None:
        """Append to the commit log; the caller holds its lock."""
        core = self._core
        chosen = [block.ordinary for block in blocks]
        sizes = _sizes(blocks, chosen)
        is_group = len(sizes) > 1
        numbers = control.NO_NUMBERS if is_group else None
        with Append(core, core.commit, _few(sizes), numbers=numbers) as append:
            positions = np.asarray(append.positions, dtype=np.int64)
            with core.lock:
                store_ms = append.stamp()
                names, queues = self._queues(blocks, chosen)
                core.open_gate_before(names, store_ms)
                ends = np.array([core.queues.by_number(name).end for name in names], dtype=np.int64)
            firsts = ends.copy()
            offsets = np.empty(len(sizes), dtype=np.int64)
            kernels.queue_offsets(queues, ends, offsets)
            mark = MARK_GROUP if is_group else 0
            data, keys = _records(
                *(kernels, blocks, chosen, positions, offsets),
                *(core.store_host, store_ms, mark, 0, append.end_size),
            )
            append.write_with_room(data)
            with core.indexing():
                self._index(kernels, blocks, chosen, positions, queues, names, ends - firsts)
                core.commit_keys.add(*keys, position_end=core.commit.end)
                core.notify(names)
                core.note_shown(store_ms)

    def _queues(self, blocks: list[Block], chosen: list[Int64s]) -> tuple[list[int], Int64s]:
        """The queues that get rows, by their numbers, and which of them each row goes to."""
        places: dict[int, int] = {}
        found = []
        for block, rows in zip(blocks, chosen, strict=True):
            of_head = np.empty(len(block.heads), dtype=np.int64)
            for head in block.ordinary_heads:
                said = block.messages.heads[head]
                number = self._core.queues.number_of(said.topic, said.queue_id)
                of_head[head] = places.setdefault(number, len(places))
            found.append(of_head[block.head_of(rows)])
        return list(places), _joined(found)

    def _index(  # noqa: PLR0913 - columns of one append, private
        self,
        kernels: Any,
        blocks: list[Block],
        chosen: list[Int64s],
        positions: Int64s,
        queues: Int64s,
        names: list[int],
        counts: Int64s,
    ) -> None:
        """Let the consume queues point to records that are durable."""
        cuts = [0, *accumulate(counts.tolist())]
        starts = np.array(cuts[:-1], dtype=np.int64)
        units = np.empty(UNIT_SIZE * len(positions), dtype=np.uint8)
        at = 0
        for block, rows in zip(blocks, chosen, strict=True):
            end = at + len(rows)
            kernels.write_units(
                *(block.messages.rows, rows, block.sizes, positions[at:end], queues[at:end]),
                *(starts, units),
            )
            at = end
        data = units.tobytes()
        for name, (first, end) in zip(names, pairwise(cuts), strict=True):
            self._core.queues.append_to(name, data[UNIT_SIZE * first : UNIT_SIZE * end])

    def _put_delayed(self, kernels: Any, blocks: list[Block]) -> None:
        """Append to the delay log; the caller holds its lock."""
        core = self._core
        chosen = [block.delayed for block in blocks]
        sizes = _sizes(blocks, chosen)
        count = len(sizes)
        numbers, group = (control.NO_NUMBERS, MARK_GROUP) if count > 1 else (None, 0)
        with Append(core, core.delay, _few(sizes), numbers=numbers) as append:
            positions = np.asarray(append.positions, dtype=np.int64)
            store_ms = append.stamp()
            first_seq = core.next_seq
            offsets = self._delay_offsets(kernels, blocks, chosen)
            mark = MARK_DELAYED | group | first_seq
            data, keys = _records(
                *(kernels, blocks, chosen, positions, offsets),
                *(core.store_host, store_ms, mark, 1, append.end_size),
            )
            append.write_with_room(data)
            with core.indexing():
                core.next_seq += count
                core.note_segments(positions, first_seq)
                units = self._units(blocks, chosen, positions, sizes, store_ms, first_seq)
                core.timeline.add(units, end=first_seq + count, position_end=core.delay.end)
                core.delay_keys.add(*keys, position_end=core.delay.end)
                core.note_accepted(store_ms)

    def _delay_offsets(self, kernels: Any, blocks: list[Block], chosen: list[Int64s]) -> Int64s:
        """Offsets within the queues of the level topic, and of the timer's (level 0)."""
        queues = self._core.delay_queues
        levels = _joined(
            [
                block.messages.rows[rows, ROW_LEVEL]
                for block, rows in zip(blocks, chosen, strict=True)
            ]
        )
        names = {
            level: f"{LEVEL_TOPIC}/{level - 1}" if level else f"{TIMER_TOPIC}/0"
            for level in set(levels.tolist())
        }
        ends = np.zeros(max(names) + 1, dtype=np.int64)
        for level, name in names.items():
            ends[level] = queues.get(name, 0)
        offsets = np.empty(len(levels), dtype=np.int64)
        kernels.queue_offsets(levels, ends, offsets)
        for level, name in names.items():
            queues[name] = int(ends[level])
        return offsets

    def _units(  # noqa: PLR0913 - columns of one append, private
        self,
        blocks: list[Block],
        chosen: list[Int64s],
        positions: Int64s,
        sizes: Int64s,
        store_ms: int,
        first_seq: int,
    ) -> Units:
        core = self._core
        delays_ms = np.array([0, *core.rules.levels.delays_ms], dtype=np.int64)
        topics, queue_ids, dues = [], [], []
        for block, rows in zip(blocks, chosen, strict=True):
            heads = block.head_of(rows)
            numbers = np.zeros(len(block.heads), dtype=np.int32)
            for head in block.delayed_heads:
                numbers[head] = core.timeline.topics.number_of(block.messages.heads[head].topic)
            topics.append(numbers[heads])
            queue_ids.append(block.heads[heads, HEAD_QUEUE_ID].astype(np.int32))
            levels = block.messages.rows[rows, ROW_LEVEL]
            own = np.where(levels > 0, store_ms + delays_ms[levels], block.dues[rows])
            block.dues[rows] = own
            dues.append(own)
        return Units(
            due_ms=_joined(dues),
            seq=np.arange(first_seq, first_seq + len(positions), dtype=np.int64),
            position=positions,
            size=sizes.astype(np.int32),
            topic=np.concatenate(topics),
            queue_id=np.concatenate(queue_ids),
        )


def _records(  # noqa: PLR0913 - columns of one append, private
    kernels: Any,
    blocks: list[Block],
    chosen: list[Int64s],
    positions: Int64s,
    offsets: Int64s,
    store_host: bytes,
    store_ms: int,
    mark: int,
    mark_step: int,
    room: int,
) -> tuple[npt.NDArray[np.uint8], tuple[npt.NDArray[np.uint32], Int64s]]:
    """The records' bytes with so much room behind them, and their hashes with the position of
    each."""
    cuts = [0]
    for block, rows in zip(blocks, chosen, strict=True):
        cuts.append(cuts[-1] + int(np.add.reduce(block.sizes_of(rows))))
    data = np.empty(cuts[-1] + room, dtype=np.uint8)
    own_host = np.frombuffer(store_host, dtype=np.uint8)
    hashes, owners = [], []
    at = 0
    for block, rows, (start, stop) in zip(blocks, chosen, pairwise(cuts), strict=True):
        if not len(rows):
            continue
        end = at + len(rows)
        block.positions[rows] = positions[at:end]
        block.offsets[rows] = offsets[at:end]
        found = np.empty(block.hash_count, dtype=np.uint32)
        places = np.empty(block.hash_count, dtype=np.int64)
        messages = block.messages
        count = kernels.write_records(
            *(messages.data, messages.texts, messages.rows, block.heads, block.topics),
            *(block.hosts, block.host_sizes, own_host, rows, block.kinds, block.dues, block.sizes),
            *(block.packings,),
            *(positions[at:end], offsets[at:end], store_ms, mark + at * mark_step, mark_step),
            *(data[start:stop], found, places),
        )
        if count < 0:
            raise AssertionError("records have another size than was planned")
        hashes.append(found[:count])
        owners.append(places[:count])
        at = end
    return data, (_joined(hashes), _joined(owners))


def _end_of(log: Log, blocks: list[Block]) -> int:
    """Where the delay log would end with these messages."""
    sizes = _sizes(blocks, [block.delayed for block in blocks])
    if len(sizes) > 1:
        sizes = np.append(sizes, control.encoded_size(0))
    _, end = log.place(sizes)
    return end


def _sizes(blocks: list[Block], chosen: list[Int64s]) -> Int64s:
    sizes: Int64s = _joined(
        [block.sizes_of(rows) for block, rows in zip(blocks, chosen, strict=True)]
    )
    return sizes


def _few(sizes: Int64s) -> Any:
    return sizes.tolist() if len(sizes) <= ROWS_AS_LIST_MAX else sizes


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
