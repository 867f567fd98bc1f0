"""Making a part of a consume queue again from the commit log.

Every visible record says which offset of which queue it is. So a queue's damaged file can be made
again without knowing the ones around it: by a walk through the whole log, once.
"""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dueline.message import SYS_COMMIT, SYS_TRANSACTION_MASK
from dueline.store import properties
from dueline.store.consume_queue import UNIT_DTYPE, QueueUnits
from dueline.store.log import Log
from dueline.store.record_columns import RecordColumns
from dueline.store.scan import scan

__all__ = ["units_from_log"]

_log = logging.getLogger(__name__)


def units_from_log(log: Log, topic: str, queue_id: int, start: int, end: int) -> QueueUnits:
    """The units of a queue's offsets [start, end); size 0 where no sound record claims one."""
    _log.warning(
        "queue %d of topic %s: offsets %d to %d are damaged; reading them again from the log",
        *(queue_id, topic, start, end),
    )
    units = np.zeros(end - start, dtype=UNIT_DTYPE)
    found = scan(log, log.start, log.bases)
    for rows, batch in found.batches(log):
        columns = RecordColumns(batch)
        offsets = columns.headers["queue_offset"].astype(np.int64)
        chosen = (offsets >= start) & (offsets < end) & (columns.headers["queue_id"] == queue_id)
        kind = columns.headers["sys_flag"] & SYS_TRANSACTION_MASK
        chosen &= np.isin(kind, (0, SYS_COMMIT))  # others are in no queue
        chosen &= pc.equal(columns.topics, topic.encode()).to_numpy(zero_copy_only=False)
        at = np.flatnonzero(chosen)
        tags = properties.values(columns.texts.take(pa.array(at)), "TAGS")
        units["position"][offsets[at] - start] = found.positions[rows][at]
        units["size"][offsets[at] - start] = found.sizes[rows][at]
        units["tags_code"][offsets[at] - start] = properties.tags_codes(tags)
    return units
