"""What a batch was given against what it gives back: pure functions on arrays.

A batch read some units (origin and due time) and staged some rows. Rows may come in any order and
more than once; they must all be among what was read, with the due times that were promised; what
does not come is missing. Without a transform the rows come as they were read, and then one
comparison is enough.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dueline.errors import InvalidRequest
from dueline.store.kernels import Int64s

__all__ = ["Reconciled", "reconcile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """`batches` have every origin once; `missing` are origins in ascending order."""

    batches: list[pa.RecordBatch]
    missing: Int64s
    repeated_count: int


def reconcile(
    batches: Sequence[pa.RecordBatch], *, origins: Int64s, due_ms: Int64s, is_distinct: bool
) -> Reconciled:
    """Hold staged rows (with columns `origin` and `due_ms`) against the units that were read.

    Args:
        origins: int64, in any order.
        due_ms: int64, of the same length: when each is due.
        is_distinct: no origin is there twice, as in a single window.

    Raises:
        InvalidRequest: a row that was not read, or whose due time was changed.
    """
    found, found_due_ms = _column(batches, "origin"), _column(batches, "due_ms")
    if is_distinct and np.array_equal(found, origins) and np.array_equal(found_due_ms, due_ms):
        return Reconciled(batches=list(batches), missing=origins[:0], repeated_count=0)
    read, first = np.unique(origins, return_index=True)
    _check(found, found_due_ms, read, due_ms[first])
    distinct, first = np.unique(found, return_index=True)
    repeated_count = len(found) - len(distinct)
    kept = list(batches)
    if repeated_count:
        kept = pa.Table.from_batches(batches).take(pa.array(np.sort(first))).to_batches()
    missing = read[~np.isin(read, distinct, assume_unique=True)]
    return Reconciled(batches=kept, missing=missing, repeated_count=repeated_count)


def _check(found: Int64s, found_due_ms: Int64s, read: Int64s, due_ms: Int64s) -> None:
    """`read` is sorted, `due_ms` belongs to it."""
    at = np.searchsorted(read, found)
    known = at < len(read)
    known[known] = read[at[known]] == found[known]
    if not known.all():
        raise InvalidRequest(
            f"origin {int(found[~known][0])}: expected one that this batch has read, found "
            "another; a transform must keep the column origin as it is",
            field="origin",
        )
    moved = np.flatnonzero(found_due_ms != due_ms[at])
    if len(moved):
        row = int(moved[0])
        raise InvalidRequest(
            f"origin {int(found[row])}: expected due_ms {int(due_ms[at[row]])}, found "
            f"{int(found_due_ms[row])}; a transform must keep the column due_ms as it is",
            field="due_ms",
        )


def _column(batches: Sequence[pa.RecordBatch], name: str) -> Int64s:
    if not batches:
        return np.empty(0, dtype=np.int64)
    result: Int64s = np.concatenate([batch.column(name).to_numpy() for batch in batches])
    return result
