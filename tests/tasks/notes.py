"""What workers did, in a file that any number of processes append to and that outlives a kill."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dueline.clock import system_time_ms

VARIABLE = "DUELINE_NOTES"


@dataclass(frozen=True, slots=True)
class Note:
    """A task has run, at this time."""

    name: str
    ran_ms: int


def note(name: str) -> None:
    """Write one line at once: lines of several processes do not mix."""
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{name} {system_time_ms()}\n".encode())
    finally:
        os.close(file)


def read_notes(path: Path) -> Iterator[Note]:
    """All whole lines so far."""
    if path.exists():
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                name, ran_ms = line.split()
                yield Note(name, int(ran_ms))
