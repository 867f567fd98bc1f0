"""A log file that does not grow for ever: beyond a size it is renamed and a new one begun.

Only its owner may read it: messages and addresses stand in it.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from pathlib import Path
from typing import Final

__all__ = ["LogHandler", "RotatingFile"]

SIZE_BYTES_MAX_DEFAULT: Final = 10 << 20
_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


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
            descriptor = os.open(self.path, _FLAGS, 0o600)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)


class LogHandler(logging.Handler):
    """A process's own log records as lines of such a file.

    Lines that cannot be written, as on a full disk, are left out: the caller has other work to do.
    """

    def __init__(self, file: RotatingFile) -> None:
        super().__init__()
        self._file = file

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
        except Exception:  # noqa: BLE001  # as every handler of `logging` does
            self.handleError(record)
            return
        with contextlib.suppress(OSError):
            self._file.write(line)
