"""The usual rows of a window, copied by a kernel: what `restore.deliveries` does, quicker.

A row that the kernel does not know, or that may not go where it says, is left to the caller.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline.store import kernels, restore
from dueline.store.schema import DELIVERY_SCHEMA
from dueline.store.targets import Targets, queue_id_faults

__all__ = ["COPY_KERNELS", "VALUE_WIDTH", "copied"]

COPY_KERNELS: Final = "dueline.store.copy_kernels"

ID, ID_END, KEYS, KEYS_END, TAG, TAG_END, VALUE_WIDTH = range(7)
"""Where the values of a record are that are indexed: columns of what `measure` finds."""

Mask = npt.NDArray[np.bool_]


def copied(
    copy_kernels: Any, window: pa.RecordBatch, routed: pa.RecordBatch
) -> tuple[pa.RecordBatch | None, Mask]:
    """DELIVERY rows of the usual rows, None without any; and which rows are others.

    Args:
        routed: ROUTED rows without changes, in the order of the window.
    """
    targets = Targets.of(routed.column("topic"))
    queue_ids = pc.fill_null(routed.column("queue_id"), -1).to_numpy().astype(np.int64)
    is_astray = targets.bad() | queue_id_faults(queue_ids) | restore.forbidden(window)
    names = [name.encode() for name in targets.names]
    name_sizes = np.array([*map(len, names), 0], dtype=np.int64)
    topic_sizes = np.where(is_astray, -1, name_sizes[targets.indices])
    data, offsets = kernels.buffer_of(window.column("record"))
    sizes, key_counts = np.empty((2, len(topic_sizes)), dtype=np.int64)
    values = np.empty((len(sizes), VALUE_WIDTH), dtype=np.int64)
    copy_kernels.measure(kernels.read_only(data), offsets, topic_sizes, sizes, key_counts, values)
    rest = sizes < 0
    if bool(rest.any()):
        chosen = pa.array(~rest)
        window, routed = window.filter(chosen), routed.filter(chosen)
        found = offsets[:-1][~rest]
        data, offsets = kernels.buffer_of(window.column("record"))
        sizes, key_counts, queue_ids = sizes[~rest], key_counts[~rest], queue_ids[~rest]
        values = values[~rest] + (offsets[:-1] - found)[:, None]
    if not len(sizes):
        return None, rest
    topic = targets.indices.astype(np.int64)[~rest]
    out_offsets, key_offsets = kernels.offsets_of(sizes), kernels.offsets_of(key_counts)
    out = np.empty(int(out_offsets[-1]), dtype=np.uint8)
    tags_code = np.empty(len(sizes), dtype=np.int64)
    hashes = np.empty(int(key_offsets[-1]), dtype=np.uint32)
    is_done = copy_kernels.copy(
        kernels.read_only(data),
        offsets,
        kernels.read_only(np.frombuffer(b"".join(names), dtype=np.uint8)),
        kernels.offsets_of(name_sizes[:-1]),
        topic,
        queue_ids,
        np.array(window.column("origin").to_numpy()),
        np.array(window.column("due_ms").to_numpy()),
        values,
        out,
        out_offsets,
        key_offsets,
        tags_code,
        hashes,
    )
    assert is_done, "what was measured fits"
    columns = [
        *(window.column("origin"), window.column("due_ms")),
        *(routed.column("topic"), routed.column("queue_id")),
        pa.array(tags_code),
        pa.ListArray.from_arrays(pa.array(key_offsets.astype(np.int32)), pa.array(hashes)),
        pa.Array.from_buffers(
            pa.binary(),
            len(sizes),
            [None, pa.py_buffer(out_offsets.astype(np.int32)), pa.py_buffer(out)],
        ),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=DELIVERY_SCHEMA), rest
