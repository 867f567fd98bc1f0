"""What is used up without being broken: disk space, and the descriptors of a process."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from dueline.errors import Unavailable

__all__ = ["Disk", "Spend", "full_disk_is_unavailable", "with_room"]

_FULL_ERRNOS: Final = (errno.ENOSPC, errno.EDQUOT)
_FILES_ERRNOS: Final = (errno.EMFILE, errno.ENFILE)

Spend = Callable[[], bool]
"""Gives back disk space that was kept back; False: there is none left."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """How full a disk is; what only its owner may use counts as neither used nor free."""

    used_bytes: int
    free_bytes: int

    @property
    def size_bytes(self) -> int:
        return self.used_bytes + self.free_bytes

    @property
    def used_ratio(self) -> float:
        return self.used_bytes / self.size_bytes if self.size_bytes else 0.0


@contextlib.contextmanager
def full_disk_is_unavailable(path: Path) -> Iterator[None]:
    """Turn the operating system's "no space left" into our error for it, and "too many files"."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL_ERRNOS:
            raise Unavailable(
                f"disk full: expected room for {path}, found none; free disk space, then try again",
                path=str(path),
            ) from error
        if error.errno in _FILES_ERRNOS:
            raise Unavailable(
                f"too many open files: expected to open {path}, found no free descriptor "
                f"({error.strerror}); close connections or raise the limit (ulimit -n), then try "
                "again",
                path=str(path),
            ) from error
        raise


def with_room(step: Callable[[], _Result], spend: Spend | None) -> _Result:
    """Do what may need disk space, if need be with space that was kept back."""
    while True:
        try:
            return step()
        except OSError as error:
            if error.errno not in _FULL_ERRNOS or spend is None or not spend():
                raise
