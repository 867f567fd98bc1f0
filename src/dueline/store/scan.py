"""Walking a log record by record: for recovery, for rebuilding and for people (`dueline log`).

The walk follows sizes, blanks and gaps. Where that fails it looks for the next place with a magic
number at which a sound record begins. So one damaged record does not hide its neighbours. Zeros to
the end of the data are simply the end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa

from dueline.errors import CorruptRecord, NotFound
from dueline.store import packed
from dueline.store import record as records
from dueline.store.files import File
from dueline.store.kernels import Int32s, Int64s
from dueline.store.layout import SIZE_MAGIC_POSITION
from dueline.store.log import LogReader
from dueline.store.packed import SIZE_MIN
from dueline.store.record import BLANK_MAGIC, GAP_MAGIC, MAGIC, MAGIC_LONG_TOPIC
from dueline.store.restore import damaged

__all__ = ["Damage", "Scan", "Walk", "scan"]

_MAGICS: Final = re.compile(
    b"|".join(re.escape(magic.to_bytes(4, "big")) for magic in (MAGIC, packed.MAGIC))
)
_CHECK_ROWS: Final = 50_000
_CHECK_BYTES: Final = 40 << 20
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Bytes [start, end) that should be records and are not."""

    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """Sound records in log order, damage between them, and where the data ends."""

    positions: Int64s
    sizes: Int32s
    end: int
    damage: list[Damage] = field(default_factory=list)

    def batches(
        self, reader: LogReader, size_bytes_max: int = _CHECK_BYTES
    ) -> Iterator[tuple[slice, pa.BinaryArray]]:
        """The records' bytes, a bounded number at a time, with the rows they are."""
        ends = np.cumsum(self.sizes, dtype=np.int64)
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            fit = int(np.searchsorted(ends, before + size_bytes_max, side="right"))
            rows = slice(start, max(start + 1, min(start + _CHECK_ROWS, fit)))
            yield rows, reader.gather(self.positions[rows], self.sizes[rows])
            start = rows.stop


def scan(reader: LogReader, start: int, bases: list[int]) -> Scan:
    """Read everything from `start` on in the segments at `bases`."""
    positions: list[int] = []
    sizes: list[int] = []
    damage: list[Damage] = []
    end = start
    for base in bases:
        if base + reader.segment_size_bytes <= start:
            continue
        try:
            file = reader.file_of(base)
            view = file.view().data
        except (NotFound, ValueError) as error:
            damage.append(
                Damage(start=base, end=base + reader.segment_size_bytes, reason=str(error))
            )
            continue
        at = max(start - base, 0)
        walk = Walk(
            file=file,
            view=view,
            base=base,
            data_end=file.data_end(at),
            is_foreign=reader.is_foreign,
        )
        stop = walk.run(at, positions, sizes, damage)
        rest = len(bytes(view[stop : walk.data_end]).rstrip(b"\0"))
        if rest:
            damage.append(
                Damage(start=base + stop, end=base + stop + rest, reason="torn, or no record")
            )
        if stop > 0 or not positions:
            end = max(end, base + stop)
    result = Scan(
        positions=np.array(positions, dtype=np.int64),
        sizes=np.array(sizes, dtype=np.int32),
        end=end,
        damage=damage,
    )
    return _without_damaged(reader, result)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """One segment: its bytes, the position of the first, and where its written part ends."""

    file: File
    view: memoryview
    base: int
    data_end: int
    is_foreign: bool = False  # RocketMQ writes it

    def run(self, at: int, positions: list[int], sizes: list[int], damage: list[Damage]) -> int:
        """Collect records from `at` on; returns where the data ends.

        Nothing is read beyond `data_end`: touching what has no space on disk yet can be fatal on
        a file system in memory that is full.
        """
        view, base, limit = self.view, self.base, len(self.view)
        unpack = SIZE_MAGIC_POSITION.unpack_from
        previous = -1
        while at + SIZE_MIN <= self.data_end:
            size, magic, position = unpack(view, at)
            if SIZE_MIN <= size <= self.data_end - at and (
                magic == packed.MAGIC
                or (magic in (MAGIC, MAGIC_LONG_TOPIC) and position == base + at)
            ):
                positions.append(base + at)
                sizes.append(size)
                previous = at
                at += size
                continue
            if magic == GAP_MAGIC and 8 <= size <= limit - at and self._is_empty(at + 8, at + size):
                at += size
                continue
            if magic == BLANK_MAGIC and size == limit - at:
                return limit
            found, reason = self._resync(at, previous)
            if found < 0:
                return at
            if found < at:  # inside the record before, whose size was wrong
                positions.pop()
                sizes.pop()
                at = previous
            damage.append(Damage(start=base + at, end=base + found, reason=reason))
            at, previous = found, -1
        return at if at + 8 > self.data_end or not any(view[at : at + 8]) else limit

    def _is_empty(self, start: int, end: int) -> bool:
        """Only zeros? A gap whose size is damaged may lead over sound records.

        Read and not looked at in the map: most of a gap has no space on disk.
        """
        return not any(
            self.file.read_at(at, min(_BLOCK, end - at)).strip(b"\0")
            for at in range(start, end, _BLOCK)
        )

    def _resync(self, at: int, previous: int) -> tuple[int, str]:
        """Where the next sound record is after bytes that are none; -1 if none follows."""
        search = at
        if previous >= 0 and not self._is_sound(previous):
            # The record before led here with a size that may be wrong: look behind its beginning.
            search = previous + 8
        found = self.find(search)
        if 0 <= found < at:
            return found, "a record with a wrong size"
        zeros = found >= 0 and not any(self.view[at:found])
        return found, "zeros before a sound record" if zeros else "bytes that are no record"

    def _is_sound(self, at: int) -> bool:
        view = self.view[at : self.data_end]
        return _is_sound(view, self.base + at, is_foreign=self.is_foreign)

    def find(self, start: int, stop: int | None = None) -> int:
        """Where the first sound record is that begins in [start, stop); -1 if there is none."""
        stop = self.data_end if stop is None else stop
        at = start
        while at < min(stop + 4, self.data_end):  # the magic stands behind the size
            block = bytes(self.view[at : min(at + _BLOCK + 3, stop + 8, self.data_end)])
            for found in _MAGICS.finditer(block):
                candidate = at + found.start() - 4
                if start <= candidate < stop and self._is_sound(candidate):
                    return candidate
            at += _BLOCK
        return -1


def _is_sound(view: memoryview, position: int, *, is_foreign: bool) -> bool:
    try:
        records.decode(view, position=position, is_foreign=is_foreign)
    except CorruptRecord:
        return False
    return True


def _without_damaged(reader: LogReader, found: Scan) -> Scan:
    """Check every record's bytes and move those that fail to the damage list."""
    bad_rows = []
    for rows, batch in found.batches(reader):
        window = pa.record_batch([batch], names=["record"])
        flags = damaged(window, is_foreign=reader.is_foreign)
        bad_rows.extend((np.flatnonzero(flags) + rows.start).tolist())
    bad_rows = [row for row in bad_rows if not _is_long_topic(reader, found, row)]
    if not bad_rows:
        return found
    extra: list[Damage] = []
    hidden: list[tuple[int, int]] = []
    keep = np.ones(len(found.positions), dtype=np.bool_)
    for row in bad_rows:
        if not keep[row]:
            continue  # it begins inside of a sound record
        inside, stop, unknown = _in_place_of(reader, found, row)
        keep[row:stop] = False
        hidden += inside
        start, end = int(found.positions[row]), int(found.positions[row] + found.sizes[row])
        end = inside[0][0] if inside else end
        extra.append(Damage(start=start, end=end, reason=_reason(reader, found, row)))
        extra += unknown
    positions = np.append(found.positions[keep], np.array([at for at, _ in hidden], np.int64))
    sizes = np.append(found.sizes[keep], np.array([size for _, size in hidden], np.int32))
    order = np.argsort(positions)
    damage = [*_outside(found.damage, hidden), *extra]
    return Scan(
        positions=positions[order],
        sizes=sizes[order],
        end=found.end,
        damage=sorted(damage, key=lambda damage: damage.start),
    )


def _in_place_of(
    reader: LogReader, found: Scan, row: int
) -> tuple[list[tuple[int, int]], int, list[Damage]]:
    """The sound records that a damaged row has hidden, the row behind those that they replace, and
    what is no record of the last of these.

    The size of the damaged one may be wrong, which the walk does not notice if it happens to lead
    to what looks like the beginning of another record. That may be inside of one that was hidden,
    and lead on over others.
    """
    inside: list[tuple[int, int]] = []
    unknown: list[Damage] = []
    known, stop = int(found.positions[row]) + 8, row
    while stop < len(found.positions) and int(found.positions[stop]) < known:
        end = int(found.positions[stop] + found.sizes[stop])
        if known < end:
            inside += _hidden(reader, known, end)
            known = sum(inside[-1]) if inside else known
        if stop > row and known < end:
            unknown = [Damage(start=known, end=end, reason="bytes that are no record")]
        stop += 1
    return inside, stop, unknown


def _hidden(reader: LogReader, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Sound records that begin in [start, end) of one segment, wherever they end."""
    base = reader.base_of(start)
    file = reader.file_of(base)
    walk = Walk(
        file=file,
        view=file.view().data,
        base=base,
        data_end=file.data_end(start - base),
        is_foreign=reader.is_foreign,
    )
    at = walk.find(start - base, end - base)
    while at >= 0:
        size = int.from_bytes(walk.view[at : at + 4], "big")
        yield base + at, size
        at = walk.find(at + size, end - base)


def _outside(damage: list[Damage], rows: list[tuple[int, int]]) -> list[Damage]:
    """What of these places is not within sound records that were found later."""
    outside = []
    for each in damage:
        before = bisect_right(rows, each.start, key=itemgetter(0))
        start = max(each.start, sum(rows[before - 1])) if before else each.start
        if start < each.end:
            outside.append(replace(each, start=start))
    return outside


def _is_long_topic(reader: LogReader, found: Scan, row: int) -> bool:
    """Records with a 2-byte topic size are foreign and sound if they decode."""
    data = reader.read(int(found.positions[row]), int(found.sizes[row]))
    if int.from_bytes(data[4:8], "big") != MAGIC_LONG_TOPIC:
        return False
    return _is_sound(data, int(found.positions[row]), is_foreign=reader.is_foreign)


def _reason(reader: LogReader, found: Scan, row: int) -> str:
    position = int(found.positions[row])
    data = reader.read(position, int(found.sizes[row]))
    try:
        records.decode(data, position=position, is_foreign=reader.is_foreign)
    except CorruptRecord as error:
        return error.message
    return "fails the array check"
