"""A store that counts what passes and says when something new waits at the gate.

Whatever reaches the store, through whichever protocol, is counted here once: messages accepted,
delivered, dropped, cancelled and rescheduled since the start, and how late each became visible.
It is the store that a broker opens; tests and tools can do with the plain one.

The counters are figures for people. They start at zero with the process; the store's own states are
what survives.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dueline.broker.lateness import Int64s, Lateness
from dueline.clock import Clock
from dueline.errors import BrokerError
from dueline.message import Message
from dueline.store import (
    Changed,
    DeliverResult,
    Files,
    Name,
    PutManyResult,
    PutResult,
    Store,
    StoreOptions,
)
from dueline.store.bulk import Bulk
from dueline.store.writing import Admit

__all__ = ["Counters", "MeteredStore"]

OnVisible = Callable[[list[tuple[str, int]]], None]


class Counters:
    """Numbers since the start. Any thread may add."""

    def __init__(self) -> None:
        self.sent = 0
        self.sent_delayed = 0
        self.refused = 0
        self.delivered = 0
        self.dropped = 0
        self.skipped = 0
        self.cancelled = 0
        self.rescheduled = 0
        self._lock = threading.Lock()

    def add(self, **counts: int) -> None:
        with self._lock:
            for name, count in counts.items():
                setattr(self, name, getattr(self, name) + count)


class MeteredStore(Store):
    """A store with counters; opened like the plain one."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.counters = Counters()
        self.lateness = Lateness()
        self.on_gate: Callable[[], None] | None = None
        self._listener: OnVisible | None = None
        super().on_visible(self._visible)

    @classmethod
    def open(
        cls,
        path: Path | str,
        options: StoreOptions | None = None,
        *,
        clock: Clock | None = None,
        files: Files | None = None,
    ) -> MeteredStore:
        store = super().open(path, options, clock=clock, files=files)
        assert isinstance(store, MeteredStore)
        return store

    # Visible

    def on_visible(self, callback: OnVisible | None) -> None:
        self._listener = callback

    def _visible(self, queues: list[tuple[str, int]]) -> None:
        self.lateness.seen(self.clock.now_ms(), self.gate_next_ms)
        if self._listener is not None:
            self._listener(queues)

    # Accepted

    def put(self, message: Message) -> PutResult:
        result = super().put(message)
        self._count_put([result])
        return result

    def put_all(self, messages: Sequence[Message]) -> list[PutResult | BrokerError]:
        results = super().put_all(messages)
        self._count_put(results)
        return results

    def put_many(self, table: pa.Table, *, admit: Admit | None = None) -> PutManyResult:
        result = super().put_many(table, admit=admit)
        self.counters.add(sent=result.count, sent_delayed=result.count)
        return result

    def put_encoded(self, rows: Bulk) -> PutManyResult:
        result = super().put_encoded(rows)
        self.counters.add(sent=result.count, sent_delayed=result.count)
        return result

    def _count_put(self, results: Iterable[PutResult | BrokerError]) -> None:
        sent = sent_delayed = refused = 0
        for result in results:
            if isinstance(result, PutResult):
                sent += 1
                sent_delayed += result.due_ms is not None
            else:
                refused += 1
        self.counters.add(sent=sent, sent_delayed=sent_delayed, refused=refused)

    # Delivered

    def deliver(
        self, batches: Sequence[pa.RecordBatch], *, dropped: Int64s | None = None
    ) -> DeliverResult:
        result = super().deliver(batches, dropped=dropped)
        self.counters.add(
            delivered=result.delivered_count,
            dropped=result.dropped_count,
            skipped=result.skipped_count,
        )
        if result.delivered_count and not result.skipped_count:
            # Which rows of a partly repeated delivery were new is not known here.
            due_ms = [batch.column("due_ms").to_numpy() for batch in batches]
            self.lateness.carried(np.concatenate(due_ms))
            self.lateness.seen(self.clock.now_ms(), self.gate_next_ms)
        if result.delivered_count and self.on_gate is not None:
            self.on_gate()
        return result

    # Changed

    def cancel_named(self, names: Sequence[Name]) -> list[Changed]:
        changed = super().cancel_named(names)
        self.counters.add(cancelled=sum(each.count for each in changed))
        return changed

    def cancel_seqs(self, seqs: Int64s) -> Int64s:
        cancelled = super().cancel_seqs(seqs)
        self.counters.add(cancelled=len(cancelled))
        return cancelled

    def reschedule_named(self, requests: Sequence[tuple[Name, int]]) -> list[Changed]:
        changed = super().reschedule_named(requests)
        self.counters.add(rescheduled=sum(each.count for each in changed))
        return changed
