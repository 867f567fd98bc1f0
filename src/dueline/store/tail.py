"""The tail of a log, when a store is opened: walked, told torn from damaged, and cut.

What was written after the last sync may be torn. That is one record or one group, and it counts as
a whole or not at all. What was synced, as far as the checkpoint and the hint of `synced` know, can
only be damaged: that is reported, and its neighbours stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from dueline.store import control
from dueline.store import record as records
from dueline.store.log import Log
from dueline.store.record import MARK_GROUP, MARK_PRESENT
from dueline.store.scan import Damage, Scan, scan

__all__ = ["cut_tail", "missing_segments"]

_LAST_BYTES: Final = 64


def cut_tail(log: Log, start: int, whole_end: int, synced_end: int) -> tuple[Scan, int]:
    """Walk a log from `start`, cut what is torn, and set its end; also returns how much was cut.

    Args:
        whole_end: a checkpoint knew everything before it to be whole. A walk that starts in the
            middle of a group (at the first record that waits at the gate) must not take it for a
            torn one.
        synced_end: the hint.
    """
    if _was_written(log, synced_end):
        whole_end = max(whole_end, synced_end)
    found = scan(log, max(start, log.start), log.bases)
    found = _without_open_group(log, found, whole_end)
    sound_end = int(found.positions[-1] + found.sizes[-1]) if len(found.positions) else start
    sound_end = max(sound_end, whole_end)
    end = _end_of(log, sound_end)
    written = max((base + log.file_of(base).data_end(0) for base in log.bases), default=end)
    log.cut(end)
    log.sync_from(start)
    damage = [damage for damage in found.damage if damage.start < sound_end]
    cut_bytes = max(0, min(written, found.end) - end)
    return replace(found, damage=damage, end=end), cut_bytes


def _was_written(log: Log, end: int) -> bool:
    """Does anything stand right before `end`? If not, the hint is from another log than this copy;
    even a damaged record has something other than zeros among its last bytes."""
    base = log.base_of(end)
    if base not in log.bases:
        return False
    size = min(end - base, _LAST_BYTES)
    is_written = log.file_of(base).data_end(0) >= end - base
    return is_written and (size == 0 or any(log.file_of(base).read_at(end - base - size, size)))


def missing_segments(log: Log, start: int) -> list[Damage]:
    """Segments of the commit log that should be there: it loses only its oldest ones."""
    size = log.segment_size_bytes
    first = log.base_of(max(start, log.start))
    return [
        Damage(start=base, end=base + size, reason="the segment is missing")
        for base in range(first, max(log.bases, default=0), size)
        if base not in log.bases
    ]


def _end_of(log: Log, last: int) -> int:
    """Where the next record goes, if the last sound one ends at `last`."""
    base = log.base_of(last)
    blank = last - base + 8 <= log.segment_size_bytes and base in log.bases
    magic = log.file_of(base).read_at(last - base + 4, 4) if blank else b""
    if magic == records.BLANK_MAGIC.to_bytes(4, "big"):
        following = base + log.segment_size_bytes
        if following in log.bases:
            return following
    return max(last, log.start)


def _without_open_group(log: Log, found: Scan, whole_end: int) -> Scan:
    """Leave out a last group that has no end, or an end but not all of its records."""
    keep = len(found.positions)
    members = 0
    for row in range(len(found.positions) - 1, -1, -1):
        if int(found.positions[row]) < whole_end:
            break
        record = records.decode(
            log.read(int(found.positions[row]), int(found.sizes[row])),
            position=int(found.positions[row]),
        )
        if record.mark & (MARK_PRESENT | MARK_GROUP) == MARK_PRESENT | MARK_GROUP:
            keep = row
            members += 1
            continue
        if members == 0 and control.is_control(record):
            entry = control.decode(record)
            first = int(np.searchsorted(found.positions, entry.start))
            if entry.kind == control.END and row - first < entry.count:
                keep = first
        break
    return replace(found, positions=found.positions[:keep], sizes=found.sizes[:keep])
