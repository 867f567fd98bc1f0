"""Atomic groups: are all members of each there, and is the last one closed?

A group is void without its end. Only the last one of a log can be torn by a crash; opening cuts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow.compute as pc

from dueline.audit.keys import KeyCheck
from dueline.audit.walk import Batch, LogWalk
from dueline.message import CONTROL_TOPIC
from dueline.store import control
from dueline.store import record as records
from dueline.store.control import Control
from dueline.store.record import MARK_GROUP, MARK_PRESENT

__all__ = ["GroupWatch", "controls_of"]

_MEMBER = np.uint64(MARK_PRESENT | MARK_GROUP)


def controls_of(batch: Batch) -> list[tuple[int, Control]]:
    """The control records of a batch with their positions."""
    is_control = pc.equal(batch.columns.topics, CONTROL_TOPIC.encode())
    rows = np.flatnonzero(is_control.to_numpy(zero_copy_only=False))
    return [
        (int(batch.positions[row]), control.decode(records.decode(batch.columns.raw(row))))
        for row in rows.tolist()
    ]


@dataclass(slots=True)
class GroupWatch:
    """Follows the groups of a log in the order of the log."""

    walk: LogWalk
    whole_end: int
    broken: list[tuple[int, str]] = field(default_factory=list)
    _member_count: int = 0
    _open_start: int | None = None
    _sound_end: int = 0  # of the records so far; while a group is open: of those before it
    _void: tuple[int, str] | None = None

    def batches(self, keys: KeyCheck) -> Iterator[tuple[Batch, list[tuple[int, Control]]]]:
        """The log, batch by batch with its control records; groups and keys are followed."""
        for batch in self.walk.batches():
            controls = controls_of(batch)
            self.add(batch, controls)
            yield batch, controls
            keys.add(batch)

    def add(self, batch: Batch, controls: list[tuple[int, Control]]) -> None:
        marks = batch.columns.headers["mark"].astype(np.uint64)
        members = batch.positions[marks & _MEMBER == _MEMBER]
        if self._void is not None and len(batch.positions):
            self._give_up()
        done = 0
        for position, entry in controls:
            if entry.kind != control.END:
                continue
            stop = int(np.searchsorted(members, position))
            self._member_count += stop - done
            self._close(position, entry, is_last=position == int(batch.positions[-1]))
            done = stop
        if done < len(members):
            if self._member_count == 0:
                self._open_start = int(members[done])
                self._see(batch, self._open_start)
            self._member_count += len(members) - done
        elif len(batch.positions):
            self._see(batch, int(batch.positions[-1]) + 1)

    def _see(self, batch: Batch, end: int) -> None:
        """Note where the last of the batch's records that begin before `end` ends."""
        row = int(np.searchsorted(batch.positions, end)) - 1
        if row >= 0:
            self._sound_end = int(batch.positions[row] + batch.sizes[row])

    def _close(self, position: int, entry: Control, *, is_last: bool) -> None:
        found, self._member_count, self._open_start = self._member_count, 0, None
        if found >= entry.count or entry.start < self.walk.start or self._has_holes(entry.start):
            return
        text = f"a group of {entry.count} records that ends at {position} has {found} of them"
        self._void = (entry.start, text)
        if position < self.whole_end or not is_last:
            self._give_up()

    def _give_up(self) -> None:
        """It is not the last group, so nothing will cut it."""
        assert self._void is not None
        self.broken.append(self._void)
        self._void = None

    def _has_holes(self, start: int) -> bool:
        """Records of done messages may have gone from these segments since."""
        base = start - start % self.walk.segment_size_bytes
        return bool(self.walk.compacted) or base not in self.walk.bases

    @property
    def cut(self) -> int | None:
        """Where opening cuts the log, if its last group is not whole."""
        if self._void is not None:
            return self._void[0]
        if self._open_start is None or self._open_start < self.whole_end:
            return None
        # Its first members may be lost: nothing sound stands between the record before and it.
        return max(self._sound_end, self.whole_end)
