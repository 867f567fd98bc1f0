"""Many tasks with countdowns, a worker that is killed and started again, and what came of it.

The sender notes for each task the earliest time that it may run at: the clock before it was sent,
and the countdown. The worker notes when it ran. Neither asks the broker.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.tasks.notes import VARIABLE, Note, read_notes
from tests.waiting import PATIENCE_S

from dueline.clock import system_time_ms

ROOT: Final = Path(__file__).parents[2]
CELERY: Final = ("celery", "-A", "tests.tasks.celery_app", "worker", "-c", "2", "-l", "WARNING")
DRAMATIQ: Final = ("dramatiq", "tests.tasks.dramatiq_app", "-p", "1", "-t", "4")

Send = Callable[[str, int], object]
"""Sends a task with this name and a countdown in milliseconds."""


class Worker:
    """A worker's processes, in a group of their own, so that a kill takes them all."""

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.log_path: Final = folder / "worker.log"
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "C_FORCE_ROOT": "1", **environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.pid: Final = self._process.pid

    def kill(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> int:
        """Ask it to leave; its exit code."""
        self._process.terminate()
        try:
            return self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.kill()

    def rss_mb(self) -> float:
        """Of all its processes, in megabytes; Linux only."""
        total_kb = 0
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                if os.getpgid(int(status.parent.name)) == self.pid:
                    total_kb += _status_kb(status.read_text())
            except (OSError, ProcessLookupError):
                continue
        return total_kb * 1_024 / 1e6


def _status_kb(text: str) -> int:
    lines = [line for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(lines[0].split()[1]) if lines else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was sent, what ran, when a worker was killed, and how much memory its processes had."""

    earliest_ms: dict[str, int]
    notes: list[Note]
    kills_ms: list[int]
    rss_mb: list[float] = field(default_factory=list)

    def runs_ms(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for note in self.notes:
            found.setdefault(note.name, []).append(note.ran_ms)
        return {name: sorted(times_ms) for name, times_ms in found.items()}

    def lost(self) -> set[str]:
        return set(self.earliest_ms) - {note.name for note in self.notes}

    def early(self) -> list[Note]:
        return [note for note in self.notes if note.ran_ms < self.earliest_ms[note.name]]

    def repeated(self) -> list[str]:
        """Tasks that ran more than once: at work, or not acknowledged yet, when a kill came."""
        return [name for name, times_ms in self.runs_ms().items() if len(times_ms) > 1]

    def unexplained(self) -> list[str]:
        """Tasks that ran again without a kill in between."""
        runs_ms = self.runs_ms()
        return [
            name
            for name in self.repeated()
            for first_ms, second_ms in pairwise(runs_ms[name])
            if not any(first_ms <= kill_ms <= second_ms for kill_ms in self.kills_ms)
        ]

    def late_ms(self) -> list[int]:
        """Of first runs, sorted."""
        return sorted(
            times_ms[0] - self.earliest_ms[name] for name, times_ms in self.runs_ms().items()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Campaign:
    """How many tasks, with what countdowns, and when to kill: when so many of them have run."""

    count: int
    countdown_s: tuple[float, float]
    kill_counts: Sequence[int]
    wait_s: float = 120.0
    seed: int = 0

    def run(self, send: Send, start_worker: Callable[[], Worker], notes: Path) -> Outcome:
        """Send all, kill and start again, and wait until every task has run."""
        chance = random.Random(self.seed)
        worker = start_worker()
        rss_mb: list[float] = []
        try:
            earliest_ms = {}
            for number in range(self.count):
                delay_ms = int(chance.uniform(*self.countdown_s) * 1_000)
                earliest_ms[f"task-{number}"] = system_time_ms() + delay_ms
                send(f"task-{number}", delay_ms)
            kills_ms = []
            for count in self.kill_counts:
                self._wait(count, notes, worker, rss_mb)
                worker.kill()
                kills_ms.append(system_time_ms())
                worker = start_worker()
            self._wait(self.count, notes, worker, rss_mb)
            worker.stop()
        finally:
            worker.__exit__(None, None, None)
        return Outcome(
            earliest_ms=earliest_ms,
            notes=list(read_notes(notes)),
            kills_ms=kills_ms,
            rss_mb=rss_mb,
        )

    def _wait(self, count: int, notes: Path, worker: Worker, rss_mb: list[float]) -> None:
        """Until so many tasks have run, or nothing new has for a while."""
        found, end_s = 0, time.monotonic() + self.wait_s
        while found < count and time.monotonic() < end_s:
            time.sleep(0.1)
            rss_mb.append(worker.rss_mb())
            before, found = found, len({note.name for note in read_notes(notes)})
            if found > before:
                end_s = time.monotonic() + self.wait_s


def environment(broker: str, notes: Path, **more: str) -> dict[str, str]:
    """What the apps read."""
    return {"TASKS_BROKER": broker, VARIABLE: str(notes), **more}
