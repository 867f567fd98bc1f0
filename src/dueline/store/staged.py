"""Deliveries that another process made, looked at before they may reach the commit log.

The sink's tasks make whole records (`dueline.store.restore`) and say beside each what is indexed of
it. The log then takes the bytes as they are, so what every reader relies on is checked here: that
the bytes are a sound record, of the topic, queue, due time and origin that the row says, and that a
message may go there at all.

The size of a body is not asked: a dead letter has a whole record as its body. Tags and keys are the
transform's to choose; of their hashes only the number is bounded, and a restart makes them anew
from the records. Pure functions on Arrow batches.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dueline.errors import InvalidRequest
from dueline.message import QUEUE_ID_MAX, SYS_COMMIT, SYS_TRANSACTION_MASK
from dueline.store import kernels, restore
from dueline.store.record import MARK_CHECK_MASK
from dueline.store.targets import Targets, queue_id_faults

__all__ = ["check_deliveries"]

_MARK_BITS: Final = np.uint64(~MARK_CHECK_MASK & (1 << 64) - 1)

Mask = npt.NDArray[np.bool_]


def check_deliveries(batch: pa.RecordBatch) -> None:
    """Refuse DELIVERY rows (sound as Arrow data) that are not what `restore` would have made.

    Raises:
        InvalidRequest: names the first bad row, and what is wrong with it.
    """
    if not batch.num_rows:
        return
    _refuse(restore.damaged(batch), "record: expected one that passes every check, found another")
    targets = Targets.of(batch.column("topic"))
    targets.check()
    queue_ids = batch.column("queue_id").to_numpy()
    _refuse(
        queue_id_faults(queue_ids), f"queue id: expected 0 to {QUEUE_ID_MAX}, found another number"
    )
    fields = restore.Fields(batch.column("record"))
    headers = fields.headers
    is_other = ~_has_topics(fields, targets)
    is_other |= headers["queue_id"] != queue_ids
    is_other |= headers["store_ms"] != batch.column("due_ms").to_numpy()
    marks = restore.marks_of(batch.column("origin").to_numpy())
    is_other |= headers["mark"].astype(np.uint64) & _MARK_BITS != marks
    _refuse(is_other, "record: expected the topic, queue, due time and origin of its row")
    kinds = headers["sys_flag"] & SYS_TRANSACTION_MASK
    _refuse((kinds != 0) & (kinds != SYS_COMMIT), "record: expected no half message, found one")
    _refuse(
        kernels.lengths_of(batch.column("key_hashes")) > fields.ends - fields.starts,
        "key_hashes: expected no more than a record has room for keys, found more",
    )


def _has_topics(fields: restore.Fields, targets: Targets) -> Mask:
    """Whether each record has its row's topic; the topics are few, and the records sound."""
    result = np.zeros(len(fields.starts), dtype=np.bool_)
    order = np.argsort(targets.indices, kind="stable")
    bounds = np.searchsorted(targets.indices[order], np.arange(len(targets.names) + 1))
    for number, name in enumerate(targets.names):
        rows = order[bounds[number] : bounds[number + 1]]
        rows = rows[fields.topic_size[rows] == len(name)]
        found = kernels.windows(fields.data, len(name))[fields.topic_at[rows]]
        wanted = np.frombuffer(name.encode(), dtype=np.uint8)
        result[rows] = (found == wanted).all(axis=1)
    return result


def _refuse(is_bad: npt.NDArray[Any], reason: str) -> None:
    if bool(is_bad.any()):
        row = int(np.argmax(is_bad))
        raise InvalidRequest(f"row {row}: {reason}", row=row)
