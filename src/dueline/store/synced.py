"""How far each log is known to be on disk: a hint that tells damage from a torn write.

    | position (8) | crc32 (4) |   delay log          big-endian, in `synced`
    | position (8) | crc32 (4) |   commit log

It is written after each sync and never synced itself, so it is always true and sometimes old: after
the death of a process it is exact, after a power cut it says what happened to reach the disk. What
stands before it was acknowledged; if a record there is not sound, it is damaged and its neighbours
are what they are. What stands behind it may be torn.
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Final
from zlib import crc32

from dueline.errors import Unavailable
from dueline.store.files import File, Files

__all__ = ["COMMIT_SLOT", "DELAY_SLOT", "SYNCED_FILE", "Synced"]

DELAY_SLOT: Final = 0
COMMIT_SLOT: Final = 1
_POSITION: Final = struct.Struct(">q")
_SLOT: Final = struct.Struct(">qI")
_SIZE_BYTES: Final = 512


SYNCED_FILE: Final = "synced"


class Synced:
    """The file; each slot has one writer at a time."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._file: File | None = None

    def open(self) -> tuple[int, int]:
        """The positions that were noted last, delay log and commit log; 0 where none is known."""
        data = b""
        with contextlib.suppress(Unavailable):  # a full disk: a hint must not be in the way
            if not self._files.exists(self._path):
                self._files.create(self._path, _SIZE_BYTES).close()
            self._file = self._files.open(self._path, writable=True)
            data = self._file.read_at(0, 2 * _SLOT.size)
        return _decode(data, DELAY_SLOT), _decode(data, COMMIT_SLOT)

    def note(self, slot: int, position: int) -> None:
        """Everything before `position` is on disk."""
        if self._file is None:
            return
        check = crc32(_POSITION.pack(position))
        with contextlib.suppress(OSError):  # without it recovery is only more careful
            self._file.write_at(slot * _SLOT.size, _SLOT.pack(position, check))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _decode(data: bytes, slot: int) -> int:
    if len(data) < 2 * _SLOT.size:
        return 0
    position, check = _SLOT.unpack_from(data, slot * _SLOT.size)
    return int(position) if check == crc32(_POSITION.pack(position)) else 0
