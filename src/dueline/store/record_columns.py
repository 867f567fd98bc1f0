"""The fields of many sound records as arrays: what recovery and repair need of a log.

Cheaper than `restore`, which makes everything that a user's transform may want to see.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline.message import CONTROL_TOPIC
from dueline.store import control, kernels, properties
from dueline.store import record as records
from dueline.store.control import Control
from dueline.store.kernels import Int64s
from dueline.store.record import MARK_DELAYED, MARK_NUMBER_MASK, MARK_PRESENT

__all__ = ["RecordColumns"]

_CONTROL: bytes = CONTROL_TOPIC.encode()


class RecordColumns:
    """Fields of a batch of sound records, one row each.

    Attributes:
        headers: the fixed fields (`kernels.HEADER_DTYPE`).
        topics, texts: topic and properties as bytes.
        is_delayed: where `number` is an acceptance number.
    """

    def __init__(self, batch: pa.BinaryArray) -> None:
        self._batch = batch
        data, offsets = kernels.buffer_of(batch)
        starts, ends = offsets[:-1], offsets[1:]
        self.headers = kernels.headers(data, starts)
        body_at = kernels.body_starts(self.headers, starts)
        topic_at = body_at + self.headers["body_size"].astype(np.int64) + 1
        topic_size = data[topic_at - 1].astype(np.int64)
        self.topics = kernels.slices(data, topic_at, topic_size)
        text_at = topic_at + topic_size + 2
        self.texts = kernels.slices(data, text_at, ends - text_at)
        marks = self.headers["mark"].astype(np.uint64)
        flags = np.uint64(MARK_PRESENT | MARK_DELAYED)
        self.is_delayed = marks & flags == flags
        self.number: Int64s = (marks & np.uint64(MARK_NUMBER_MASK)).astype(np.int64)

    def raw(self, row: int) -> bytes:
        """The whole record of a row."""
        data: bytes = self._batch[row].as_py()
        return data

    def controls(self) -> list[Control]:
        return [entry for entry, _ in self.timed_controls()]

    def timed_controls(self) -> list[tuple[Control, int]]:
        """Control records, each with the time at which it was written."""
        rows = np.flatnonzero(pc.equal(self.topics, _CONTROL).to_numpy(zero_copy_only=False))
        found = [records.decode(self._batch[row].as_py()) for row in rows.tolist()]
        return [(control.decode(record), record.store_ms) for record in found]

    def key_hashes(self) -> tuple[npt.NDArray[np.uint32], Int64s]:
        real = np.flatnonzero(pc.not_equal(self.topics, _CONTROL).to_numpy(zero_copy_only=False))
        texts = self.texts.take(pa.array(real))
        lists = properties.key_hashes(
            properties.values(texts, "UNIQ_KEY"), properties.values(texts, "KEYS")
        )
        return lists.flatten().to_numpy(), np.repeat(real, kernels.lengths_of(lists))
