"""Keeps one child process running.

               start                        it is ready
    (off)  ─────────────▶  starting  ─────────────────────▶  ready
                            ▲    │ ended                       │ ended
                            │    ▼                             ▼
                            └─ waiting (a pause) ◀─────────────┘          any ── stop ──▶ stopped

Each child has a supervisor with threads of its own, so one that ends is started again whatever the
others do. Two ends are final. A child that ends with status 2 before it has ever been ready cannot
work as it was started. And one that has failed too often in a row to become ready (`Restarts`) is
given up.

A child's error output goes to a file that is kept small; its last warning is remembered as the
reason of its end. The child leads a process group of its own, so that Ctrl-C in the terminal
reaches only us and we can end it in order; when it ends, whatever is left of its group is ended
too.

A child that loads much can have a spare: a process that was started beforehand and has read nothing
yet. The one that orders the child to begin notices no difference. `prepared` and `switch` replace a
child that runs by a new one, which has loaded everything when the old one is told to end.

No orphans: the child's standard input is a pipe that we hold. If we die, however suddenly, the
system closes it, and the child stops by itself.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import replace
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Final, Protocol

from dueline.errors import Unavailable
from dueline.server.child import REFUSED_STATUS, Child, ChildReport
from dueline.server.rotating import RotatingFile
from dueline.server.threads import start_thread

__all__ = ["Listener", "Supervisor"]

STOP_S_MAX: Final = 15.0
SPARE_AFTER_S: Final = 20.0
"""Not at once: others are being started then, too."""
PREPARED_S_MAX: Final = 120.0
_GROUP_S_MAX: Final = 5.0
_GROUP_POLL_S: Final = 0.02
_REASON_MARKS: Final = (" CRITICAL ", " WARNING ", " ERROR ")

log = logging.getLogger(__name__)


class Listener(Protocol):
    """What is told of a child; calls come from its supervisor's threads."""

    def changed(self, child: Child, report: ChildReport) -> None:
        """Its status has changed."""

    def said(self, child: Child, line: bytes) -> bool:
        """A line of one that tells; False if it means nothing and belongs into the log."""

    def complained(self, child: Child, text: str) -> None:
        """It wrote a warning or an error to its log."""

    def gave_up(self, child: Child, reason: str, status: int) -> None:
        """It has ended with this status and is not started again."""

    def failed(self, error: BaseException) -> None:
        """A thread of the supervisor ended with an error."""


class Supervisor:
    """A child process that is started again whenever it ends."""

    def __init__(self, child: Child, listener: Listener, *, log_file: RotatingFile | None = None):
        """`log_file`: one that others write to as well."""
        self.child: Final = child
        self._listener = listener
        self._log = log_file or RotatingFile(child.log_path)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._spare: subprocess.Popen[bytes] | None = None
        self._fresh: subprocess.Popen[bytes] | None = None
        self._is_replaced = False
        self._report = ChildReport()
        self._ready_s: float | None = None
        self._was_ready = False
        self._warning = ""
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = start_thread(
            f"{self.child.name} supervisor", self._run, on_failure=self._listener.failed
        )

    def report(self) -> ChildReport:
        return self._report

    def ready(self) -> None:
        """It does its work; who says so depends on the child."""
        with self._lock:
            if self._report.status != "starting":
                return
            self._was_ready = True
            self._ready_s = monotonic()
            self._report = replace(self._report, status="ready", reason="")
        self._listener.changed(self.child, self._report)

    def order(self, line: bytes) -> bool:
        """Write a line to its standard input; False if nobody reads it."""
        with self._lock:
            process = self._process
            if process is None or process.stdin is None:
                return False
            try:
                process.stdin.write(line)
                process.stdin.flush()
            except (OSError, ValueError):
                return False
        return True

    # Another one in its place

    def prepared(self, order: bytes, answer: bytes) -> None:
        """Start a process that can take its place, and return when that has loaded everything.

        Args:
            order: the line that asks for it.
            answer: the line that says so.

        Raises:
            Unavailable: it could not be started, or ended; says why. The child goes on.
        """
        try:
            fresh = self._started(self.child.environ)
        except OSError as error:
            raise Unavailable(f"the new process could not be started: {error}") from error
        with self._lock:
            self._fresh = fresh
        assert fresh.stdin is not None
        assert fresh.stdout is not None
        bound = threading.Timer(PREPARED_S_MAX, fresh.kill)
        bound.start()
        with contextlib.suppress(OSError):
            fresh.stdin.write(order)
            fresh.stdin.flush()
        line = fresh.stdout.readline()
        bound.cancel()
        if line != answer or self._stopping.is_set():
            self._end_fresh()
            raise Unavailable(f"the new process could not be loaded: {_last_words(fresh, line)}")

    def switch(self, last_order: bytes) -> bool:
        """Tell it to end, and have the process that was prepared take its place at once.

        False if everything is being stopped.
        """
        with self._lock:
            fresh, self._fresh = self._fresh, None
            if fresh is None or self._stopping.is_set():
                self._fresh = fresh
                return False
            old, self._spare = self._spare, fresh
            self._is_replaced = self._process is not None
            if self._process is not None and self._process.stdin is not None:
                with contextlib.suppress(OSError, ValueError):
                    self._process.stdin.write(last_order)
                    self._process.stdin.flush()
        if old is not None:
            _end_unused(old)
        return True

    def renew(self) -> None:
        """End it and start it again at once."""
        with self._lock:
            process = self._process
            self._is_replaced = process is not None
        if process is not None and self.child.is_killed:
            _signal_group(process.pid, signal.SIGKILL)
        elif process is not None:
            process.terminate()

    def end_now(self, pid: int) -> None:
        """Kill this process if it is still the child's: it did not end when it was told to."""
        with self._lock:
            process = self._process
        if process is not None and process.pid == pid:
            _signal_group(pid, signal.SIGKILL)

    # The end

    def ask_to_end(self) -> None:
        """Do not start it again, and have it end: by itself, or at once if it may be killed."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is None:
            return
        if self.child.is_killed:
            _signal_group(process.pid, signal.SIGKILL)
        else:
            process.terminate()

    def let_end(self) -> None:
        """Do not start it again: it was told to end."""
        self._stopping.set()

    def kill(self) -> None:
        """End it and all that it has started, at once."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None:
            _signal_group(process.pid, signal.SIGKILL)

    def wait(self, seconds_max: float = STOP_S_MAX) -> None:
        """Return when it has ended, and see to it that it does."""
        if self._thread is not None:
            self._thread.join(seconds_max)
            if self._thread.is_alive():
                log.warning("%s did not end within %g s and is killed", self._name, seconds_max)
                self.kill()
                self._thread.join()

    def stop(self) -> None:
        """Have it end; returns when it has."""
        self.ask_to_end()
        self.wait()

    # The supervisor's thread

    @property
    def _name(self) -> str:
        return f"the {self.child.name}"

    def _run(self) -> None:
        try:
            self._keep_running()
        finally:
            self._end_spare()
            self._end_fresh()
            if self._report.status != "stopped":
                self._change(status="stopped", pid=None)

    def _keep_running(self) -> None:
        restarts = self.child.restarts
        pause_s, failure_count = restarts.pause_s_min, 0
        while not self._stopping.is_set():
            try:
                status = self._run_once()
            except OSError as error:  # no descriptor, no memory, no program: perhaps later
                status = -1
                self._warning = f"it could not be started: {error}"
            if self._stopping.is_set():
                return
            if self._is_taken_over():
                continue
            reason = self._reason(status)
            ready_s, self._ready_s = self._ready_s, None
            failure_count = failure_count + 1 if ready_s is None else 0
            if self._is_final(status, failure_count):
                self._change(status="stopped", pid=None, reason=reason)
                self._listener.gave_up(self.child, reason, status)
                return
            if ready_s is not None and monotonic() - ready_s > restarts.steady_s:
                pause_s = restarts.pause_s_min
            self._change(status="waiting", pid=None, reason=reason)
            log.warning("%s ended (%s); starting it again in %g s", self._name, reason, pause_s)
            self._stopping.wait(pause_s)
            pause_s = min(2 * pause_s, restarts.pause_s_max)

    def _is_taken_over(self) -> bool:
        """Whether it has ended because it was replaced."""
        with self._lock:
            is_replaced, self._is_replaced = self._is_replaced, False
        if is_replaced:
            self._ready_s = None
        return is_replaced

    def _reason(self, status: int) -> str:
        if self.child.tells and status < 0:  # its last warning is not why somebody killed it
            return f"killed by signal {-status}"
        return self._warning or f"ended with status {status}; see {self._log.path}"

    def _is_final(self, status: int, failure_count: int) -> bool:
        """No later start would be better, or there were enough of them."""
        failure_count_max = self.child.restarts.failure_count_max
        if status == REFUSED_STATUS and not self._was_ready:
            return True
        return failure_count_max is not None and failure_count >= failure_count_max

    def _run_once(self) -> int:
        """Start the child and wait for its end; returns its status."""
        self._warning = ""
        if not self.child.has_scratch:
            return self._run_process(self.child.environ)
        with TemporaryDirectory(
            prefix=f"dueline-{self.child.name}-", ignore_cleanup_errors=True
        ) as folder:
            return self._run_process({**self.child.environ, "TMPDIR": folder})

    def _run_process(self, environ: Mapping[str, str]) -> int:
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None and spare.poll() is not None:
            _end_unused(spare)
            spare = None
        process = spare or self._started(environ)
        with self._lock:
            self._process = process
        self._change(status="starting", pid=process.pid, start_count=self._report.start_count + 1)
        if self._stopping.is_set():  # it was set before the process was known to `ask_to_end`
            process.kill()
        pumps = self._start_pumps(process)
        status = self._waited(process, environ)
        if self.child.is_killed:  # so is what it left behind; nobody waits for zombies
            _signal_group(process.pid, signal.SIGKILL)
        else:
            _end_group(process.pid, self._name)
        for pump in pumps:
            pump.join(_GROUP_S_MAX)
        with self._lock:
            self._process = None
            if process.stdin is not None:
                with contextlib.suppress(OSError):  # a last order that nobody has read
                    process.stdin.close()
        return status

    def _started(self, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        child = self.child
        return subprocess.Popen(
            child.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if child.tells else subprocess.STDOUT,
            start_new_session=True,
            env=dict(environ),
            pass_fds=child.descriptors,
        )

    def _waited(self, process: subprocess.Popen[bytes], environ: Mapping[str, str]) -> int:
        """The status that it ends with; if it lasts, it gets a spare meanwhile."""
        if self.child.has_spare:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(SPARE_AFTER_S)
            try:
                spare = self._started(environ)
            except OSError as error:
                log.warning("%s has no spare: %s", self._name, error)
            else:
                with self._lock:  # one that was prepared is better
                    unused, self._spare = (spare, self._spare) if self._spare else (None, spare)
                if unused is not None:
                    _end_unused(unused)
        return process.wait()

    def _end_spare(self) -> None:
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None:
            _end_unused(spare)

    def _end_fresh(self) -> None:
        with self._lock:
            fresh, self._fresh = self._fresh, None
        if fresh is not None:
            fresh.kill()

    def _start_pumps(self, process: subprocess.Popen[bytes]) -> list[threading.Thread]:
        targets = [("log", self._pump_log), ("events", self._pump_events)]
        return [
            start_thread(
                f"{self.child.name} {name}",
                lambda pump=pump: pump(process),  # type: ignore[misc]
                on_failure=self._lost_log,
            )
            for name, pump in targets[: 2 if self.child.tells else 1]
        ]

    def _pump_events(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                if not self._listener.said(self.child, line):
                    self._keep(line)

    def _pump_log(self, process: subprocess.Popen[bytes]) -> None:
        """Copy the child's output to the file until its end.

        A line that cannot be written is lost, and the next is read all the same: a child whose
        output nobody reads would stand still.
        """
        output = process.stderr if self.child.tells else process.stdout
        assert output is not None
        with output as lines:
            for line in lines:
                self._keep(line)
                text = line.decode("utf-8", "replace").rstrip()
                if any(mark in text[:60] for mark in _REASON_MARKS):
                    mark = next(mark for mark in _REASON_MARKS if mark in text)
                    self._warning = text.split(mark, 1)[1][:500]
                    self._listener.complained(self.child, self._warning)

    def _keep(self, line: bytes) -> None:
        with contextlib.suppress(OSError):
            self._log.write(line)

    def _lost_log(self, error: BaseException) -> None:
        """The log is not worth stopping for."""
        path = self._log.path
        log.warning("%s: its output is no longer written to %s: %s", self._name, path, error)

    def _change(self, **changes: object) -> None:
        with self._lock:
            report = replace(self._report, **changes)  # type: ignore[arg-type]
            self._report = report
        self._listener.changed(self.child, report)


def _end_unused(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def _last_words(process: subprocess.Popen[bytes], line: bytes) -> str:
    """Why it has ended, from what it wrote."""
    lines = (line + process.communicate()[1]).decode("utf-8", "replace").split("\n")
    written = [each.strip() for each in lines if each.strip()]
    return written[-1][:500] if written else f"it ended with status {process.wait()}"


def _end_group(leader: int, name: str) -> None:
    """Give the rest of an ended child's group (Spark's Java) a moment to go, then end it."""
    end_s = monotonic() + _GROUP_S_MAX
    while _signal_group(leader, 0):
        if monotonic() > end_s:
            log.warning("what %s left behind is killed", name)
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
