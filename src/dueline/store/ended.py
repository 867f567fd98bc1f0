"""Delayed messages that ended without being delivered, as long as the delay log has their records.

Cancelled, dropped, moved and expired ones; with when, where the log tells: of what a transform has
dropped it does not. The log is walked twice, a segment at a time: for its control records, which
say who ended when, and for the messages. Needs no lock but for the states; a segment that is
deleted meanwhile is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from dueline.store.core import Core
from dueline.store.due import row_due_ms
from dueline.store.kernels import Int64s
from dueline.store.record_columns import RecordColumns
from dueline.store.scan import scan
from dueline.store.states import CANCELLED, DROPPED, EXPIRED, MOVED

__all__ = ["ENDED", "Ended", "ended"]

ENDED: Final = (CANCELLED, DROPPED, MOVED, EXPIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """Rows of messages that ended; `ended_ms` is 0 where it is not known."""

    number: Int64s
    accepted_ms: Int64s
    born_ms: Int64s
    due_ms: Int64s
    ended_ms: Int64s
    states: Int64s
    texts: pa.BinaryArray


def ended(core: Core) -> Iterator[Ended]:
    """Every one that the delay log still has, in order of acceptance."""
    numbers, times_ms = _times(core)
    for columns, positions in _batches(core):
        with core.lock:
            states = core.timeline.states.of(columns.number).astype(np.int64)
        rows = np.flatnonzero(columns.is_delayed & np.isin(states, ENDED))
        if not len(rows):
            continue
        own = columns.number[rows]
        at = np.minimum(np.searchsorted(numbers, own), max(len(numbers) - 1, 0))
        known = numbers[at] == own if len(numbers) else np.zeros(len(own), dtype=np.bool_)
        texts = columns.texts.take(pa.array(rows))
        stored_ms = columns.headers["store_ms"][rows].astype(np.int64)
        yield Ended(
            number=own,
            accepted_ms=stored_ms,
            born_ms=columns.headers["born_ms"][rows].astype(np.int64),
            due_ms=row_due_ms(texts, positions[rows], stored_ms, core.levels),
            ended_ms=np.where(known, times_ms[at] if len(numbers) else 0, 0),
            states=states[rows],
            texts=texts,
        )


def _batches(core: Core) -> Iterator[tuple[RecordColumns, Int64s]]:
    end = core.delay.end
    for base in list(core.delay.bases):
        found = scan(core.delay, base, [base])
        for rows, batch in found.batches(core.delay):
            positions = found.positions[rows]
            inside = np.flatnonzero((positions < end) & (found.sizes[rows] > 0))
            if len(inside):
                kept = batch.take(pa.array(inside)) if len(inside) < len(batch) else batch
                yield RecordColumns(kept), positions[inside]


def _times(core: Core) -> tuple[Int64s, Int64s]:
    """The numbers that control records list, sorted, and when each was written."""
    numbers, times_ms = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for columns, _ in _batches(core):
        for entry, store_ms in columns.timed_controls():
            numbers.append(entry.numbers)
            times_ms.append(np.full(len(entry.numbers), store_ms, dtype=np.int64))
    together, when = np.concatenate(numbers), np.concatenate(times_ms)
    order = np.argsort(together, kind="stable")
    return together[order], when[order]
