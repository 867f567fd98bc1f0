"""A place for small stores that are opened thousands of times."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def fast_path() -> Iterator[Path]:
    """A folder in memory where the system has such a place: nothing here needs a real disk."""
    has_memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK)
    folder = Path(tempfile.mkdtemp(prefix="dueline-", dir=MEMORY if has_memory else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
