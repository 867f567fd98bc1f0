"""Programs that tests start: their lines are read as they come, and none outlives its test.

A program prints JSON objects, one a line (`Event`). What it writes to its error stream, and lines
that are no JSON, are kept for the message of a failing test. On Linux a program also ends when the
test run is killed; it must be started from a thread that lives as long as the run.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import PATIENCE_S, wait_until

Event = dict[str, Any]

STOP_SECONDS_MAX = 20.0
_LINES_MAX = 200
_SET_PARENT_DEATH_SIGNAL = 1
_libc = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """In the new process, before its program starts."""
    _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)


class Process:
    """One started program; leave the `with` block and it is gone."""

    def __init__(
        self, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        self.command = command
        self._events: list[Event] = []
        self._noise: list[str] = []
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            preexec_fn=_end_with_parent if sys.platform == "linux" else None,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop() if kind is None else self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def events(self, name: str | None = None) -> list[Event]:
        """What happened so far, of one kind or of all."""
        with self._lock:
            return [event for event in self._events if name in (None, event["event"])]

    def wait_events(
        self,
        name: str,
        count: int = 1,
        *,
        of: Callable[[Event], bool] = lambda event: True,
    ) -> list[Event]:
        """At least `count` events of a kind; fails if the program ends before."""

        def enough() -> list[Event] | None:
            found = [event for event in self.events(name) if of(event)]
            if len(found) >= count:
                return found
            if not self.is_running:
                self._reader.join()
                found = [event for event in self.events(name) if of(event)]
                assert len(found) >= count, f"ended with {len(found)} of {count}: {self.story()}"
            return None

        try:
            return wait_until(enough, what=f"{count} x {name}")
        except TimeoutError as error:
            raise TimeoutError(f"{error}; {self.story()}") from None

    def finish(self) -> list[Event]:
        """Wait until the program ends by itself, and give all its events."""
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"still running after {PATIENCE_S:g} s; {self.story()}") from None
        self._reader.join()
        return self.events()

    def end_input(self) -> None:
        """Close the program's input: what ours take as a request to leave."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def stop(self, *, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """Ask it to leave, politely, then firmly; returns its exit code."""
        if self.is_running:
            self.end_input()
            self._process.terminate()
        try:
            self._process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.kill()
        self._close()
        return self._process.returncode

    def kill(self) -> None:
        """End it at once, as a power failure would."""
        if self.is_running:
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._close()

    def story(self) -> str:
        """What it did and said, for a person who has to find out why."""
        with self._lock:
            lines = [*map(str, self._events[-20:]), *self._noise[-40:]]
        return f"{' '.join(self.command[-12:])}\n" + "\n".join(lines)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            try:
                event = json.loads(line)
                is_event = isinstance(event, dict) and "event" in event
            except ValueError:
                is_event = False
            with self._lock:
                if is_event:
                    self._events.append(event)
                else:
                    self._noise.append(line.rstrip())
                    del self._noise[:-_LINES_MAX]

    def _close(self) -> None:
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()
