"""Windows on their way through Spark: from the question what is due to the commit of its answer.

    next_window   waits for something to do; a corner
    plan          the corner's units, cut into slices, kept here under a plan's name
    read          one slice, by a task; ties the plan to the run and batch that the task works for
    commit        by run and batch: what was staged is appended, what is missing was dropped

The sink that commits does not know the corner, and a transform may leave no row at all, so the tie
is made by the tasks that read. A commit needs every slice of its plan to have been read in its own
batch: otherwise rows that nobody looked at would count as dropped.

A plan is a few arrays in memory. It goes with its commit, or when others came after it that are too
many or, with it, too large; a batch that still needs it then fails, and Spark starts it again. Any
thread may call.
"""

from __future__ import annotations

import threading
import uuid
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from time import monotonic
from typing import Final

import numpy as np

from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.flight.protocol import (
    Committed,
    CommitWindow,
    Corner,
    NextWindow,
    PlanWindow,
    ReadSlice,
    Slice,
    WindowEnd,
    WindowPlan,
)
from dueline.server.reconcile import reconcile
from dueline.server.staging import Staging
from dueline.store import CORNER_START, Store, Window
from dueline.store import Corner as StoreCorner
from dueline.store.schema import DELIVERY_SCHEMA

__all__ = ["Windows"]

PLAN_COUNT_MAX: Final = 32
PLANS_SIZE_BYTES_MAX: Final = 512 << 20
PLAN_OVERHEAD_BYTES: Final = 4_096
RUN_SIZE_MAX: Final = 256
SLICE_COUNT_MAX: Final = 10_000

UNIT_SIZE_BYTES: Final = 40
"""What a row of a plan takes, about: a unit of the timeline."""

CROWD_ROWS: Final = 10_000
"""Due within `ahead`: worth a batch before the first of them is urgent."""

FAR_ROWS: Final = 200_000
FAR_RATIO: Final = 12
FAR_MS_MAX: Final = 60_000
"""So many due within so many times `ahead`, at most a minute, are carried over earlier."""

FAR_BATCH_ROWS: Final = 50_000

REFILL_RATIO: Final = 1 / 3
REFILLS_PER_AHEAD: Final = 6
"""What is not urgent is carried over when a third of `ahead` is used up, but in few batches."""

GATE_ROWS_MAX: Final = 2_000_000
"""With so many at the gate, only what is urgent is carried over: they are in memory there."""

_PAUSE_S_MIN: Final = 0.025
_PAUSE_RATIO: Final = 20


@dataclass(slots=True, kw_only=True)
class _Plan:
    name: str
    window: Window
    cuts: list[int]
    batch: tuple[str, int] | None = None
    read: set[int] = field(default_factory=set)

    @property
    def size_bytes(self) -> int:
        """With a number for each cut, and one for each slice that was read."""
        return PLAN_OVERHEAD_BYTES + UNIT_SIZE_BYTES * len(self.window) + 160 * len(self.cuts)

    @property
    def slice_count(self) -> int:
        return max(len(self.cuts) - 1, 0)


class Windows:
    """The windows under way of one store."""

    def __init__(
        self, store: Store, staging: Staging, *, size_bytes_max: int = PLANS_SIZE_BYTES_MAX
    ) -> None:
        self._store = store
        self._staging = staging
        self._size_bytes_max: Final = size_bytes_max
        self._plans: OrderedDict[str, _Plan] = OrderedDict()
        self._lock = threading.Lock()
        self._is_stopped = threading.Event()
        self._is_filling = False
        self._corner_s = -inf

    def fill(self, ahead_ms: int, seconds_max: float) -> bool:
        """Before the pipeline stops: have all carried over that may be, now and from now on.

        Returns whether that was done in time.
        """
        self._is_filling = True
        end_s = monotonic() + seconds_max
        until_ms = self._store.clock.now_ms() + ahead_ms
        while (due_ms := self._store.next_due_ms()) is not None and due_ms <= until_ms:
            if monotonic() >= end_s or self._is_stopped.wait(_PAUSE_S_MIN):
                return False
        return True

    def stop(self) -> None:
        """Let waiting questions return at once."""
        self._is_stopped.set()

    def __len__(self) -> int:
        with self._lock:
            return len(self._plans)

    # What is due

    def next_window(self, request: NextWindow) -> WindowEnd:
        """Wait until there is something to do, or until the time is up.

        Looking costs time that grows with the timeline's open run, so the pauses grow with it: a
        question that waits takes no more than a twentieth of a core.
        """
        request.check()
        start_s = monotonic()
        while True:
            look_s = monotonic()
            end = self._next_corner(request)
            now_s = monotonic()
            left_s = start_s + request.wait_ms / 1000 - now_s
            if end is not None or left_s <= 0:
                break
            pause_s = min(max(_PAUSE_S_MIN, _PAUSE_RATIO * (now_s - look_s)), left_s)
            if self._is_stopped.wait(pause_s):
                break
        if end is None:
            return WindowEnd(end=None)
        return WindowEnd(end=Corner(due_ms=end.due_ms, seq=end.seq, end=end.end))

    def _next_corner(self, request: NextWindow) -> StoreCorner | None:
        """A batch is started when a message is due soon, and for a crowd as soon as it may be.

        What is neither urgent nor a crowd is collected for a while, so that `ahead` costs few
        batches. A crowd that takes longer than `ahead` to carry over may start earlier, in batches
        that are small enough to let what is due at once pass.
        """
        now_ms = self._store.clock.now_ms()
        due_ms = self._store.next_due_ms()
        if due_ms is None:
            return None
        if request.until_ms is not None:
            return self._corner(request.until_ms, request.row_count_max)
        until_ms = now_ms + request.ahead_ms
        is_urgent = due_ms <= now_ms + request.lead_ms
        if not is_urgent and self._store.gate_row_count > GATE_ROWS_MAX:
            return None
        far_ms = now_ms + _far_ms(request.ahead_ms)
        if self._store.pending_count() > FAR_ROWS and self._holds(far_ms, FAR_ROWS):
            return self._corner(far_ms, min(request.row_count_max, FAR_BATCH_ROWS))
        if due_ms > until_ms:
            return None
        if (
            is_urgent
            or self._is_filling
            or self._is_low(due_ms - now_ms, request.ahead_ms)
            or self._holds(until_ms, min(CROWD_ROWS, request.row_count_max))
        ):
            return self._corner(until_ms, request.row_count_max)
        return None

    def _is_low(self, left_ms: int, ahead_ms: int) -> bool:
        """Is enough of `ahead` used up for a batch, and the last one long enough ago?"""
        pause_s = ahead_ms / 1000 / REFILLS_PER_AHEAD
        is_used = left_ms <= (1 - REFILL_RATIO) * ahead_ms
        return is_used and monotonic() - self._corner_s >= pause_s

    def _holds(self, until_ms: int, row_count: int) -> bool:
        """Are more than so many messages due by then?"""
        end = self._store.next_corner(until_ms=until_ms, row_count_max=row_count)
        return end != CORNER_START and end.due_ms < until_ms

    def _corner(self, until_ms: int, row_count_max: int) -> StoreCorner | None:
        """None if nothing is due, or if the disk has no room for what is."""
        room_bytes = self._store.delivery_room_bytes()
        if not room_bytes:
            return None
        end = self._store.next_corner(
            until_ms=until_ms, row_count_max=row_count_max, size_bytes_max=room_bytes
        )
        self._corner_s = monotonic()
        return None if end == CORNER_START else end

    # Plans

    @property
    def _size_bytes(self) -> int:
        return sum(plan.size_bytes for plan in self._plans.values())

    def plan(self, request: PlanWindow) -> WindowPlan:
        """Cut what is not done inside a corner into slices.

        Raises:
            LimitExceeded: more rows than all plans together may have.
        """
        end = request.end
        row_count_max = self._size_bytes_max // (2 * UNIT_SIZE_BYTES)
        window = self._store.window(
            StoreCorner(due_ms=end.due_ms, seq=end.seq, end=end.end),
            row_count_max=row_count_max + 1,
        )
        count = len(window)
        if count > row_count_max:
            raise LimitExceeded(
                f"plan: expected at most {row_count_max} rows, found more; let the source take "
                "fewer at a time (option row_count_max)",
                limit=row_count_max,
                found=count,
            )
        wanted = -(-count // max(request.slice_row_count_min, 1))
        slice_count = max(1, min(wanted, request.slice_count_max, SLICE_COUNT_MAX))
        cuts = (
            [count * number // slice_count for number in range(slice_count + 1)] if count else [0]
        )
        plan = _Plan(name=uuid.uuid4().hex, window=window, cuts=cuts)
        with self._lock:
            self._plans[plan.name] = plan
            while len(self._plans) > PLAN_COUNT_MAX or (
                len(self._plans) > 1 and self._size_bytes > self._size_bytes_max
            ):
                self._plans.popitem(last=False)
        sizes = window.units.size
        slices = tuple(
            Slice(row_count=end - start, size_bytes=int(sizes[start:end].sum(dtype=np.int64)))
            for start, end in pairwise(cuts)
        )
        return WindowPlan(plan=plan.name, slices=slices)

    def read(self, request: ReadSlice) -> Window:
        """The units of one slice, for a task of one run and batch.

        Raises:
            NotFound: no such plan or slice.
            InvalidRequest: the plan belongs to another batch.
        """
        if len(request.run) > RUN_SIZE_MAX:
            raise InvalidRequest(
                f"run: expected at most {RUN_SIZE_MAX} characters, found {len(request.run)}"
            )
        batch = (request.run, request.batch)
        with self._lock:
            plan = self._plans.get(request.plan)
            if plan is None:
                raise NotFound(
                    f"plan {request.plan}: expected one of the last {PLAN_COUNT_MAX}, found none; "
                    "the broker was restarted, or the batch was committed",
                    plan=request.plan,
                )
            if not 0 <= request.index < plan.slice_count:
                raise NotFound(
                    f"plan {request.plan}: expected slices below {plan.slice_count}, found "
                    f"{request.index}"
                )
            if plan.batch not in (None, batch):
                raise InvalidRequest(
                    f"plan {request.plan}: expected to be read by {plan.batch}, found {batch}"
                )
            plan.batch = batch
            plan.read.add(request.index)
        rows = slice(plan.cuts[request.index], plan.cuts[request.index + 1])
        return Window(
            end=plan.window.end,
            units=plan.window.units.take(rows),
            topic_names=plan.window.topic_names,
        )

    # Commit

    def commit(self, request: CommitWindow) -> Committed:
        """Append what was staged for a batch, in one step.

        Raises:
            NotFound: the broker does not know the batch, or some of its tokens.
            InvalidRequest: what was staged does not fit what was read; nothing was changed.
        """
        plans = self._plans_of(request)
        if not plans and not request.tokens:
            return Committed(delivered=0, skipped=0, dropped=0, repeated=0)
        batches = self._staging.take(request.tokens, DELIVERY_SCHEMA)
        origins = np.concatenate([plan.window.units.seq for plan in plans])
        rows = reconcile(
            batches,
            origins=origins,
            due_ms=np.concatenate([plan.window.units.due_ms for plan in plans]),
            is_distinct=len(plans) == 1,
        )
        if len(rows.missing) and not request.is_transformed:
            raise InvalidRequest(
                f"expected all {len(origins)} rows of the window at the sink, found "
                f"{len(rows.missing)} missing, the first with origin {int(rows.missing[0])}; if a "
                "transform filters on purpose, give the sink the option missing=drop",
                missing_count=len(rows.missing),
            )
        result = self._store.deliver(rows.batches, dropped=rows.missing)
        with self._lock:
            for plan in plans:
                self._plans.pop(plan.name, None)
        return Committed(
            delivered=result.delivered_count,
            skipped=result.skipped_count,
            dropped=result.dropped_count,
            repeated=rows.repeated_count,
        )

    def _plans_of(self, request: CommitWindow) -> list[_Plan]:
        batch = (request.run, request.batch)
        with self._lock:
            plans = [plan for plan in self._plans.values() if plan.batch == batch]
        if not plans and request.tokens:
            raise NotFound(
                f"batch {request.batch} of run {request.run}: expected rows that were read here, "
                "found none; the broker was restarted since"
            )
        for plan in plans:
            if len(plan.read) != plan.slice_count:
                raise InvalidRequest(
                    f"batch {request.batch} of run {request.run}: expected all of its "
                    f"{plan.slice_count} slices to have been read, found {len(plan.read)}; a "
                    "transform must not skip partitions"
                )
        return plans


def _far_ms(ahead_ms: int) -> int:
    """How long before its due time a crowd may be carried over."""
    return max(ahead_ms, min(FAR_RATIO * ahead_ms, FAR_MS_MAX))
