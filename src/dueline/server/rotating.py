"""A log file that does not grow for ever: beyond a size it is renamed and a new one begun."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from dueline.store.files import Files

__all__ = ["RotatingFile"]

SIZE_BYTES_MAX_DEFAULT: Final = 10 << 20


class RotatingFile:
    """Lines for people to read: `path` is the newest, `path.1` the one before. Thread-safe."""

    def __init__(self, path: Path, *, size_bytes_max: int = SIZE_BYTES_MAX_DEFAULT) -> None:
        self.path: Final = path
        self._size_bytes_max: Final = size_bytes_max
        self._lock = threading.Lock()

    def write(self, line: bytes) -> None:
        """Append and close again: a line is rare, and a file that was removed is begun anew."""
        with self._lock:
            if self.path.exists() and self.path.stat().st_size > self._size_bytes_max:
                self.path.replace(self.path.with_name(self.path.name + ".1"))
            with Files().open_to_append(self.path) as file:
                file.write(line)
