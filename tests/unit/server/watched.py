"""A supervisor that a test looks at."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.waiting import wait_until

from dueline.server.child import Child, ChildReport, Restarts
from dueline.server.supervisor import Supervisor


class Watched:
    """A supervisor, what it told, and its log."""

    def __init__(self, folder: Path, script: str, **changes: Any) -> None:
        self.told: list[ChildReport] = []
        self.lines: list[bytes] = []
        self.complaints: list[str] = []
        self.given_up: list[tuple[str, int]] = []
        self.failures: list[BaseException] = []
        self.log_path = folder / "child.log"
        child = Child(
            name="pipeline",
            title="Spark",
            command=(sys.executable, "-c", script),
            environ=os.environ,
            log_path=self.log_path,
            restarts=Restarts(pause_s_min=0.01, pause_s_max=0.04),
        )
        self.supervisor = Supervisor(replace(child, **changes), self)

    def changed(self, child: Child, report: ChildReport) -> None:
        self.told.append(report)

    def said(self, child: Child, line: bytes) -> bool:
        self.lines.append(line)
        return not line.startswith(b"#")

    def complained(self, child: Child, text: str) -> None:
        self.complaints.append(text)

    def gave_up(self, child: Child, reason: str, status: int) -> None:
        self.given_up.append((reason, status))

    def failed(self, error: BaseException) -> None:
        self.failures.append(error)

    @property
    def report(self) -> ChildReport:
        return self.supervisor.report()

    @property
    def statuses(self) -> list[str]:
        return [report.status for report in self.told]

    def log(self) -> str:
        return self.log_path.read_text() if self.log_path.exists() else ""

    def wait_for_pid(self) -> int:
        return wait_until(lambda: self.report.pid, "the child's start")
