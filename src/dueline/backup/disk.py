"""Writing the files of a backup: private, synced, and with errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from dueline.errors import CorruptRecord, Unavailable

__all__ = [
    "FileWriter",
    "clear_errors",
    "hash_file",
    "make_folder",
    "read_json",
    "remove_tree",
    "sync_folder",
    "write_json",
]

_PIECE: Final = 1 << 20
_ZEROS: Final = bytes(_PIECE)
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


@contextlib.contextmanager
def clear_errors(what: str, path: Path) -> Iterator[None]:
    """Say what could not be done where, and why.

    Raises:
        Unavailable: in place of an OSError.
    """
    try:
        yield
    except OSError as error:
        where = error.filename or path
        if error.errno in _FULL:
            free = shutil.disk_usage(_existing(path)).free
            text = f"{what}: the disk is full: {where} ({free:,} bytes free); free disk space"
        elif isinstance(error, PermissionError):
            text = f"{what}: {where}: expected the permission to use it, found none"
        else:
            text = f"{what}: {where}: {error.strerror or error}"
        raise Unavailable(text, path=str(where)) from error


def _existing(path: Path) -> Path:
    while not path.exists() and path != path.parent:
        path = path.parent
    return path


def make_folder(path: Path) -> None:
    """Make a folder and its parents, for nobody else to look into."""
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(mode=0o700)


def sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_tree(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


class FileWriter:
    """A file that is written in order, hashed on the way; what is skipped becomes zeros."""

    def __init__(self, path: Path) -> None:
        make_folder(path.parent)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._hash = hashlib.sha256()
        self._end = 0

    def write(self, position: int, data: bytes) -> None:
        assert position >= self._end, "pieces of a file come in order"
        self._skip(position)
        self._hash.update(data)
        view = memoryview(data)
        while len(view):
            written = os.pwrite(self._fd, view, position)
            position += written
            view = view[written:]
        self._end = position

    def _skip(self, position: int) -> None:
        while self._end < position:
            count = min(position - self._end, _PIECE)
            self._hash.update(_ZEROS[:count])
            self._end += count

    def finish(self, *, data_bytes: int, size_bytes: int) -> str:
        """Sync the file at its full length; returns the hash of its first `data_bytes`."""
        self._skip(data_bytes)
        os.ftruncate(self._fd, size_bytes)
        os.fsync(self._fd)
        self.close()
        return self._hash.hexdigest()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def hash_file(path: Path, data_bytes: int) -> str:
    """SHA-256 of a file's first bytes; zeros where it is shorter."""
    result = hashlib.sha256()
    with path.open("rb") as file:
        left = data_bytes
        while left:
            data = file.read(min(_PIECE, left)) or _ZEROS[: min(_PIECE, left)]
            result.update(data)
            left -= len(data)
    return result.hexdigest()


def write_json(path: Path, value: Any) -> None:
    """Replace a small file, at once and for good; a CRC stands before the JSON."""
    text = json.dumps(value, indent=1).encode()
    temporary = path.with_name(path.name + ".tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(b"%08x\n" % crc32(text) + text)
        file.flush()
        os.fsync(fd)
    temporary.replace(path)
    sync_folder(path.parent)


def read_json(path: Path) -> Any:
    """What `write_json` wrote.

    Raises:
        FileNotFoundError: there is no such file.
        CorruptRecord: it is damaged.
    """
    with path.open("rb") as file:
        check, _, text = file.read().partition(b"\n")
    try:
        if int(check, 16) == crc32(text):
            return json.loads(text)
    except ValueError:
        pass
    raise CorruptRecord(
        f"{path}: expected JSON with its CRC, found other bytes", path=str(path), position=0
    )
