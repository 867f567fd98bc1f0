"""Reading a whole log, segment by segment, in arrays: a way of its own, not recovery's.

Recovery follows sizes from record to record. Here every place with a record's magic is listed, and
a record counts if all of its checks match. Behind a sound record the next one is looked for from
its end on, behind a place that is none from the next place on. So a wrong size hides nothing, and
what a body holds is not looked at: as many beginnings of long records as fit into it, perhaps. What
lies between two sound records must be a gap of a compacted segment, what lies behind the last one a
blank or zeros; everything else is damage. Memory is bounded by the block size, whatever the log's
length.
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
_SOUND: Final = 1
_NONE: Final = 2
_WORDS: Final = np.dtype([("size", ">u4"), ("magic", ">u4")])
_PACKED: Final = np.dtype(
    [
        *(("before", "V12"), ("flags", "u1"), ("topic_size", "u1")),
        *(("id_at", "u1"), ("id_size", "u1"), ("sizes", ">u4")),
    ]
)
"""The beginning of a packed record, up to its body's size."""

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
            starts, sizes, batch = _sound_records(data, base, max(looked, at), stop, data_end)
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
    """Start, size and bytes of sound records that begin in [start, stop), none within another."""
    starts = _candidates(data, base, start, stop, data_end)
    sizes = _heads(data, starts)["size"].astype(np.int64)
    nexts = np.searchsorted(starts, starts + sizes).tolist()
    verdicts = bytearray(len(starts))
    known = np.frombuffer(verdicts, dtype=np.uint8)
    looked: list[int] = []
    parts = []
    kept: list[int] = []
    row = 0
    while row < len(nexts):
        if not verdicts[row]:
            rows = _chain(row, nexts, verdicts)
            sound, batch = _checked(data, base, starts[rows], sizes[rows])
            known[rows] = np.where(sound, _SOUND, _NONE)
            looked += rows[sound].tolist()
            parts.append(batch)
            count = len(rows) if bool(sound.all()) else int(sound.argmin())
            kept += rows[:count].tolist()
            row = nexts[int(rows[count - 1])] if count else row + 1
        elif verdicts[row] == _SOUND:
            kept.append(row)
            row = nexts[row]
        else:
            row += 1
    joined = pa.concat_arrays(parts) if parts else pa.array([], pa.binary())
    if looked != kept:
        places = {row: place for place, row in enumerate(looked)}
        joined = joined.take(pa.array([places[row] for row in kept], pa.int64()))
    chosen = np.array(kept, dtype=np.int64)
    return starts[chosen], sizes[chosen], joined


def _chain(row: int, nexts: list[int], verdicts: bytearray) -> Int64s:
    """Candidates one behind the other, if all are what they say, up to one that was looked at."""
    rows = []
    while row < len(nexts) and not verdicts[row]:
        rows.append(row)
        row = nexts[row]
    return np.array(rows, dtype=np.int64)


def _checked(
    data: Bytes8, base: int, starts: Int64s, sizes: Int64s
) -> tuple[npt.NDArray[np.bool_], pa.BinaryArray]:
    """Which candidates, none within another, are sound records; and the bytes of those."""
    sound = sizes <= _LARGE_BYTES
    view = data.data
    for row in np.flatnonzero(~sound).tolist():
        at, size = int(starts[row]), int(sizes[row])
        sound[row] = records.is_sound(view[at : at + size], base + at)
    parts = []
    tried = np.flatnonzero(sound)
    for part in _parts(sizes[tried]):
        rows = tried[part]
        batch = expanded(_gather(data, starts[rows], sizes[rows]), starts[rows] + base)
        bad = damaged(pa.record_batch([batch], names=["record"]))
        for row in np.flatnonzero(bad).tolist():
            at = int(starts[rows][row])
            bad[row] = not _is_foreign(data, base, at, int(sizes[rows][row]))
        sound[rows] = ~bad
        parts.append(batch.filter(pa.array(~bad)) if bool(bad.any()) else batch)
    joined = pa.concat_arrays(parts) if parts else pa.array([], pa.binary())
    return sound, joined


def _candidates(data: Bytes8, base: int, start: int, stop: int, data_end: int) -> Int64s:
    """Where a record may begin: its magic, its own position if it says one, a size that fits, and
    fields that fill it if it is packed."""
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
    is_packed = heads["magic"] == packed.MAGIC
    keep = is_packed | (positions == base + at)
    keep &= (sizes >= packed.SIZE_MIN) & (at + sizes <= data_end)
    keep[is_packed] &= _adds_up(data, at[is_packed], sizes[is_packed])
    kept: Int64s = at[keep]
    return kept


def _adds_up(data: Bytes8, at: Int64s, sizes: Int64s) -> npt.NDArray[np.bool_]:
    """Which packed records have fields that fill their sizes, as far as the head says."""
    heads = np.ascontiguousarray(kernels.windows(data, _PACKED.itemsize)[at]).view(_PACKED)[:, 0]
    text = sizes - packed.HEAD_SIZE - heads["id_size"] - heads["topic_size"]
    text -= (heads["sizes"] & packed.BODY_SIZE_MAX).astype(np.int64)
    text -= np.where(heads["flags"] & packed.IS_RARE, packed.RARE_SIZE, 0)
    is_known = (heads["flags"] & ~np.uint8(packed.FLAGS) == 0) & (heads["topic_size"] > 0)
    adds_up: npt.NDArray[np.bool_] = is_known & (text >= 0) & (text <= packed.TEXT_SIZE_MAX)
    return adds_up


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
