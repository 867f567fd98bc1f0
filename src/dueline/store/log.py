"""A segmented, append-only log of records. The commit log and the delay log are both one of these.

A position is a byte in the log, counted from its very first record. Segment files have a fixed
length and are named by the position of their first byte, in 20 digits:

    00000000000000000000   00000000001073741824   …
    | record | record | … | blank |   | record | …  zeros (nothing written yet)

A record never spans two files. What does not fit leaves a *blank* (its length, then BLANK_MAGIC),
and at least 8 bytes are always left for it. A compacted segment has *gaps* (length, then
GAP_MAGIC) where records were dropped; survivors keep their positions.

`place` only computes; `reserve` finds out about a full disk before anything is written; `append`
writes. One writer at a time (its owner holds a lock); any number of readers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dueline.errors import LimitExceeded, NotFound
from dueline.store import kernels
from dueline.store.files import POSITION_NAME, Bytes, File, Files, byte_view
from dueline.store.record import BLANK_MAGIC
from dueline.store.segment import Segment, missing
from dueline.store.unpacking import expanded, expanded_from

__all__ = ["BLANK_SIZE", "Log", "LogReader", "segment_name"]

BLANK_SIZE: Final = 8
SEGMENT_SIZE_BYTES_DEFAULT: Final = 1 << 30
SEGMENT_SIZE_BYTES_MAX: Final = (1 << 31) - (1 << 20)  # Arrow's views address 2 GiB
_ALLOCATE_BYTES: Final = 1 << 20
_NAME_DIGITS: Final = 20

Positions = npt.NDArray[np.int64]


def segment_name(position: int) -> str:
    return f"{position:0{_NAME_DIGITS}d}"


class LogReader:
    """Reads records by position from mapped segment files; needs no writer and no lock.

    A task in another process on the same machine may hold one: files it has mapped stay readable
    even when the owner deletes or compacts them.
    """

    def __init__(
        self, files: Files, folder: Path, segment_size_bytes: int, *, is_foreign: bool = False
    ) -> None:
        """`is_foreign`: RocketMQ writes it, and not we."""
        self._files = files
        self.is_foreign: Final = is_foreign
        self.folder: Final = folder
        self.segment_size_bytes: Final = segment_size_bytes
        self._segments: dict[int, Segment] = {}

    def base_of(self, position: int) -> int:
        return position - position % self.segment_size_bytes

    def read(self, position: int, size: int) -> memoryview:
        """The `size` bytes at `position`, a view of the mapped file; shorter at its end."""
        start = position % self.segment_size_bytes
        return self.file_of(position - start).view().data[start : start + size]

    def gather(self, positions: Positions, sizes: npt.NDArray[np.int32]) -> pa.BinaryArray:
        """Many records as one Arrow array, in the given order; packed ones as what they stand for.

        A record whose segment is gone, or that cannot be there at all, comes out empty: the
        caller's checks then say that it is damaged.
        """
        bases = positions - positions % self.segment_size_bytes
        segments, segment_index = np.unique(bases, return_inverse=True)
        buffers = []
        outside = (sizes < 0) | (positions - bases + sizes > self.segment_size_bytes)
        sizes = np.where(outside, 0, sizes).astype(np.int32)
        if len(segments) == 1 and not self.is_foreign:
            found = self._expanded(int(segments[0]), positions, sizes)
            if found is not None:
                return found
        for number, base in enumerate(segments.tolist()):
            try:
                buffers.append(pa.py_buffer(self.file_of(base).view()))
            except NotFound:
                buffers.append(pa.py_buffer(b""))
                sizes = np.where(segment_index == number, 0, sizes).astype(np.int32)
        found = kernels.gather(
            buffers, segment_index.astype(np.int32), (positions - bases).astype(np.int32), sizes
        )
        return found if self.is_foreign else expanded(found, positions)

    def _expanded(
        self, base: int, positions: Positions, sizes: npt.NDArray[np.int32]
    ) -> pa.BinaryArray | None:
        """Records of one segment, without a copy of what is packed; None: nothing is."""
        try:
            data = self.file_of(base).view()
        except NotFound:
            return None
        if len(data) < self.segment_size_bytes:
            return None
        return expanded_from(data, positions - base, sizes.astype(np.int64), positions)

    def size_at(self, position: int) -> int:
        """How many bytes a record takes, as its first ones say."""
        return int.from_bytes(self.read(position, 4), "big")

    def file_of(self, base: int) -> File:
        """The file that starts at `base`.

        Raises:
            NotFound: deleted, or never written.
        """
        segment = self._segments.get(base) or self._missing(base)
        return segment.opened or segment.file  # the first is quicker, and every read comes here

    def _missing(self, base: int) -> Segment:
        """A segment that was not looked at before; another process may have written it."""
        return self._segments.setdefault(base, Segment(self._files, self.path_of(base), base))

    def forget_pages(self) -> None:
        """Give back the memory of mapped segments after reading much of them."""
        for segment in list(self._segments.values()):
            segment.forget_pages()

    def path_of(self, base: int) -> Path:
        return self.folder / segment_name(base)

    def close(self) -> None:
        for segment in list(self._segments.values()):
            segment.close()


class Log(LogReader):
    """The writing side: knows where the log starts and ends."""

    def __init__(self, files: Files, folder: Path, segment_size_bytes: int) -> None:
        super().__init__(files, folder, segment_size_bytes)
        files.make_folder(folder)
        for name in files.names(folder, POSITION_NAME):
            self._add(int(name))
        self.start = min(self._segments, default=0)
        self.end = self.start
        self._synced_end = self.start

    @property
    def bases(self) -> list[int]:
        """The positions at which segments begin, in order."""
        return list(self._segments)

    def _add(self, base: int) -> Segment:
        segment = Segment(self._files, self.path_of(base), base, writable=True)
        self._segments[base] = segment
        return segment

    def _missing(self, base: int) -> Segment:
        raise missing(self.path_of(base), base)

    def _segment(self, base: int) -> Segment:
        return self._segments.get(base) or self._missing(base)

    def skip_first_segment(self) -> None:
        """Let a log that never held anything begin with its second segment, as if the first had
        been deleted: then no record stands at position 0, and 0 can mean "nowhere"."""
        if not self._segments and self.end == 0:
            self.start = self.end = self._synced_end = self.segment_size_bytes

    @overload
    def place(self, sizes: list[int]) -> tuple[list[int], int]: ...

    @overload
    def place(self, sizes: Positions) -> tuple[Positions, int]: ...

    def place(self, sizes: list[int] | Positions) -> tuple[list[int] | Positions, int]:
        """Where records of these sizes would go, and the log's end after them; changes nothing.

        Few sizes are best given as a list: an array operation costs a microsecond before it has
        looked at the first row.

        Raises:
            LimitExceeded: a record that does not fit into an empty segment.
        """
        if not isinstance(sizes, list):
            return self._place(sizes)
        start, total = self.end, sum(sizes)
        if total <= self.base_of(start) + self.segment_size_bytes - BLANK_SIZE - start:
            return list(accumulate(sizes[:-1], initial=start)), start + total
        positions, end = self._place(np.array(sizes, dtype=np.int64))
        return positions.tolist(), end

    def _place(self, sizes: Positions) -> tuple[Positions, int]:
        capacity = self.segment_size_bytes - BLANK_SIZE
        if len(sizes) and int(sizes.max()) > capacity:
            raise LimitExceeded(
                f"record: expected at most {capacity} bytes, found {int(sizes.max())}; "
                "send less or use larger segments",
                limit=capacity,
                found=int(sizes.max()),
            )
        ends = sizes.cumsum(dtype=np.int64)
        done, end = 0, self.end
        if len(sizes) and int(ends[-1]) <= self.base_of(end) + capacity - end:  # as most often
            return ends - sizes + end, end + int(ends[-1])
        positions = np.empty(len(sizes), dtype=np.int64)
        while done < len(sizes):
            room = self.base_of(end) + capacity - end
            before = int(ends[done - 1]) if done else 0
            fit = int(np.searchsorted(ends[done:], before + room, side="right"))
            stop = done + fit
            positions[done:stop] = ends[done:stop] - sizes[done:stop] - before + end
            if fit:
                end += int(ends[stop - 1]) - before
            if stop < len(sizes):
                end = self.base_of(end) + self.segment_size_bytes
            done = stop
        return positions, end

    def reserve(self, end: int, *, may_spend: bool = False) -> None:
        """Make sure that everything up to `end` has disk space.

        Args:
            may_spend: take it from what the store keeps back, if there is no other.

        Raises:
            Unavailable: the disk is full; what was written before is whole.
        """
        base = self.base_of(self.end)
        while base < end:
            segment = self._segments.get(base) or self._create(base)
            allocated = segment.allocated_bytes
            if allocated is None:
                allocated = max(self.end - base, 0)
            needed = min(end - base + BLANK_SIZE, self.segment_size_bytes)
            if needed > allocated:
                goal = self._goal(allocated, needed)
                segment.file.allocate(allocated, goal, may_spend=may_spend)
                segment.allocated_bytes = goal
            base += self.segment_size_bytes

    def _create(self, base: int) -> Segment:
        segment = Segment(self._files, self.path_of(base), base, writable=True)
        segment.create(self.segment_size_bytes)
        self._segments[base] = segment
        return segment

    @property
    def allocated_bytes(self) -> int:
        """What is reserved behind the log's end."""
        base = self.base_of(self.end)
        segment = self._segments.get(base)
        allocated = segment.allocated_bytes if segment is not None else None
        return max((allocated or 0) - (self.end - base), 0)

    def _goal(self, allocated: int, needed: int) -> int:
        """Up to where to reserve: many records ahead, or just enough where space is scarce."""
        goal = min(-(-needed // _ALLOCATE_BYTES) * _ALLOCATE_BYTES, self.segment_size_bytes)
        is_scarce = self._files.disk(self.folder).free_bytes < 2 * (goal - allocated)
        return needed if is_scarce else goal

    def append(
        self,
        positions: list[int] | Positions,
        sizes: list[int] | Positions,
        parts: Iterable[Bytes],
    ) -> None:
        """Write records that `place` placed; `parts` are their bytes one after the other.

        A part is written before the next one is asked for.

        Raises:
            OSError: the log may then end in a torn record; the owner must close it.
        """
        views = (byte_view(part) for part in parts if len(part))
        view = memoryview(b"")
        for start, end in self._stretches(positions, sizes):
            base = self.base_of(start)
            if self.base_of(self.end) != base:
                self._write_blank(base)
            view = self._write(start, end, view, views)

    def _stretches(
        self, positions: list[int] | Positions, sizes: list[int] | Positions
    ) -> Iterator[tuple[int, int]]:
        """From where to where placed records stand without a break: one stretch for a segment."""
        if not len(positions):
            return
        end = int(positions[-1] + sizes[-1])
        if self.base_of(int(positions[0])) == self.base_of(int(positions[-1])):
            yield int(positions[0]), end
            return
        bases = np.asarray(positions) // self.segment_size_bytes
        cuts = [0, *(np.flatnonzero(np.diff(bases)) + 1).tolist(), len(positions)]
        for first, stop in pairwise(cuts):
            yield int(positions[first]), int(positions[stop - 1] + sizes[stop - 1])

    def _write(
        self, start: int, end: int, view: memoryview, views: Iterator[memoryview]
    ) -> memoryview:
        """Write the next bytes to a stretch of one segment; returns what is left of a view."""
        base = self.base_of(start)
        file = self.file_of(base)
        while start < end:
            if not len(view):
                view = next(views)
            piece = view[: end - start]
            file.write_at(start - base, piece)
            start += len(piece)
            self.end = start
            view = view[len(piece) :]
        return view

    def _write_blank(self, next_base: int) -> None:
        base = next_base - self.segment_size_bytes
        if self.end <= base:
            return
        left = next_base - self.end
        if left >= BLANK_SIZE:
            self.file_of(base).write_at(self.end - base, struct.pack(">II", left, BLANK_MAGIC))
        self.end = next_base

    def sync(self) -> None:
        """Return when everything appended is on disk."""
        first = self.base_of(self._synced_end)
        if self._synced_end < self.end:
            for base in range(first, self.end, self.segment_size_bytes):
                if base in self._segments:
                    self.file_of(base).sync()
        self._synced_end = self.end

    def sync_from(self, position: int) -> None:
        """Return when everything from `position` on is on disk, also what an earlier process wrote.

        A process that was killed may have left bytes that only the operating system knows of.
        """
        for base in self.bases:
            if base + self.segment_size_bytes > position:
                self.file_of(base).sync()

    def sync_patches(self) -> None:
        """Return when everything that was patched before the call is on disk too."""
        for segment in list(self._segments.values()):
            segment.sync_patches()

    def scatter(self, positions: Positions, rows: npt.NDArray[np.uint8]) -> None:
        """Patch bytes of records in place; synced by `sync_patches`."""
        bases = positions - positions % self.segment_size_bytes
        for base in np.unique(bases).tolist():
            chosen = bases == base
            self._segment(base).scatter(positions[chosen] - base, rows[chosen])

    def cut(self, end: int) -> None:
        """Forget everything from `end` on, for good: later files go, the rest becomes zeros."""
        for base in [base for base in self.bases if base >= end and base != self.start]:
            self._drop(base)
        base = self.base_of(end)
        if base in self._segments:
            self._segment(base).zero_from(end - base)
        self.end = self._synced_end = end

    def drop_before(self, position: int) -> list[int]:
        """Delete whole segments before `position`; the last one stays. Returns their bases."""
        limit = min(self.base_of(position), self.base_of(self.end))
        dropped = [base for base in self.bases if base < limit]
        for base in dropped:
            self._drop(base)
        self.start = max(self.start, min([*self.bases, limit]))
        return dropped

    def drop_segment(self, base: int) -> None:
        """Delete one whole segment, not necessarily the first; its positions are then NotFound."""
        assert base != self.base_of(self.end), "the segment being written cannot be dropped"
        self._drop(base)
        self.start = min(self.bases)

    def _drop(self, base: int) -> None:
        """Delete a segment, for good: a power cut must not bring back what later ones replaced, nor
        an older one without its neighbours."""
        self._segments.pop(base).remove()
        self._files.sync_folder(self.folder)

    def replace_segment(self, base: int, parts: Iterator[tuple[int, Bytes]]) -> None:
        """Put a sparse file with only `parts` (offset, bytes) in a segment's place, atomically."""
        self._segment(base).replace(self.segment_size_bytes, parts)

    def __repr__(self) -> str:
        return f"Log({self.folder.name}, {self.start}..{self.end})"

    def stats(self) -> dict[str, Any]:
        return {"start": self.start, "end": self.end, "segment_count": len(self._segments)}
