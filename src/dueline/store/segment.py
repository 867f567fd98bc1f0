"""One segment of a log: a file of fixed length that is opened when somebody needs it.

A segment knows from where it begins in its log, how much of it has disk space, and whether bytes
in its middle were patched since it was synced. Any thread may read; its log's owner keeps writers
apart.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.errors import NotFound
from dueline.store.files import Bytes, File, Files

__all__ = ["Segment"]

_BLOCK_BYTES: Final = 4 << 20


class Segment:
    """A segment file, and what is known of it.

    Attributes:
        base: the position of its first byte.
        allocated_bytes: how much of it has disk space; None: as much as is written.
        opened: the file, if it is open; `file` opens it.
    """

    __slots__ = ("_files", "_is_patched", "_is_removed", "_mutex", "_writable",
                 "allocated_bytes", "base", "opened", "path")  # fmt: skip

    def __init__(self, files: Files, path: Path, base: int, *, writable: bool = False) -> None:
        self._files = files
        self._writable = writable
        self._mutex = threading.Lock()
        self.opened: File | None = None
        self._is_patched = False
        self._is_removed = False
        self.path = path
        self.base = base
        self.allocated_bytes: int | None = None

    def create(self, size_bytes: int) -> None:
        """Make the file, all zeros.

        Raises:
            Unavailable: the disk is full; there is no such file.
        """
        self.opened = self._files.create(self.path, size_bytes)

    @property
    def file(self) -> File:
        """The open file.

        Raises:
            NotFound: deleted, or never written.
        """
        return self.opened or self._open()

    def _open(self) -> File:
        with self._mutex:
            if self.opened is None and not self._is_removed:
                try:
                    self.opened = self._files.open(self.path, writable=self._writable)
                except FileNotFoundError as error:
                    raise missing(self.path, self.base) from error
            if self.opened is None:
                raise missing(self.path, self.base)
            return self.opened

    def scatter(self, places: npt.NDArray[np.int64], rows: npt.NDArray[np.uint8]) -> None:
        """Patch bytes that were written before; synced by `sync_patches`."""
        self.file.scatter(places, rows)
        self._is_patched = True

    def sync_patches(self) -> None:
        """Return when everything that was patched before the call is on disk."""
        if self._is_patched:
            self._is_patched = False  # first: what is patched meanwhile is for the next call
            self.file.sync()

    def zero_from(self, start: int) -> None:
        """Make everything from a byte on zeros, for good."""
        file = self.file
        size = file.data_end(start)
        is_changed = False
        for at in range(start, size, _BLOCK_BYTES):
            data = file.read_at(at, min(_BLOCK_BYTES, size - at))
            if data.strip(b"\0"):
                file.write_at(at, bytes(len(data)))
                is_changed = True
        if is_changed:
            file.sync()

    def replace(self, size_bytes: int, parts: Iterator[tuple[int, Bytes]]) -> None:
        """Put a sparse file with only `parts` (offset, bytes) in its place, atomically."""
        self._files.replace_sparse(self.path, size_bytes, parts)
        self.close()

    def forget_pages(self) -> None:
        """Give back the memory of mapped pages."""
        if self.opened is not None:
            self.opened.forget_pages()

    def close(self) -> None:
        """Let go of the file; it is opened again if somebody needs it."""
        with self._mutex:
            file, self.opened = self.opened, None
        if file is not None:
            file.close()

    def remove(self) -> None:
        """Delete the file; a power cut may bring it back until its folder is synced."""
        self._is_removed = True
        self.close()
        self._files.remove(self.path)


def missing(path: Path, base: int) -> NotFound:
    """The error for a position whose segment is gone."""
    return NotFound(
        f"position {base}: expected a segment {path}, found none; "
        "it was deleted by retention or never written",
        position=base,
    )
