"""What the delivery pipeline and bulk jobs ask of a broker, assembled.

windows    is there something to carry over, and up to which corner
plans      a window in slices, read by tasks, committed in one step
staging    rows that tasks have sent and nobody has committed yet
views      what waits and what consumers can read, as rows
status     how the pipeline is doing
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa

from dueline.broker.access import ANONYMOUS, Caller
from dueline.broker.delayed import Delayed
from dueline.broker.pipeline.plans import Plans
from dueline.broker.pipeline.staging import Staging
from dueline.broker.pipeline.status import PipelineStatus
from dueline.broker.pipeline.views import Views
from dueline.broker.pipeline.windows import Windows
from dueline.clock import Clock
from dueline.store import PutManyResult, Store
from dueline.store.core import DELAY_LOG
from dueline.store.schema import SCHEDULE_SCHEMA

__all__ = ["Pipeline", "PipelineFigures"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFigures:
    """`next_due_ms` and `gate_next_ms` are None if nothing waits there."""

    accepted: int
    pending: int
    at_gate: int
    next_due_ms: int | None
    gate_next_ms: int | None
    staged_bytes: int
    plan_count: int


class Pipeline:
    """One store, as Spark sees it; any thread may call."""

    def __init__(
        self,
        store: Store,
        delayed: Delayed | None = None,
        *,
        status: PipelineStatus | None = None,
        staging: Staging | None = None,
    ) -> None:
        """Without `delayed`, rows may go to any topic and make none."""
        self._store = store
        self.delayed: Final = Delayed(store) if delayed is None else delayed
        self.clock: Final[Clock] = store.clock
        self.status: Final = PipelineStatus(store.clock) if status is None else status
        self.staging: Final = Staging(store.clock) if staging is None else staging
        self.windows: Final = Windows(store)
        self.plans: Final = Plans(store, self.staging)
        self.views: Final = Views(store)

    # Limits that jobs can check for themselves

    @property
    def body_size_bytes_max(self) -> int:
        return self._store.options.body_size_max

    @property
    def delay_ms_max(self) -> int:
        return self._store.options.delay_max_ms

    # Where tasks on this machine find the records

    @property
    def delay_log(self) -> Path:
        return self._store.path / DELAY_LOG

    @property
    def delay_segment_size_bytes(self) -> int:
        return self._store.options.delay_segment_size_bytes

    # Verbs

    def put_rows(
        self,
        tokens: tuple[str, ...],
        caller: Caller = ANONYMOUS,
        check: Callable[[Iterable[str]], None] = lambda topics: None,
    ) -> PutManyResult:
        """Accept the messages staged under these tokens, all of them or none.

        Args:
            caller: whose quotas count.
            check: raises if one of these topics may not be written to.
        """
        batches = self.staging.take(tokens, SCHEDULE_SCHEMA)
        table = pa.Table.from_batches(batches, schema=SCHEDULE_SCHEMA)
        return self.delayed.put_rows(table, caller, check)

    def figures(self) -> PipelineFigures:
        stats = self._store.stats()
        return PipelineFigures(
            accepted=stats["accepted_delayed"],
            pending=stats["pending"],
            at_gate=stats["at_gate"],
            next_due_ms=self._store.next_due_ms(),
            gate_next_ms=stats["gate_next_ms"],
            staged_bytes=self.staging.size_bytes,
            plan_count=len(self.plans),
        )
