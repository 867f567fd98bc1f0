"""Carrying delayed messages over into the commit log, once each, and letting them be seen when due.

A delivery is a batch of DELIVERY rows (complete records) and a list of dropped origins. Rows whose
origin is no longer pending are skipped, so the same delivery may come any number of times and from
several pipelines. The rest is appended as one group that is void without its end: after a crash
all of it is there or nothing. A record's store time is when it becomes visible: its due time, or
now if that has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dueline.errors import InvalidRequest
from dueline.message import QUEUE_ID_MAX
from dueline.store import kernels, stamp
from dueline.store.append import Append
from dueline.store.core import Core
from dueline.store.gate import GateRows
from dueline.store.kernels import Int64s
from dueline.store.record import NO_OFFSET
from dueline.store.schema import DELIVERY_SCHEMA
from dueline.store.states import DELIVERED, DROPPED, PENDING
from dueline.store.targets import Targets, queue_id_faults

__all__ = ["DeliverResult", "Deliverer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverResult:
    """The outcome of a delivery: rows appended, rows skipped (done before), origins dropped.

    `held_count`: rows of topics that are paused by now; they stay pending. `expired`: numbers that
    would be visible too late.
    """

    delivered_count: int
    skipped_count: int
    dropped_count: int
    late_ms_max: int = 0
    held_count: int = 0
    expired: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))


class Deliverer:
    """The delivering side of a store."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def deliver(
        self, batches: Sequence[pa.RecordBatch], *, dropped: Int64s | None = None
    ) -> DeliverResult:
        """Append a window's records; returns when they are durable.

        Raises:
            InvalidRequest: rows that are not DELIVERY rows, or origins that were never accepted.
        """
        core = self._core
        core.check_open()
        rows = _Rows(batches)
        dropped = np.empty(0, dtype=np.int64) if dropped is None else np.unique(dropped)
        self._sync_accepted()
        with core.commit_lock:
            core.check_open()
            with core.lock:
                self._check_origins(rows.origin, dropped)
                fresh = core.timeline.states.of(rows.origin) == PENDING
                fresh &= _is_first(rows.origin)
                dropped = dropped[core.timeline.states.of(dropped) == PENDING]
                dropped = dropped[~np.isin(dropped, rows.origin[fresh])]
            skipped = int(len(fresh) - np.count_nonzero(fresh))
            if skipped:
                rows = rows.filter(fresh)
            rows, held, expired = self._allowed(rows)
            if not len(rows) and not len(dropped):
                return DeliverResult(
                    delivered_count=0,
                    skipped_count=skipped,
                    dropped_count=0,
                    held_count=held,
                    expired=expired,
                )
            try:
                late_ms = self._append(rows, dropped)
            except BaseException:
                if rows.slots_ms is not None:
                    core.road.undo()
                raise
        return DeliverResult(
            delivered_count=len(rows),
            skipped_count=skipped,
            dropped_count=len(dropped),
            late_ms_max=late_ms,
            held_count=held,
            expired=expired,
        )

    def _allowed(self, rows: _Rows) -> tuple[_Rows, int, Int64s]:
        """The rows that the rules of their topics let pass, how many are held, who has expired."""
        core = self._core
        nobody = np.empty(0, dtype=np.int64)
        if not core.road.rules or not len(rows):
            return rows, 0, nobody
        with core.lock:
            stamped = core.road.stamp(rows.origin, rows.due_ms, core.clock.now_ms())
        expired = stamped.is_expired & ~stamped.is_refused
        gone = rows.origin[expired]
        kept = ~(stamped.is_refused | expired)
        if not bool(kept.all()):
            rows = rows.filter(kept)
        rows.slots_ms = stamped.slots_ms[kept]
        return rows, int(np.count_nonzero(stamped.is_refused)), gone

    def _sync_accepted(self) -> None:
        """What is delivered must not outlive what it came from, whatever a power cut leaves: a
        message that was moved would be there twice. A store that is sync has done it before."""
        core = self._core
        if core.is_sync:
            return
        with core.delay_lock, core.closing_on_failure():
            core.delay.sync()

    def _check_origins(self, *groups: Int64s) -> None:
        end = self._core.timeline.end
        for origins in groups:
            if len(origins) and (int(origins.min()) < 0 or int(origins.max()) >= end):
                raise InvalidRequest(
                    f"origin: expected numbers below {end}, "
                    f"found {int(origins.min())} to {int(origins.max())}",
                    field="origin",
                )

    def _append(self, rows: _Rows, dropped: Int64s) -> int:
        """Write the group; the caller holds the commit lock. Returns the greatest lateness."""
        core = self._core
        core.room.check_delivery()
        with Append(core, core.commit, rows.sizes, numbers=dropped) as append:
            positions = append.positions
            with core.lock:
                now_ms = append.stamp()
                core.open_gate(now_ms)
                queues = rows.queue_numbers(core)
                visible_ms = self._visible_ms(rows, queues, now_ms)
                if rows.slots_ms is not None:
                    visible_ms = np.maximum(visible_ms, rows.slots_ms)
                if len(rows):
                    append.shut_gate(int(visible_ms.min()))
            stamp.restamp(
                rows.data,
                rows.starts,
                positions=positions,
                store_ms=visible_ms,
                queue_offsets=np.full(len(rows), NO_OFFSET, dtype=np.int64),
                store_host=core.store_host,
            )
            append.write(rows.data)
            with core.indexing():
                self._index(rows, dropped, queues, visible_ms, positions)
        with core.lock:
            core.open_gate(core.clock.now_ms())
        return int((now_ms - rows.due_ms).max(initial=0))

    def _index(
        self, rows: _Rows, dropped: Int64s, queues: Int64s, visible_ms: Int64s, positions: Int64s
    ) -> None:
        """Mark origins as done and let the records wait at the gate."""
        core = self._core
        core.timeline.mark(rows.origin, DELIVERED)
        core.timeline.mark(dropped, DROPPED)
        core.gate.add(
            GateRows(
                visible_ms=visible_ms,
                due_ms=rows.due_ms,
                position=positions,
                size=rows.sizes.astype(np.int32),
                tags_code=rows.tags_code,
                queue=queues,
                origin=rows.origin,
            )
        )
        hashes, owners = rows.key_hashes()
        core.commit_keys.add(hashes, positions[owners], position_end=core.commit.end)

    def _visible_ms(self, rows: _Rows, queues: Int64s, now_ms: int) -> Int64s:
        """The store times of rows in due order: when each becomes visible.

        That is the due time, or now for what is late. But where another one of the queue is late as
        well, or something is held back, it is the due time of late ones too, so that each finds its
        place in due order; for those that are too late to be waited for, when that began. But never
        before what the queue has shown.
        """
        core = self._core
        due_ms = rows.due_ms
        visible_ms = np.maximum(due_ms, now_ms)
        first_ms = now_ms - core.options.order_wait_ms
        late = np.flatnonzero((due_ms < now_ms) & (due_ms > first_ms))
        if not len(late):
            return visible_ms
        held = core.gate.held_queues
        others = core.timeline.earliest(after_ms=first_ms, until_ms=now_ms, without=rows.origin)
        for number in np.unique(queues[late]).tolist():
            if number not in held and core.queues.by_number(number).name not in others:
                continue
            own = np.flatnonzero((queues == number) & (due_ms < now_ms))
            shown_ms = core.last_shown_ms(number)
            wanted = np.maximum(due_ms[own], first_ms)
            wanted[0] = max(int(wanted[0]), now_ms if shown_ms is None else shown_ms)
            visible_ms[own] = np.maximum.accumulate(wanted)
        return visible_ms

    def open_gate(self) -> int:
        """Let everything be seen that is due by now; returns how many records."""
        core = self._core
        with core.lock:
            core.check_open()
            return core.open_gate(core.clock.now_ms())


def _is_first(origins: Int64s) -> npt.NDArray[np.bool_]:
    """Which rows are the first with their origin: a transform may have made several of one."""
    first = np.ones(len(origins), dtype=np.bool_)
    if bool((np.diff(np.sort(origins)) == 0).any()):
        _, rows = np.unique(origins, return_index=True)
        first[:] = False
        first[rows] = True
    return first


class _Rows:
    """DELIVERY rows in order of (due, origin), with their bytes in one writable array."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            if not batch.schema.equals(DELIVERY_SCHEMA):
                raise InvalidRequest(
                    f"delivery: expected columns {DELIVERY_SCHEMA.names}, "
                    f"found {batch.schema.names} or other types",
                    field="schema",
                )
        table = pa.Table.from_batches(list(batches), schema=DELIVERY_SCHEMA)
        due_ms, origin = table.column("due_ms").to_numpy(), table.column("origin").to_numpy()
        steps = np.diff(due_ms)
        if bool(((steps < 0) | ((steps == 0) & (np.diff(origin) < 0))).any()):
            table = table.take(pa.array(np.lexsort((origin, due_ms))))
        self._table = table
        self.due_ms: Int64s = table.column("due_ms").to_numpy()
        self.origin: Int64s = table.column("origin").to_numpy()
        self.tags_code: Int64s = table.column("tags_code").to_numpy()
        parts = [kernels.buffer_of(chunk) for chunk in table.column("record").chunks]
        chunks = [data[offsets[0] : offsets[-1]] for data, offsets in parts]
        self.data = np.concatenate([*chunks, np.empty(0, dtype=np.uint8)])
        self.sizes = np.concatenate([np.empty(0, np.int64), *(np.diff(each) for _, each in parts)])
        self.starts = kernels.offsets_of(self.sizes)[:-1]
        self.slots_ms: Int64s | None = None  # not visible before

    def __len__(self) -> int:
        return len(self.due_ms)

    def filter(self, keep: Any) -> _Rows:
        return _Rows(self._table.filter(pa.array(keep)).to_batches())

    def queue_numbers(self, core: Core) -> Int64s:
        """The store's number of each row's queue.

        Raises:
            InvalidRequest: a transform has made up a topic or queue that cannot be one.
        """
        targets = Targets.of(self._table.column("topic"))
        targets.check()
        names = targets.names
        queue_ids = self._table.column("queue_id").to_numpy().astype(np.int64)
        if bool(queue_id_faults(queue_ids).any()):
            raise InvalidRequest(
                f"queue id: expected 0 to {QUEUE_ID_MAX}, "
                f"found {queue_ids.min()} to {queue_ids.max()}",
                field="queue_id",
            )
        combined = targets.indices.astype(np.int64) << 32 | queue_ids
        distinct, inverse = np.unique(combined, return_inverse=True)
        numbers = np.array(
            [
                core.queues.number_of(names[key >> 32], key & 0xFFFFFFFF)
                for key in distinct.tolist()
            ],
            dtype=np.int64,
        )
        result: Int64s = numbers[inverse] if len(numbers) else np.empty(0, dtype=np.int64)
        return result

    def key_hashes(self) -> tuple[Any, Int64s]:
        """All key hashes and the row each belongs to."""
        lists = self._table.column("key_hashes").combine_chunks()
        if isinstance(lists, pa.ChunkedArray):
            lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else lists.chunk(0)
        owners = np.repeat(np.arange(len(lists), dtype=np.int64), kernels.lengths_of(lists))
        return lists.flatten().to_numpy(), owners
