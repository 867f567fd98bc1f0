"""Is this the broker's own machine? Then its files can be mapped instead of sent.

The same boot of the same kernel is not enough, since containers share it: the folder must also be
the very same one, by device and inode.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from dueline.flight.protocol import FileAccess

__all__ = ["access_to", "is_here"]

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def access_to(folder: Path, segment_size_bytes: int) -> FileAccess | None:
    """What the broker tells about its delay log's folder; None if the system has no boot id."""
    machine = _machine()
    if not machine:
        return None
    return FileAccess(
        machine=machine,
        folder=str(folder.resolve()),
        folder_id=_identity(folder),
        segment_size_bytes=segment_size_bytes,
    )


def is_here(access: FileAccess) -> bool:
    """Whether this process sees the broker's folder under the name that the broker uses."""
    folder = Path(access.folder)
    return (
        access.machine == _machine()
        and _identity(folder) == access.folder_id
        and os.access(folder, os.R_OK | os.X_OK)
    )


def _machine() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def _identity(folder: Path) -> str:
    try:
        status = folder.stat()
    except OSError:
        return ""
    return f"{status.st_dev}:{status.st_ino}"
