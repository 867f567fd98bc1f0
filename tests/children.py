"""The children of a running `dueline serve`, found by the system (Linux)."""

from __future__ import annotations

import contextlib
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """The processes that a process has started and that still run."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(word) for word in (task / "children").read_text().split()]
    return found


def broker_pid(parent: int) -> int:
    """The broker of the `dueline serve` with this process number; its spare is younger."""
    found = []
    for pid in children_of(parent):
        with contextlib.suppress(OSError):
            if b"dueline.server.broker_child" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append((_started_at(pid), pid))
    if not found:
        raise LookupError(f"process {parent}: expected a broker below it, found none")
    return min(found)[1]


def _started_at(pid: int) -> int:
    """In ticks since the machine was."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
