"""What a child of `dueline serve` is: how it is started, when it is ready, when it is given up.

    broker ──┐
    pipeline ┼── each with a `Supervisor` of its own, in one small parent
    web … ───┘

To add a child is to write one `Child` and to give it to the parent (`dueline.server.serving`).
Nothing here, or in what it imports, loads Arrow, numpy or gRPC: the parent stays small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["REFUSED_STATUS", "Child", "ChildReport", "Restarts"]

REFUSED_STATUS: Final = 2
"""With this exit status a child says that it cannot work as it was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarts:
    """How a child that has ended is started again: after a pause that doubles.

    `steady_s`: one that was ready for so long is started as if it were the first time.
    `failure_count_max`: so many starts in a row that never became ready, and it is given up; None:
    never.
    """

    pause_s_min: float = 1.0
    pause_s_max: float = 30.0
    steady_s: float = 30.0
    failure_count_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """One child process.

    `name` is for logs and programs, `title` for people. `environ` is all of its environment. What
    it writes to its error output goes to `log_path`. If it `tells`, its standard output is a stream
    of `dueline.server.telling` (the first value that says it is ready makes it so), else it goes to
    the log too. `descriptors` are those that it inherits.

    `is_killed`: at the end it is not asked to end but ended, since nothing depends on its last
    words; so nobody waits for it. `has_scratch`: it gets a folder for temporary files (`TMPDIR`)
    that is removed when it has ended, however that was. `is_optional`: without it the rest goes on.

    `has_spare`: it loads much before it reads its standard input. So while it runs another process
    is started as far as that, to take its place at once.
    """

    name: str
    title: str
    command: tuple[str, ...]
    environ: Mapping[str, str]
    log_path: Path
    restarts: Restarts = field(default_factory=Restarts)
    tells: bool = False
    is_killed: bool = False
    has_scratch: bool = False
    is_optional: bool = False
    has_spare: bool = False
    descriptors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildReport:
    """How a child is doing: `status` is off, starting, ready, waiting or stopped."""

    status: str = "off"
    pid: int | None = None
    start_count: int = 0
    reason: str = ""
