"""From ROUTED rows to deliveries: the broker reads the records that the rows name.

The rows were held against their plan (`reconcile`), so each names a unit of its window. What the
unit points to in the delay log goes through `dueline.store.carrying` in parts of bounded size.

`pass_on` does the same for a window that nobody was asked about: each message goes where it was
sent to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from dueline.broker.pipeline.views import row_parts, rows_of
from dueline.store import Store, Window
from dueline.store.carrying import carried
from dueline.store.delivery import DeliverResult
from dueline.store.kernels import Int64s
from dueline.store.schema import ROUTE_NAMES, routed_schema

__all__ = ["carry_over", "pass_on", "rows_to_pass_on"]


def carry_over(
    store: Store, window: Window, batches: Sequence[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """DELIVERY rows of ROUTED rows whose origins are all in the window."""
    if not batches:
        return
    table = pa.Table.from_batches(batches)
    found = rows_of(window, _places(window.units.seq, table.column("origin").to_numpy()))
    for part in row_parts(found.units.size):
        routed = table.slice(part.start, part.stop - part.start).combine_chunks()
        yield from carried(store.read_window(rows_of(found, part)), routed.to_batches()[0])


def pass_on(store: Store, window: Window) -> DeliverResult:
    """Carry a small window over without a pipeline; what is done by now is skipped.

    Raises:
        Unavailable: there is no room; nothing was carried over.
    """
    return store.deliver(rows_to_pass_on(store, window))


def rows_to_pass_on(store: Store, window: Window) -> list[pa.RecordBatch]:
    """DELIVERY rows of all messages of a small window, each to where it was sent to."""
    rows = store.read_window(window)
    routed = pa.RecordBatch.from_arrays(
        [rows.column(name) for name in ROUTE_NAMES], schema=routed_schema()
    )
    return list(carried(rows, routed))


def _places(seqs: Int64s, origins: Int64s) -> slice | Int64s:
    """At which of the numbers each origin is; without a transform they come as they are."""
    if np.array_equal(seqs, origins):
        return slice(None)
    order = np.argsort(seqs, kind="stable")
    places: Int64s = order[np.searchsorted(seqs[order], origins)]
    return places
