"""Keeps one child process running: the pipeline's.

               start                     finished a batch
    (off)  ─────────────▶  starting  ─────────────────────▶  ready
                            ▲    │ ended                       │ ended
                            │    ▼                             ▼
                            └─ waiting (1, 2, 4 … 30 s) ◀──────┘          any ── stop ──▶ stopped

A child that ends with status 2 before it has ever been ready is not started again: its arguments
are wrong, and `on_failure` is told. Later a status of 2 is like any other: what it found wrong may
be mended while the broker goes on accepting.

The child's output goes to a file that is kept small; its last warning is remembered as the reason
of its end. The child leads a process group of its own, so that Ctrl-C in the terminal reaches only
us and we can end it in order; when it ends, whatever is left of its group is ended too.

No orphans: the child's standard input is a pipe that we hold and never write to. If we die, however
suddenly, the system closes it, and the child stops by itself.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from dueline.broker.pipeline import PipelineStatus
from dueline.errors import InvalidRequest
from dueline.server.rotating import RotatingFile
from dueline.server.threads import OnFailure, start_thread

__all__ = ["PipelineRefused", "Supervisor"]

BACKOFF_S_MIN: Final = 1.0
BACKOFF_S_MAX: Final = 30.0
STEADY_S: Final = 30.0
"""A child that was ready and ran so long is restarted at once, as if it were the first time."""

STOP_S_MAX: Final = 15.0
REFUSED_STATUS: Final = 2
"""With this status a child says that its arguments are wrong."""

_GROUP_S_MAX: Final = 5.0
_GROUP_POLL_S: Final = 0.05
_REASON_MARKS: Final = (" CRITICAL ", " WARNING ", " ERROR ")

log = logging.getLogger(__name__)


class PipelineRefused(InvalidRequest):
    """The pipeline cannot work as it is set up, and never has since the start."""


class Supervisor:
    """A child process that is started again whenever it ends."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        *,
        log_path: Path,
        status: PipelineStatus,
        on_failure: OnFailure,
    ) -> None:
        self._command: Final = list(command)
        self._environ: Final = dict(environ)
        self._log = RotatingFile(log_path)
        self._status = status
        self._on_failure = on_failure
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._warning = ""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = start_thread("supervisor", self._run, on_failure=self._on_failure)

    def stop(self) -> None:
        """Ask the child to end, and see to it that it does; returns when it has."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None:
            process.terminate()
        if self._thread is not None:
            self._thread.join(STOP_S_MAX)
            if process is not None and process.poll() is None:
                log.warning("the pipeline did not end within %g s and is killed", STOP_S_MAX)
                _signal_group(process.pid, signal.SIGKILL)
            self._thread.join()
        self._status.stopped()

    # The supervisor's thread

    def _run(self) -> None:
        backoff_s = BACKOFF_S_MIN
        while not self._stopping.is_set():
            started_s = monotonic()
            try:
                status = self._run_once()
            except OSError as error:  # no descriptor, no memory, no program: perhaps later
                status = -1
                self._warning = f"it could not be started: {error}"
            if self._stopping.is_set():
                return
            if status == REFUSED_STATUS and not self._status.has_committed:
                self._refuse()
                return
            is_ready = self._status.report().status == "ready"
            was_steady = is_ready and monotonic() - started_s > STEADY_S
            backoff_s = BACKOFF_S_MIN if was_steady else backoff_s
            reason = self._warning or f"ended with status {status}; see {self._log.path}"
            self._status.waiting(reason)
            log.warning("the pipeline ended (%s); starting it again in %g s", reason, backoff_s)
            self._stopping.wait(backoff_s)
            backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)

    def _refuse(self) -> None:
        """It says that it cannot work as it was started: no later start would be better."""
        self._status.stopped(self._warning)
        self._on_failure(
            PipelineRefused(
                f"the pipeline cannot work as it is set up: {self._warning or self._log.path}"
            )
        )

    def _run_once(self) -> int:
        """Start the child and wait for its end; returns its status."""
        self._warning = ""
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=self._environ,
        )
        with self._lock:
            self._process = process
        self._status.starting(process.pid)
        if self._stopping.is_set():  # it was set before the process was known to `stop`
            process.terminate()
        pump = start_thread("pipeline log", lambda: self._pump(process), on_failure=self._lost_log)
        status = process.wait()
        _end_group(process.pid)
        pump.join(_GROUP_S_MAX)
        with self._lock:
            self._process = None
        if process.stdin is not None:
            process.stdin.close()
        return status

    def _pump(self, process: subprocess.Popen[bytes]) -> None:
        """Copy the child's output to the file until its end.

        A line that cannot be written is lost, and the next is read all the same: a child whose
        output nobody reads would stand still.
        """
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with contextlib.suppress(OSError):
                    self._log.write(line)
                text = line.decode("utf-8", "replace").rstrip()
                if any(mark in text[:60] for mark in _REASON_MARKS):
                    mark = next(mark for mark in _REASON_MARKS if mark in text)
                    self._warning = text.split(mark, 1)[1][:500]
                    self._status.failed(self._warning)

    def _lost_log(self, error: BaseException) -> None:
        """The log is not worth stopping for."""
        log.warning("the pipeline's output is no longer written to %s: %s", self._log.path, error)


def _end_group(leader: int) -> None:
    """Give the rest of an ended child's group (Spark's Java) a moment to go, then end it."""
    end_s = monotonic() + _GROUP_S_MAX
    while _signal_group(leader, 0):
        if monotonic() > end_s:
            log.warning("what the pipeline left behind is killed")
            _signal_group(leader, signal.SIGKILL)
            return
        threading.Event().wait(_GROUP_POLL_S)


def _signal_group(leader: int, number: int) -> bool:
    """Send a signal to a process group; False if there is no such group any more."""
    with contextlib.suppress(PermissionError):  # some systems say so of a group of zombies
        try:
            os.killpg(leader, number)
        except ProcessLookupError:
            return False
        return True
    return False
