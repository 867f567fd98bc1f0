"""A restart in place: other processes do the work of a `dueline serve` that goes on.

    prepare a new broker  ──▶  the old one closes, the new one opens  ──▶  web  ──▶  pipeline
      fails: nothing has         what falls due in this moment is           each ended, and
      changed                    late by it                                 started again

The new processes run the files that are installed now, with the settings that `serve` was started
with. The pipeline goes on while brokers change; while it is started itself the broker stands in for
it. How it went stands in a `Note` in the data folder, for whoever has sent the signal.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final

import msgspec

from dueline.errors import BrokerError, Unavailable
from dueline.server.supervisor import Supervisor
from dueline.server.telling import Prepare, Prepared, Stop, encode
from dueline.server.threads import start_thread

__all__ = ["NOTE_NAME", "Note", "Restart", "has_terminal", "read_note", "write_note"]

NOTE_NAME: Final = "restart.json"
CLOSED_S_MAX: Final = 60.0
"""A broker that takes longer to close its store is killed; opening it repairs it."""
OPENED_S_MAX: Final = 600.0

log = logging.getLogger(__name__)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """How the last restart went; `began_s` is 0 if there was none yet.

    `began_s` is of the system's monotonic clock, which all processes share. `away_s` is the time
    from the order to close to the moment when the new broker accepted.
    """

    pid: int = msgspec.field(default_factory=os.getpid)
    began_s: float = 0.0
    is_done: bool = False
    message: str = ""
    broker_pid: int | None = None
    away_s: float | None = None


def write_note(folder: Path, note: Note) -> None:
    """Replace the note; a full disk must not matter."""
    with contextlib.suppress(OSError):
        new = folder / f"{NOTE_NAME}.tmp"
        new.write_bytes(msgspec.json.encode(note))
        new.replace(folder / NOTE_NAME)


def read_note(folder: Path) -> Note | None:
    """None if there is none that can be read."""
    try:
        return msgspec.json.decode((folder / NOTE_NAME).read_bytes(), type=Note)
    except (OSError, msgspec.MsgspecError):
        return None


def has_terminal() -> bool:
    """Whether this process has a terminal that could be closed."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


class Restart:
    """One restart, in a thread of its own; `start` it once."""

    def __init__(
        self,
        broker: Supervisor,
        others: Sequence[Supervisor],
        settings: dict[str, Any],
        *,
        is_up: bool,
        on_end: Callable[[Note], None],
    ) -> None:
        self._broker = broker
        self._others = others
        self._settings = settings
        self._is_up = is_up
        self._on_end = on_end
        self._began_s = monotonic()
        self._accepting: SimpleQueue[int | None] = SimpleQueue()

    def start(self) -> None:
        start_thread("restart", self._run, on_failure=self._failed)

    def accepts(self, pid: int | None) -> None:
        """A broker with this process number accepts."""
        self._accepting.put(pid)

    def _run(self) -> None:
        try:
            pid, away_s = self._replace_broker()
        except BrokerError as error:
            self._failed(error)
            return
        for other in self._others:
            other.renew()
        self._on_end(
            Note(
                began_s=self._began_s,
                is_done=True,
                message=f"restarted in place: another broker after {away_s:.2f} s, process {pid}",
                broker_pid=pid,
                away_s=away_s,
            )
        )

    def _failed(self, error: BaseException) -> None:
        message = f"not restarted: {error}"
        log.warning("%s", message)
        self._on_end(Note(began_s=self._began_s, message=message))

    def _replace_broker(self) -> tuple[int, float]:
        """The new one's process number, and for how long there was none."""
        if not self._is_up:
            raise Unavailable("the broker has not been up yet")
        self._broker.prepared(encode(Prepare(settings=self._settings)), encode(Prepared()))
        old = self._broker.report().pid
        start_s = monotonic()
        if not self._broker.switch(encode(Stop(fills=False))):
            raise Unavailable("everything is being stopped")
        found = self._successor_of(old, CLOSED_S_MAX)
        if found is None and old is not None:
            self._broker.end_now(old)
            found = self._successor_of(old, OPENED_S_MAX)
        if found is None:
            raise Unavailable("the new broker does not accept; broker.log says why")
        return found, monotonic() - start_s

    def _successor_of(self, old: int | None, seconds_max: float) -> int | None:
        """The next broker that accepts: the one that was prepared, or one after it."""
        end_s = monotonic() + seconds_max
        with contextlib.suppress(Empty):
            while (found := self._accepting.get(timeout=max(end_s - monotonic(), 0))) == old:
                pass
            return found
        return None
