"""Stores to back up, and destinations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.store.making import START_MS, Wall, bodies, delayed, open_store, ordinary

from dueline.backup.source import FolderSource


def make_data(folder: Path, *sent: bytes) -> Path:
    """The data folder of a broker that was stopped."""
    with open_store(folder / "store", Wall()) as store:
        for body in sent:
            store.put(ordinary(body))
        store.put(delayed(60_000, b"later"))
    (folder / "consumerOffset.json").write_text('{"offsetTable": {}}')
    return folder


def source(folder: Path, *, now_ms: int = START_MS) -> FolderSource:
    return FolderSource(folder, now_ms=now_ms)


def visible(folder: Path) -> list[bytes]:
    """What a broker on this data folder would show."""
    with open_store(folder / "store", Wall()) as store:
        return bodies(store)


def is_free_for_others(lock: Path) -> bool:
    """Whether another process could take a lock file for itself; locks are those of processes."""
    code = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    return (
        subprocess.run(
            [sys.executable, "-Sc", code, str(lock)], stderr=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )
