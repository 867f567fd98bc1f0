"""How many files the operating system lets a broker have open, and how many of them connections.

Each connection is an open file, and the store needs some too: a broker that spends its last one on
a stranger cannot open the next segment. So the limit is raised as far as the process may, before
anything is opened; some files are set aside for everything but connections, and all ports share
the rest (`dueline.server.connections`).
"""

from __future__ import annotations

import contextlib
import resource
from typing import Final

from dueline.errors import Unavailable

__all__ = ["connection_files", "raise_limit"]

RESERVED_COUNT: Final = 1_024
"""For the store, its threads and the pipeline; with few files in all, half of them."""
FILE_COUNT_MIN: Final = 256
FILE_COUNT_MAX: Final = 1 << 20


def raise_limit() -> int:
    """Let the process have as many files as it may; returns how many.

    Raises:
        Unavailable: there are too few to run at all.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    goal = FILE_COUNT_MAX if hard == resource.RLIM_INFINITY else min(hard, FILE_COUNT_MAX)
    count = FILE_COUNT_MAX if soft == resource.RLIM_INFINITY else soft
    # macOS has a lower bound of its own than the one that it names.
    with contextlib.suppress(OSError, ValueError):
        if count < goal:
            resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
            count = goal
    if count < FILE_COUNT_MIN:
        raise Unavailable(
            f"open files: expected that the process may have at least {FILE_COUNT_MIN}, found "
            f"{count}; raise it with `ulimit -n 4096`",
            limit=count,
        )
    return count


def connection_files(file_count: int) -> int:
    """How many of a process's files connections may use."""
    return file_count - min(RESERVED_COUNT, file_count // 2)
