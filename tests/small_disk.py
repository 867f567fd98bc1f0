"""A real disk that is small: a file system in memory, mounted for a test, filled up and freed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A mounted file system and a foreign file on it that takes its space."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    @property
    def free_bytes(self) -> int:
        return shutil.disk_usage(self.path).free

    def fill(self, *, but_bytes: int = 0) -> None:
        with self._ballast.open("ab", buffering=0) as file:
            while (size := self.free_bytes - but_bytes) > 0:
                file.write(bytes(min(size, 4096)))

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def mounted(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """A disk of this size; skips the test where nothing may be mounted."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(path)]
    if shutil.which("mount") is None:
        pytest.skip("mounting a small file system: there is no mount command")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting a small file system is not permitted: {done.stderr.strip()}")
    try:
        yield SmallDisk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
