"""How many connections the operating system lets a broker have.

Each connection is an open file, and the store needs some too: a broker that spends its last one on
a stranger cannot open the next segment, and has to stop. So the limit is raised as far as the
process may, some files are set aside for everything but connections, and the ports share the rest.
"""

from __future__ import annotations

import contextlib
import resource
from dataclasses import replace
from typing import Final

from dueline.errors import Unavailable
from dueline.server.remoting.limits import Limits

__all__ = ["fitted"]

RESERVED_COUNT: Final = 512
FILE_COUNT_MIN: Final = 256


def fitted(limits: Limits, *, port_count: int) -> Limits:
    """The same limits with no more connections than there are files for.

    Raises:
        Unavailable: there are too few to run at all.
    """
    if not port_count:
        return limits
    file_count = _raised(RESERVED_COUNT + limits.connection_count_max * port_count)
    if file_count < FILE_COUNT_MIN:
        raise Unavailable(
            f"open files: expected that the process may have at least {FILE_COUNT_MIN}, found "
            f"{file_count}; raise it with `ulimit -n 4096`",
            limit=file_count,
        )
    reserved_count = min(RESERVED_COUNT, file_count // 2)
    room = (file_count - reserved_count) // port_count
    return replace(limits, connection_count_max=min(limits.connection_count_max, room))


def _raised(wanted: int) -> int:
    """How many files the process may have open, after asking for as many as are wanted."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    goal = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    # macOS has a lower bound of its own than the one that it names.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
        return goal
    return soft
