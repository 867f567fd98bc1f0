"""The only module of the store that opens files: reads, writes, fsync, atomic replace.

Everything that changes a disk is made of a handful of single steps, so that a test can stop the
store before any of them, lose what was not synced, or make the disk full
(`dueline.testing.FaultyFiles` replaces just these):

    File.write_at           bytes at a position, all of them or an OSError
    File.scatter            many small patches of bytes that were already written
    File.allocate           reserve disk blocks: a full disk is noticed before a record is written
    File.resize, File.sync  ftruncate, fdatasync
    Files.new               an empty file
    Files.move              a name changes, not yet for good
    Files.remove, Files.make_one_folder
    Files.sync_folder       names in a folder are there for good
    Files.sync_disk         everything is there for good

`create`, `replace` and `replace_sparse` write a temporary file, sync it and only then give it its
name: nobody ever finds half of such a file, or one that is too short.

A full disk and a process without free descriptors are no broken disk: both become `Unavailable`. A
write that finds no space first takes it from `Files.spend`, if a store keeps some back (see
`dueline.store.room`); only `allocate` can be told not to.

Only their owner may read the files and folders that are made here: they hold messages.

Promises: when `replace` returns, the new content survives a power cut; at any moment before, a
reader finds the old content or the new, never a mixture. A File is safe from several threads as
long as their writes do not overlap.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import logging
import mmap
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.errors import StoreLocked, Unavailable
from dueline.store.shortage import Disk, Spend, full_disk_is_unavailable, with_room

__all__ = ["Bytes", "File", "Files", "FolderLock", "SharedLock"]

Bytes = bytes | bytearray | memoryview | npt.NDArray[np.uint8]

TEMPORARY_SUFFIX: Final = ".tmp"
POSITION_NAME: Final = re.compile("[0-9]{20}")
"""Segments and queue files are named by the position of their first byte."""

_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_NO_WAIT: Final = getattr(os, "RWF_NOWAIT", 0)
"""Read from memory or not at all; 0: the operating system has no such thing."""

_log = logging.getLogger(__name__)

_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)  # Linux has it


def _in_a_row(chunks: Iterable[Bytes]) -> Iterator[tuple[int, Bytes]]:
    """Each chunk with its place behind the one before."""
    at = 0
    for chunk in chunks:
        yield at, chunk
        at += len(byte_view(chunk))


def _entries(path: Path) -> list[os.DirEntry[str]]:
    try:
        with full_disk_is_unavailable(path), os.scandir(path) as entries:
            return list(entries)
    except FileNotFoundError:
        return []


def byte_view(data: Bytes) -> memoryview:
    """The bytes of any buffer that the store writes."""
    view = data.data if isinstance(data, np.ndarray) else memoryview(data)
    return view.cast("B")


class File:
    """One open file with positioned reads and writes."""

    def __init__(self, path: Path, *, writable: bool, spend: Spend | None = None) -> None:
        """Open it.

        Raises:
            OSError: as the operating system says.
            Unavailable: no descriptor is free.
        """
        self.path: Final = path
        self.writable: Final = writable
        self._spend = spend
        with full_disk_is_unavailable(path):
            self._fd = os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)
        self._map: mmap.mmap | None = None
        self._array: npt.NDArray[np.uint8] | None = None

    @property
    def size_bytes(self) -> int:
        return os.fstat(self._fd).st_size

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        parts = []
        while size > 0:
            part = os.pread(self._fd, size, position)
            if not part:
                break
            parts.append(part)
            position += len(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def write_at(self, position: int, data: Bytes) -> None:
        """Write all of `data`.

        Raises:
            OSError: the file may then hold a part of it.
        """
        view = byte_view(data)
        while len(view):
            written = with_room(partial(os.pwrite, self._fd, view, position), self._spend)
            position += written
            view = view[written:]

    def scatter(self, positions: npt.NDArray[np.int64], rows: npt.NDArray[np.uint8]) -> None:
        """Write row i of the n x w array `rows` at positions[i], over bytes written before."""
        if self._map is None:
            self.view()
        assert self._map is not None
        target = np.frombuffer(self._map, dtype=np.uint8)
        width = rows.shape[1]
        windows = np.lib.stride_tricks.as_strided(
            target, shape=(len(target) - width + 1, width), strides=(1, 1), writeable=True
        )
        windows[positions] = rows

    def allocate(self, start: int, end: int, *, may_spend: bool = True) -> None:
        """Reserve blocks for [start, end).

        Args:
            may_spend: take them from what is kept back, if there are no others.

        Raises:
            Unavailable: the disk is full; nothing was changed.
        """
        reserve = partial(self.fallocate, start, end - start)
        try:
            with full_disk_is_unavailable(self.path):
                with_room(reserve, self._spend if may_spend else None)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):
                raise

    def fallocate(self, start: int, size: int) -> None:
        """What `allocate` asks the operating system for."""
        os.posix_fallocate(self._fd, start, size)

    def resize(self, size_bytes: int) -> None:
        """Make the file longer by zeros that take no space, or shorter."""
        os.ftruncate(self._fd, size_bytes)

    def sync(self) -> None:
        """Return when everything written is on disk."""
        os.fdatasync(self._fd)

    def view(self) -> npt.NDArray[np.uint8]:
        """The file's bytes as a mapped, read-only array that follows later writes."""
        if self._array is None:
            access = mmap.ACCESS_WRITE if self.writable else mmap.ACCESS_READ
            with full_disk_is_unavailable(self.path):  # a map has a descriptor of its own
                self._map = mmap.mmap(self._fd, 0, access=access)
            array: npt.NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
            array.flags.writeable = False
            self._array = array
        return self._array

    def is_cached(self, start: int, end: int) -> bool:
        """Can [start, end) be read without a wait for the disk? False also if nobody can tell.

        The operating system may need the memory for something else right after.
        """
        if not _NO_WAIT:
            return False
        try:
            return os.preadv(self._fd, [bytearray(end - start)], start, _NO_WAIT) == end - start
        except OSError:  # not in memory, or a file system that cannot tell
            return False

    def data_end(self, start: int) -> int:
        """Where written data ends, looking from `start`: all after it is known to be zeros."""
        size = self.size_bytes
        end = at = start
        while at < size:
            try:
                at = os.lseek(self._fd, at, os.SEEK_DATA)
                end = at = os.lseek(self._fd, at, os.SEEK_HOLE)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    return end
                return size  # a file system that cannot tell
        return end

    def forget_pages(self) -> None:
        """Give back the memory of mapped pages; they are read again when needed."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)

    def close(self) -> None:
        """Close the descriptor; arrays handed out by `view` stay readable."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._map = self._array = None


class FolderLock:
    """An exclusive lock on a store's folder, held until `release` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
        except OSError as error:
            owner = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise StoreLocked(
                f"store {path.parent} is in use by process {owner}; "
                "stop that process or choose another folder",
                path=str(path),
                owner=owner,
            ) from error
        text = f"{os.getpid()}\n".encode()
        with contextlib.suppress(OSError):  # for people only: a full disk must not matter
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class SharedLock:
    """A lock on a file that keeps others from locking it for themselves; nothing is written."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1)
        except OSError as error:
            os.close(self._fd)
            raise StoreLocked(
                f"{path}: expected a file that nobody has locked, found a process that has",
                path=str(path),
            ) from error

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Files:
    """The file system as the store sees it.

    Attributes:
        spend: set by a store that keeps disk space back, for all who write with these files.
    """

    spend: Spend | None = None

    def create(self, path: Path, size_bytes: int) -> File:
        """A new file of `size_bytes` zeros, known to its folder after a power cut.

        Raises:
            Unavailable: the disk is full; there is no such file.
        """
        self._write_whole(path, size_bytes, ())
        return self.open(path, writable=True)

    def open(self, path: Path, *, writable: bool = False) -> File:
        return File(path, writable=writable, spend=self.spend)

    def open_to_append(self, path: Path) -> FileIO:
        """A file for lines that people read, made if it is not there."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        return os.fdopen(os.open(path, flags, _FILE_MODE), "ab", buffering=0)

    def read(self, path: Path) -> bytes:
        with full_disk_is_unavailable(path), open(path, "rb") as file:
            return file.read()

    def replace(self, path: Path, chunks: Iterable[Bytes]) -> None:
        """Make `path` hold exactly `chunks`, at once and for good.

        Raises:
            Unavailable: the disk is full; `path` is what it was.
        """
        self._write_whole(path, 0, _in_a_row(chunks))

    def replace_sparse(
        self, path: Path, size_bytes: int, parts: Iterable[tuple[int, Bytes]]
    ) -> None:
        """Make `path` a file of `size_bytes` with only `parts` (offset, bytes), holes between.

        Raises:
            Unavailable: the disk is full; `path` is what it was.
        """
        self._write_whole(path, size_bytes, parts)

    def _write_whole(self, path: Path, size_bytes: int, parts: Iterable[tuple[int, Bytes]]) -> None:
        temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
        try:
            with full_disk_is_unavailable(path):
                file = self.new(temporary)
                try:
                    if size_bytes:
                        file.resize(size_bytes)
                    for at, data in parts:
                        file.write_at(at, data)
                    file.sync()
                finally:
                    file.close()
                self.rename(temporary, path)
        except Unavailable:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise

    def new(self, path: Path) -> File:
        """An empty file; what was there before is gone."""
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        with full_disk_is_unavailable(path):
            os.close(with_room(partial(os.open, path, flags, _FILE_MODE), self.spend))
        return self.open(path, writable=True)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file that was synced, and sync the folder."""
        self.move(source, target)
        self.sync_folder(target.parent)

    def move(self, source: Path, target: Path) -> None:
        """Give a file another name in its folder; what had that name is gone."""
        os.replace(source, target)

    def remove(self, path: Path) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def make_folder(self, path: Path) -> None:
        """Create `path` and its parents, durably."""
        if path.is_dir():
            return
        self.make_folder(path.parent)
        self.make_unsynced_folder(path)
        self.sync_folder(path.parent)

    def make_unsynced_folder(self, path: Path) -> None:
        """Create a folder in one that exists, if it is not there."""
        with full_disk_is_unavailable(path), contextlib.suppress(FileExistsError):
            self.make_one_folder(path)

    def make_one_folder(self, path: Path) -> None:
        with_room(partial(os.mkdir, path, _FOLDER_MODE), self.spend)

    def sync_folder(self, path: Path) -> None:
        with full_disk_is_unavailable(path):
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def sync_path(self, path: Path) -> None:
        """Return when a file that somebody wrote, or the names in a folder, are on disk."""
        if path.is_dir():
            self.sync_folder(path)
            return
        with contextlib.closing(self.open(path)) as file:
            file.sync()

    def sync_disk(self, path: Path) -> None:
        """Return when everything that was written to the disk under `path` is there."""
        with full_disk_is_unavailable(path):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if _syncfs is None:
                os.sync()
            elif _syncfs(fd) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), str(path))
        finally:
            os.close(fd)

    def names(
        self, path: Path, expected: re.Pattern[str], *, are_folders: bool = False
    ) -> list[str]:
        """The files (or folders) in a folder whose whole name is as expected, in order; empty if
        there is no such folder.

        File managers, editors, network and other file systems leave files of their own anywhere:
        such are said in the log, and otherwise left alone.
        """
        found, strays = [], []
        for entry in _entries(path):
            is_right = entry.is_dir() if are_folders else entry.is_file()
            if entry.name.endswith(TEMPORARY_SUFFIX):
                continue
            if is_right and expected.fullmatch(entry.name):
                found.append(entry.name)
            else:
                strays.append(entry.name)
        if strays:
            _log.warning(
                "%s: ignored %s, which Dueline did not make", path, ", ".join(sorted(strays)[:5])
            )
        return sorted(found)

    def all_names(self, path: Path) -> list[str]:
        """Whatever is in a folder, for people to read."""
        return sorted(entry.name for entry in _entries(path))

    def temporaries(self, path: Path) -> list[Path]:
        """What an interrupted `create` or `replace` has left in a folder."""
        return [
            path / entry.name
            for entry in _entries(path)
            if entry.name.endswith(TEMPORARY_SUFFIX) and entry.is_file()
        ]

    def walk(self, path: Path) -> Iterator[Path]:
        """All files below `path`."""
        for folder, _, names in os.walk(path):
            for name in sorted(names):
                yield Path(folder) / name

    def exists(self, path: Path) -> bool:
        return path.exists()

    def size_bytes(self, path: Path) -> int:
        return os.stat(path).st_size

    def disk_bytes(self, path: Path) -> int:
        """The disk space that a file takes, holes not counted."""
        return os.stat(path).st_blocks * 512

    def disk(self, path: Path) -> Disk:
        """The disk under `path`."""
        usage = shutil.disk_usage(path)
        return Disk(used_bytes=usage.used, free_bytes=usage.free)

    def lock(self, path: Path) -> FolderLock:
        return FolderLock(path)

    def lock_shared(self, path: Path) -> SharedLock | None:
        """Lock a file against exclusive use; None if there is none.

        Raises:
            StoreLocked: somebody has it for himself.
        """
        try:
            return SharedLock(path)
        except FileNotFoundError:
            return None
