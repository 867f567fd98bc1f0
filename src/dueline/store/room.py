"""Disk space: how much the store may fill, and what it keeps back for itself.

A broker must write also when the disk is full: cancels, acknowledgements, offsets, checkpoints. So
a file called `reserve` holds disk blocks that nobody else can take. Who may use what:

    sends        what is free, while the reserve is whole and the disk is used less than
                 `disk_used_ratio_max`
    deliveries   what is free, while the reserve is whole
    all others   what is free; then the reserve, which becomes shorter

What was taken from the reserve is put back as soon as there is room (`look`), before anything else
is accepted. So it does not matter who filled the disk: sends stop first, reads and cancels go on,
and when there is room again sends are accepted without anybody's help.

The reserve is no larger than a sixteenth of the disk. Nothing in the file is ever read. It helps as
far as the file system keeps its word about reserved blocks: one that compresses does not.

Any thread may call.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

from dueline.errors import Unavailable
from dueline.store.files import File, Files

__all__ = ["RESERVE_FILE", "Room", "RoomOptions"]

RESERVE_FILE: Final = "reserve"
_DISK_SHARE: Final = 16
_STEP_COUNT: Final = 16
_BLOCK_BYTES: Final = 4096
_WARN_S: Final = 60.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOptions:
    """What the operator chose."""

    reserve_size_bytes: int
    used_ratio_max: float
    is_deleting: bool
    """Above the ratio old messages go instead of new ones being refused."""


class Room:
    """The disk under one store's folder."""

    def __init__(self, files: Files, folder: Path, options: RoomOptions) -> None:
        self._files = files
        self._folder = folder
        self._options = options
        self._path: Final = folder / RESERVE_FILE
        self._file: File | None = None
        self._size_bytes = 0
        self._whole_bytes = 0
        self._lock = threading.RLock()
        self._shortage: str | None = None
        self._warn_at_s = 0.0

    def open(self) -> None:
        """Take hold of the reserve, as much of it as there is room for."""
        size_bytes = self._files.disk(self._folder).size_bytes // _DISK_SHARE
        self._whole_bytes = _blocks(min(self._options.reserve_size_bytes, size_bytes))
        if not self._whole_bytes:
            self._files.remove(self._path)
        else:
            self._open_file()
            self._files.spend = self.spend
        self.look()

    def _open_file(self) -> None:
        """Make the file if it is not there; a full disk has perhaps no room even for its name."""
        with contextlib.suppress(Unavailable):
            if self._files.exists(self._path):
                self._file = self._files.open(self._path, writable=True)
            else:
                self._file = self._files.new(self._path)
            self._size_bytes = self._file.size_bytes

    def close(self) -> None:
        with self._lock:
            if self._files.spend == self.spend:
                self._files.spend = None
            if self._file is not None:
                self._file.close()
                self._file = None

    # The reserve

    @property
    def is_whole(self) -> bool:
        return self._size_bytes >= self._whole_bytes

    def spend(self) -> bool:
        """Give a part of the reserve to a write that found no space; False: nothing is left."""
        with self._lock:
            if self._file is None or not self._size_bytes:
                return False
            step = max(_blocks(self._whole_bytes // _STEP_COUNT), _BLOCK_BYTES)
            self._size_bytes = max(self._size_bytes - step, 0)
            self._file.resize(self._size_bytes)
        return True

    def _fill(self) -> None:
        """Put back what was spent, as far as there is room."""
        with self._lock:
            missing = self._whole_bytes - self._size_bytes
            if missing > 0 and self._file is None:
                self._open_file()
                missing = self._whole_bytes - self._size_bytes
            if missing <= 0 or self._file is None:
                return
            part = _blocks(min(missing, self._files.disk(self._folder).free_bytes))
            if not part:
                return
            end = self._size_bytes + part
            try:
                self._file.allocate(self._size_bytes, end, may_spend=False)
                self._size_bytes = end
            except Unavailable:
                pass  # somebody else was quicker
            self._file.resize(self._size_bytes)

    # Who may write

    def look(self) -> None:
        """See whether there is room, fill the reserve, and say so if that has changed."""
        self._fill()
        shortage = self._find_shortage()
        was_short, self._shortage = self._shortage is not None, shortage
        if shortage is not None and (not was_short or monotonic() >= self._warn_at_s):
            self._warn_at_s = monotonic() + _WARN_S
            _log.error("sends are refused: %s", shortage)
        elif shortage is None and was_short:
            _log.warning("there is room on the disk again; sends are accepted")

    def _find_shortage(self) -> str | None:
        disk = self._files.disk(self._folder)
        if not self.is_whole:
            return (
                f"disk full: expected {self._whole_bytes} bytes kept back in {self._path}, found "
                f"room for {self._size_bytes}; free disk space, and sends are accepted again"
            )
        if disk.used_ratio > self._options.used_ratio_max and not self._options.is_deleting:
            return (
                f"disk nearly full: expected at most {self._options.used_ratio_max:.1%} of "
                f"{self._folder}'s disk in use (store.disk_used_ratio_max), found "
                f"{disk.used_ratio:.1%}; free disk space, keep messages less long "
                "(store.retention), or let old ones go early (store.delete_early)"
            )
        return None

    @property
    def is_short(self) -> bool:
        """Are sends refused?"""
        return self._shortage is not None or not self.is_whole

    def check_send(self) -> None:
        """Refuse new messages while there is no room for them.

        Raises:
            Unavailable: says what to do.
        """
        if not self.is_short:
            return
        self.look()
        if self._shortage is not None:
            raise Unavailable(self._shortage, path=str(self._folder))

    def is_filled(self) -> bool:
        """Is the reserve whole, perhaps since now?"""
        if not self.is_whole:
            self.look()
        return self.is_whole

    def check_delivery(self) -> None:
        """Refuse to carry messages over while the reserve is in use.

        Raises:
            Unavailable: says what to do.
        """
        if not self.is_filled():
            raise Unavailable(self._find_shortage() or "disk full", path=str(self._folder))


def _blocks(size_bytes: int) -> int:
    """Rounded down to whole blocks."""
    return size_bytes - size_bytes % _BLOCK_BYTES
