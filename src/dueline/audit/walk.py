"""Reading a whole log, segment by segment, in arrays: a way of its own, not recovery's.

Recovery follows sizes from record to record. Here every place with a record's magic is looked at,
and a record counts if all of its checks match; so a wrong size hides nothing. What lies between
two sound records must be a gap of a compacted segment, what lies behind the last one a blank or
zeros; everything else is damage. Memory is bounded by the block size, whatever the log's length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dueline.errors import CorruptRecord
from dueline.store import kernels, packed
from dueline.store import record as records
from dueline.store.files import File, Files
from dueline.store.kernels import Int64s
from dueline.store.layout import POSITION_AT
from dueline.store.log import LogReader
from dueline.store.record import BLANK_MAGIC, GAP_MAGIC, MAGIC_LONG_TOPIC, RECORD_MAGICS
from dueline.store.record_columns import RecordColumns
from dueline.store.restore import damaged
from dueline.store.unpacking import expanded

__all__ = ["Batch", "Damaged", "LogWalk"]

BLOCK_BYTES: Final = 16 << 20
_LARGE_BYTES: Final = 8 << 20
_FIRST_BYTES: Final = sorted({magic.to_bytes(4, "big")[0] for magic in RECORD_MAGICS})
_WORDS: Final = np.dtype([("size", ">u4"), ("magic", ">u4")])

Bytes8 = npt.NDArray[np.uint8]
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Damaged:
    """Bytes [start, end) that should be records and are not. `is_tail`: nothing sound follows."""

    start: int
    end: int
    reason: str
    is_tail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sound records in log order."""

    positions: Int64s
    sizes: Int64s
    columns: RecordColumns


@dataclass(slots=True)
class LogWalk:
    """One walk through a log from `start` on; `end` and the rest are known when it is over."""

    files: Files
    folder: Path
    bases: list[int]
    segment_size_bytes: int
    start: int = 0
    progress: Progress = lambda size: None
    end: int = 0
    record_count: int = 0
    damage: list[Damaged] = field(default_factory=list)
    vanished: list[int] = field(default_factory=list)
    compacted: set[int] = field(default_factory=set)

    def batches(self) -> Iterator[Batch]:
        reader = LogReader(self.files, self.folder, self.segment_size_bytes)
        self.end = max(self.start, self.bases[0] if self.bases else 0)
        for base in self.bases:
            if base + self.segment_size_bytes <= self.start:
                continue
            try:
                file = self.files.open(reader.path_of(base))
            except FileNotFoundError:
                self.vanished.append(base)  # deleted since it was listed
                continue
            try:
                if file.size_bytes:
                    yield from self._segment(file, base)
            finally:
                file.close()
        self._settle_tail()

    def _segment(self, file: File, base: int) -> Iterator[Batch]:
        data = file.view()
        data_end = file.data_end(0)
        at = max(self.start - base, 0)
        self.progress(at)
        looked = at
        while looked < data_end:
            stop = min(looked + BLOCK_BYTES, data_end)
            starts, sizes, batch = _sound_records(data, base, looked, stop, data_end)
            keep = _not_inside(starts, sizes, at)
            if not bool(keep.all()):
                starts, sizes = starts[keep], sizes[keep]
                batch = batch.filter(pa.array(keep))
            if len(starts):
                self._between(data, base, at, starts, sizes)
                at = int(starts[-1] + sizes[-1])
                self.end = base + at
                self.record_count += len(starts)
                yield Batch(positions=starts + base, sizes=sizes, columns=RecordColumns(batch))
            self.progress(stop - looked)
            looked = stop
            file.forget_pages()  # mapped pages count as this process's memory
        self._behind(data, base, at, data_end)
        self.progress(len(data) - data_end)

    def _between(self, data: Bytes8, base: int, at: int, starts: Int64s, sizes: Int64s) -> None:
        """Explain what lies before each record that does not follow the one before it."""
        ends = np.concatenate([[at], starts[:-1] + sizes[:-1]])
        rows = np.flatnonzero(starts != ends)
        if not len(rows):
            return
        heads = _heads(data, ends[rows])
        is_gap = (heads["magic"] == GAP_MAGIC) & (heads["size"] == starts[rows] - ends[rows])
        if bool(is_gap.any()):
            self.compacted.add(base)
        for row in rows[~is_gap].tolist():
            start, end = int(ends[row]), int(starts[row])
            reason = _reason(data, base, start, end)
            self.damage.append(Damaged(start=base + start, end=base + end, reason=reason))

    def _behind(self, data: Bytes8, base: int, at: int, data_end: int) -> None:
        """Explain what lies behind a segment's last record."""
        size = len(data)
        if at + 8 <= size:
            head = _heads(data, np.array([at]))[0]
            if int(head["magic"]) == GAP_MAGIC and 8 <= int(head["size"]) <= size - at:
                self.compacted.add(base)
                at += int(head["size"])
                head = _heads(data, np.array([min(at, size - 8)]))[0]
            if int(head["magic"]) == BLANK_MAGIC and int(head["size"]) == size - at:
                self.end = base + size
                return
        elif base + size in self.bases:
            self.end = base + size
            return
        rest = data[at:data_end]
        written = np.flatnonzero(rest)
        if len(written):
            end = at + int(written[-1]) + 1
            reason = _reason(data, base, at, end)
            damage = Damaged(start=base + at, end=base + end, reason=reason, is_tail=True)
            self.damage.append(damage)
        elif base + size in self.bases:
            damage = Damaged(
                start=base + at, end=base + size, reason="zeros before a segment's end"
            )
            self.damage.append(damage)

    def _settle_tail(self) -> None:
        """Only what stands behind the last sound record of all is a tail."""
        self.damage = [
            Damaged(start=one.start, end=one.end, reason=one.reason, is_tail=one.start >= self.end)
            for one in self.damage
        ]


def _sound_records(
    data: Bytes8, base: int, start: int, stop: int, data_end: int
) -> tuple[Int64s, Int64s, pa.BinaryArray]:
    """Start, size and bytes of every sound record that begins in [start, stop)."""
    starts = _candidates(data, base, start, stop, data_end)
    sizes = _heads(data, starts)["size"].astype(np.int64)
    is_large = sizes > _LARGE_BYTES
    if bool(is_large.any()):
        view = data.data
        large = [
            records.is_sound(view[at : at + size], base + at)
            for at, size in zip(starts[is_large].tolist(), sizes[is_large].tolist(), strict=True)
        ]
        keep = ~is_large
        keep[is_large] = large
        starts, sizes = starts[keep], sizes[keep]
    sound = np.zeros(len(starts), dtype=np.bool_)
    parts = []
    for rows in _parts(sizes):
        batch = expanded(_gather(data, starts[rows], sizes[rows]), starts[rows] + base)
        bad = damaged(pa.record_batch([batch], names=["record"]))
        for row in np.flatnonzero(bad).tolist():
            at = int(starts[rows][row])
            bad[row] = not _is_foreign(data, base, at, int(sizes[rows][row]))
        sound[rows] = ~bad
        parts.append(batch.filter(pa.array(~bad)) if bool(bad.any()) else batch)
    joined = pa.concat_arrays(parts) if parts else pa.array([], pa.binary())
    return starts[sound], sizes[sound], joined


def _candidates(data: Bytes8, base: int, start: int, stop: int, data_end: int) -> Int64s:
    """Where a record may begin: its magic, its own position if it says one, a size that fits."""
    last = min(stop, data_end - packed.SIZE_MIN + 1)
    if last <= start:
        return np.empty(0, dtype=np.int64)
    firsts = data[start + 4 : last + 4]
    is_first = np.logical_or.reduce([firsts == first for first in _FIRST_BYTES])
    at: Int64s = np.flatnonzero(is_first) + start
    at = at[np.isin(_heads(data, at)["magic"], RECORD_MAGICS)]
    heads = _heads(data, at)
    sizes = heads["size"].astype(np.int64)
    positions = kernels.windows(data, 8)[at + POSITION_AT].view(">i8")[:, 0]
    is_here = (heads["magic"] == packed.MAGIC) | (positions == base + at)
    keep = is_here & (sizes >= packed.SIZE_MIN) & (at + sizes <= data_end)
    kept: Int64s = at[keep]
    return kept


def _heads(data: Bytes8, at: Int64s) -> npt.NDArray[Any]:
    """Size and magic at each place."""
    return np.ascontiguousarray(kernels.windows(data, 8)[at]).view(_WORDS)[:, 0]


def _gather(data: Bytes8, starts: Int64s, sizes: Int64s) -> pa.BinaryArray:
    zeros = np.zeros(len(starts), dtype=np.int32)
    buffers = [pa.py_buffer(data)]
    return kernels.gather(buffers, zeros, starts.astype(np.int32), sizes.astype(np.int32))


def _parts(sizes: Int64s) -> Iterator[slice]:
    """Rows in parts of bounded bytes."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + 2 * BLOCK_BYTES, side="right"))
        rows = slice(start, max(stop, start + 1))
        yield rows
        start = rows.stop


def _is_foreign(data: Bytes8, base: int, at: int, size: int) -> bool:
    """Records with a 2-byte topic size are sound if they decode."""
    if int.from_bytes(data[at + 4 : at + 8].tobytes(), "big") != MAGIC_LONG_TOPIC:
        return False
    return records.is_sound(data.data[at : at + size], base + at)


def _not_inside(starts: Int64s, sizes: Int64s, at: int) -> npt.NDArray[np.bool_]:
    """Which records do not begin inside another one: a body may hold a record's image."""
    keep = np.ones(len(starts), dtype=np.bool_)
    if not len(starts):
        return keep
    ends = np.maximum.accumulate(np.concatenate([[at], starts[:-1] + sizes[:-1]]))
    if bool((starts >= ends).all()):
        return keep
    end = at
    for row, (start, size) in enumerate(zip(starts.tolist(), sizes.tolist(), strict=True)):
        keep[row] = start >= end
        end = start + size if start >= end else end
    return keep


def _reason(data: Bytes8, base: int, start: int, end: int) -> str:
    """What is wrong with the bytes of a damaged record."""
    rest = data[start:end]
    if not rest.any():
        return "zeros where a record is expected"
    try:
        records.decode(data.data[start:], position=base + start)
    except CorruptRecord as error:
        return error.message
    return "bytes that are no record"
