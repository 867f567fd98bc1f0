"""Looking through a whole store, stopped or running, without changing anything.

The order matters beside a running broker: the small files first, then checkpoint and states, then
the delay log, then the commit log. What was done with a message stands in a log that is read later
than the one that says it was accepted, so nothing that happens meanwhile looks like a mistake; what
may still look like one (a file that was deleted or replaced while it was looked for) is only told
if a second reading finds it too.

Nothing is written, created or locked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from dueline.audit.commits import CommitCheck
from dueline.audit.delays import DelayCheck
from dueline.audit.findings import Findings, Severity
from dueline.audit.groups import GroupWatch
from dueline.audit.small_files import TableCheck
from dueline.audit.snapshot import LogFolder, Snapshot, take
from dueline.audit.walk import LogWalk
from dueline.errors import NotFound, StoreLocked
from dueline.store.core import COMMIT_LOG, DELAY_LOG
from dueline.store.files import Files

__all__ = ["Audit", "Progress", "audit", "find_store"]

READINGS_MAX: Final = 3

Progress = Callable[[str, int, int], None]
"""Told what is read, how many bytes of it, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The result: what was found, and how much there is."""

    path: Path
    findings: Findings
    is_running: bool
    counts: dict[str, int] = field(default_factory=dict)
    next_due_ms: int | None = None

    @property
    def exit_code(self) -> int:
        return int(self.findings.worst)

    @property
    def verdict(self) -> str:
        words = {Severity.NOTE: "sound", Severity.REPAIR: "repairable", Severity.LOSS: "damaged"}
        return words[self.findings.worst]

    def to_json(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "is_running": self.is_running,
            "counts": self.counts,
            "next_due_ms": self.next_due_ms,
            "findings": [finding.to_json() for finding in self.findings.kept],
            "left_out": [
                {"severity": severity.name.lower(), "kind": kind, "count": count}
                for severity, kind, count in self.findings.left_out()
            ],
        }


def audit(
    path: Path,
    *,
    files: Files | None = None,
    progress: Progress = lambda what, done, total: None,
    is_running: bool | None = None,
) -> Audit:
    """Look through the store in a folder: a broker's data folder, or the store itself.

    Args:
        is_running: whether a process writes to it meanwhile; None finds out by its lock.

    Raises:
        NotFound: there is no store.
    """
    files = files or Files()
    data, root = find_store(path, files)
    if is_running is None:
        is_running = _is_locked(root, files)
    reading = _Reading(
        path=path, data=data, root=root, files=files, progress=progress, is_running=is_running
    )
    found = reading.run()
    for _ in range(1, READINGS_MAX):
        if not (is_running and found.exit_code):
            break
        again = reading.run()
        found = replace(again, findings=found.findings.confirmed_by(again.findings))
    return found


def find_store(path: Path, files: Files) -> tuple[Path | None, Path]:
    """The data folder, if it is one, and the store's."""
    for data, root in ((path, path / "store"), (None, path)):
        if (root / DELAY_LOG).is_dir() or (root / COMMIT_LOG).is_dir():
            return data, root
    names = ", ".join(files.all_names(path)[:5]) if path.is_dir() else ""
    raise NotFound(
        f"{path}: expected a broker's data folder or a store ({COMMIT_LOG} and {DELAY_LOG} in it), "
        f"found {names or ('an empty folder' if path.is_dir() else 'nothing there')}",
        path=str(path),
    )


def _is_locked(root: Path, files: Files) -> bool:
    try:
        lock = files.lock_shared(root / "lock")
    except StoreLocked:
        return True
    if lock is not None:
        lock.release()
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """One look through everything."""

    path: Path
    data: Path | None
    root: Path
    files: Files
    progress: Progress
    is_running: bool

    def run(self) -> Audit:
        findings = Findings()
        tables = TableCheck(self.data, self.root, self.files, findings)
        tables.read()
        snapshot = take(self.root, self.files, findings)
        delays = DelayCheck(snapshot, self.files, findings)
        commits = CommitCheck(snapshot, self.files, findings)
        for check, log, whole_end in (
            (delays, snapshot.delay, snapshot.whole_ends[0]),
            (commits, snapshot.commit, snapshot.whole_ends[1]),
        ):
            check.walk.progress = _Counter(log, self.progress)
            check.run()
            judge = _LogJudge(log, check.walk, whole_end, findings, is_running=self.is_running)
            judge.run(check.groups)
        tables.compare(commits.queues)
        return Audit(
            path=self.path,
            findings=findings,
            is_running=self.is_running,
            counts=_counts(snapshot, delays, commits),
            next_due_ms=delays.next_due_ms,
        )


def _counts(snapshot: Snapshot, delays: DelayCheck, commits: CommitCheck) -> dict[str, int]:
    return {
        "accepted_delayed": snapshot.next_seq,
        "pending": delays.pending_count,
        "at_gate": commits.at_gate_count,
        "delay_records": delays.walk.record_count,
        "commit_records": commits.walk.record_count,
        "queues": len(commits.queues),
        "visible": sum(queue.log_end - queue.start for queue in commits.queues),
        "delay_log_end": delays.walk.end,
        "commit_log_end": commits.walk.end,
    }


class _Counter:
    """Turns bytes that were read into progress."""

    def __init__(self, log: LogFolder, progress: Progress) -> None:
        self._name = log.name
        self._total = len(log.bases) * log.segment_size_bytes
        self._done = 0
        self._progress = progress

    def __call__(self, size_bytes: int) -> None:
        self._done += size_bytes
        self._progress(self._name, self._done, self._total)


class _LogJudge:
    """What a log's damage means: torn by a crash, or lost."""

    def __init__(
        self,
        log: LogFolder,
        walk: LogWalk,
        whole_end: int,
        findings: Findings,
        *,
        is_running: bool,
    ) -> None:
        self._log = log
        self._walk = walk
        self._whole_end = whole_end
        self._findings = findings
        self._is_running = is_running

    def run(self, groups: GroupWatch) -> None:
        self._judge_segments()
        self._judge_damage(groups.cut)
        self._judge_end()
        for position, text in groups.broken:
            self._findings.loss("group", f"{self._log.name} {position}", text)
        if groups.cut is not None and not self._is_running:
            self._findings.repair(
                "torn tail",
                self._log.name,
                f"the last group, from position {groups.cut} on, has no end: nobody was answered, "
                "opening cuts it",
            )

    def _judge_segments(self) -> None:
        log = self._log
        for base, size in log.odd_sizes.items():
            self._findings.loss(
                "segment",
                f"{log.name}/{base:020d}",
                f"expected {log.segment_size_bytes} bytes, found {size}: the store does not open",
                "restore the file from a backup",
            )
        if log.name == DELAY_LOG:
            return  # segments in which everything is done are deleted, in any order
        present = set(log.bases)
        for base in range(log.start, log.bases[-1] if log.bases else 0, log.segment_size_bytes):
            if base not in present and base not in self._walk.vanished:
                self._findings.loss(
                    "segment",
                    f"{log.name}/{base:020d}",
                    "missing between two others: its messages are lost",
                    "restore the file from a backup",
                )

    def _judge_damage(self, cut: int | None) -> None:
        name = self._log.name
        for damage in self._walk.damage:
            is_torn = damage.is_tail and damage.start >= self._whole_end
            is_torn |= cut is not None and damage.end >= cut and damage.start >= self._whole_end
            if is_torn and self._is_running:
                continue  # it is being written
            size = damage.end - damage.start
            if is_torn:
                text = f"{size} bytes from position {damage.start} on: {damage.reason}; cut away"
                self._findings.repair("torn tail", name, text)
            else:
                self._findings.loss(
                    "record",
                    f"{name} {damage.start}",
                    f"{size} bytes at position {damage.start}: {damage.reason}",
                    "restore a backup",
                )

    def _judge_end(self) -> None:
        """Everything before the end that a checkpoint has seen must be there."""
        if self._walk.end < self._whole_end and not self._log.odd_sizes:
            last = self._whole_end - self._walk.end
            if any(damage.end >= self._whole_end for damage in self._walk.damage):
                return
            if self._log.name == DELAY_LOG and self._is_dropped():
                return
            self._findings.loss(
                "log end",
                self._log.name,
                f"ends at position {self._walk.end}, but the checkpoint knows {last} bytes more",
                "restore a backup",
            )

    def _is_dropped(self) -> bool:
        """Does the log end with segments that were deleted because everything in them was done?"""
        base = self._whole_end - self._whole_end % max(self._log.segment_size_bytes, 1)
        return base not in self._log.bases and base == self._whole_end
