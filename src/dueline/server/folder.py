"""The data folder of one `dueline serve`: made if it is not there, and locked.

The lock is that of the parent and its broker together (`flock`: it belongs to the open file, which
the broker inherits). So it is free only when both have ended. A parent that was killed leaves a
broker behind that ends at once; who starts the next one waits for that. A parent that goes on
running is a reason to refuse.

The store has a lock of its own, which keeps everybody else away (`dueline check`, an import).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path
from typing import Final

from dueline.errors import StoreLocked, Unavailable

__all__ = ["LOCK_NAME", "ServeLock", "make_folder", "owner_of"]

LOCK_NAME: Final = "serve.lock"
ORPHAN_S_MAX: Final = 20.0
RUNNING_S_MAX: Final = 1.0
"""A process that was killed is there for another moment."""

_POLL_S: Final = 0.02


def make_folder(folder: Path) -> None:
    """Make the folder, for its owner alone and for good.

    Raises:
        Unavailable: it cannot be made or written into.
    """
    try:
        _make(folder)
        _check_writable(folder)
    except OSError as error:
        raise Unavailable(
            f"data folder {folder}: expected to write into it, found: {error.strerror}; "
            "choose another one with --data"
        ) from error


def _check_writable(folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _make(folder: Path) -> None:
    if folder.is_dir():
        return
    _make(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    descriptor = os.open(folder.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ServeLock:
    """Held from the start of `dueline serve` until it and its broker have ended."""

    def __init__(self, folder: Path, *, seconds_max: float = ORPHAN_S_MAX) -> None:
        """Take the lock; waits only for what a parent that is gone has left behind.

        Raises:
            StoreLocked: another `dueline serve` runs on the folder.
        """
        self.descriptor: Final = os.open(
            folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            self._take(folder, seconds_max)
        except BaseException:
            self.release()
            raise
        text = f"{os.getpid()}\n".encode()
        with contextlib.suppress(OSError):  # for people only: a full disk must not matter
            os.pwrite(self.descriptor, text, 0)
            os.ftruncate(self.descriptor, len(text))

    def _take(self, folder: Path, seconds_max: float) -> None:
        start_s = time.monotonic()
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(self.descriptor, 32, 0).decode("ascii", "replace").strip()
                patience_s = RUNNING_S_MAX if _is_running(owner) else seconds_max
                if time.monotonic() - start_s > patience_s:
                    raise StoreLocked(
                        f"data folder {folder} is in use by process {owner or 'unknown'}; stop "
                        "that process or choose another folder",
                        path=str(folder),
                        owner=owner,
                    ) from None
                time.sleep(_POLL_S)
            else:
                return

    def release(self) -> None:
        os.close(self.descriptor)


def owner_of(folder: Path) -> int | None:
    """The process number of the `dueline serve` that runs on a folder; None if there is none."""
    try:
        text = (folder / LOCK_NAME).read_text().strip()
    except OSError:
        return None
    return int(text) if _is_running(text) else None


def _is_running(owner: str) -> bool:
    """Whether such a process is there and has not ended; one that was just killed is no more."""
    if not owner.isdigit() or int(owner) == os.getpid():
        return False
    try:
        os.kill(int(owner), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        stat = Path(f"/proc/{owner}/stat").read_text()
    except OSError:  # a system without /proc, or it is gone by now
        return Path("/proc/self").exists() is False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")
