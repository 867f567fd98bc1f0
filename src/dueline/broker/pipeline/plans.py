"""Windows on their way through Spark: from a plan to the commit of what was made of it.

    plan     a corner's units, cut into slices, kept here under a plan's name
    read     one slice, by a task; ties the plan to the run and batch that the task works for
    commit   by run and batch: what was staged is copied over, what is missing was dropped

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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import numpy as np

from dueline.broker.pipeline.carry_over import carry_over
from dueline.broker.pipeline.reconcile import reconcile
from dueline.broker.pipeline.staging import Staging
from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.store import Corner, Store, Window
from dueline.store.run import Units

__all__ = ["Committed", "Plan", "Plans", "SliceSize"]

PLAN_COUNT_MAX: Final = 32
PLANS_SIZE_BYTES_MAX: Final = 512 << 20
PLAN_OVERHEAD_BYTES: Final = 4_096
RUN_SIZE_MAX: Final = 256
SLICE_COUNT_MAX: Final = 10_000

UNIT_SIZE_BYTES: Final = 40
"""What a row of a plan takes, about: a unit of the timeline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSize:
    """How much work a slice is."""

    row_count: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan lives in the broker's memory until its batch is committed or it is forgotten."""

    name: str
    slices: tuple[SliceSize, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """`skipped` were done before, `repeated` came more than once and were appended once."""

    delivered: int
    skipped: int
    dropped: int
    repeated: int


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


class Plans:
    """The plans under way of one store."""

    def __init__(
        self, store: Store, staging: Staging, *, size_bytes_max: int = PLANS_SIZE_BYTES_MAX
    ) -> None:
        self._store = store
        self._staging = staging
        self._size_bytes_max: Final = size_bytes_max
        self._plans: OrderedDict[str, _Plan] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._plans)

    @property
    def _size_bytes(self) -> int:
        return sum(plan.size_bytes for plan in self._plans.values())

    def plan(self, end: Corner, *, slice_count_max: int, slice_row_count_min: int) -> Plan:
        """Cut what is not done inside a corner into slices of about equal work.

        Raises:
            LimitExceeded: more rows than all plans together may have.
        """
        row_count_max = self._size_bytes_max // (2 * UNIT_SIZE_BYTES)
        window = self._store.window(end, row_count_max=row_count_max + 1)
        count = len(window)
        if count > row_count_max:
            raise LimitExceeded(
                f"plan: expected at most {row_count_max} rows, found more; let the source take "
                "fewer at a time (option row_count_max)",
                limit=row_count_max,
                found=count,
            )
        wanted = -(-count // max(slice_row_count_min, 1))
        slice_count = max(1, min(wanted, slice_count_max, SLICE_COUNT_MAX))
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
            SliceSize(row_count=last - first, size_bytes=int(sizes[first:last].sum(dtype=np.int64)))
            for first, last in pairwise(cuts)
        )
        return Plan(name=plan.name, slices=slices)

    def read(self, name: str, index: int, *, run: str, batch: int) -> Window:
        """The units of one slice, for a task of one run and batch.

        Raises:
            NotFound: no such plan or slice.
            InvalidRequest: the plan belongs to another batch.
        """
        if len(run) > RUN_SIZE_MAX:
            raise InvalidRequest(
                f"run: expected at most {RUN_SIZE_MAX} characters, found {len(run)}"
            )
        reader = (run, batch)
        with self._lock:
            plan = self._plans.get(name)
            if plan is None:
                raise NotFound(
                    f"plan {name}: expected one of the last {PLAN_COUNT_MAX}, found none; "
                    "the broker was restarted, or the batch was committed",
                    plan=name,
                )
            if not 0 <= index < plan.slice_count:
                raise NotFound(
                    f"plan {name}: expected slices below {plan.slice_count}, found {index}"
                )
            if plan.batch not in (None, reader):
                raise InvalidRequest(
                    f"plan {name}: expected to be read by {plan.batch}, found {reader}"
                )
            plan.batch = reader
            plan.read.add(index)
        rows = slice(plan.cuts[index], plan.cuts[index + 1])
        return Window(
            end=plan.window.end,
            units=plan.window.units.take(rows),
            topic_names=plan.window.topic_names,
        )

    # Commit

    def commit(
        self, *, run: str, batch: int, tokens: Sequence[str], is_transformed: bool
    ) -> Committed:
        """Append the messages that were staged for a batch, in one step.

        What the batch read and did not stage was dropped by the transform and is marked so; without
        a transform it is a mistake, and nothing is committed.

        Raises:
            NotFound: the broker does not know the batch, or some of its tokens.
            InvalidRequest: what was staged does not fit what was read; nothing was changed.
        """
        plans = self._plans_of(run, batch, has_rows=bool(tokens))
        if not plans and not tokens:
            return Committed(delivered=0, skipped=0, dropped=0, repeated=0)
        batches = self._staging.take_routed(tokens)
        units = Units.concat([plan.window.units for plan in plans])
        rows = reconcile(
            batches, origins=units.seq, due_ms=units.due_ms, is_distinct=len(plans) == 1
        )
        if len(rows.missing) and not is_transformed:
            raise InvalidRequest(
                f"expected all {len(units)} rows of the window at the sink, found "
                f"{len(rows.missing)} missing, the first with origin {int(rows.missing[0])}; if a "
                "transform filters on purpose, give the sink the option missing=drop",
                missing_count=len(rows.missing),
            )
        window = replace(plans[0].window, units=units)
        deliveries = list(carry_over(self._store, window, rows.batches))
        result = self._store.deliver(deliveries, dropped=rows.missing)
        with self._lock:
            for plan in plans:
                self._plans.pop(plan.name, None)
        return Committed(
            delivered=result.delivered_count,
            skipped=result.skipped_count,
            dropped=result.dropped_count,
            repeated=rows.repeated_count,
        )

    def _plans_of(self, run: str, batch: int, *, has_rows: bool) -> list[_Plan]:
        reader = (run, batch)
        with self._lock:
            plans = [plan for plan in self._plans.values() if plan.batch == reader]
        if not plans and has_rows:
            raise NotFound(
                f"batch {batch} of run {run}: expected rows that were read here, "
                "found none; the broker was restarted since"
            )
        for plan in plans:
            if len(plan.read) != plan.slice_count:
                raise InvalidRequest(
                    f"batch {batch} of run {run}: expected all of its "
                    f"{plan.slice_count} slices to have been read, found {len(plan.read)}; a "
                    "transform must not skip partitions"
                )
        return plans
