"""The thread that has undecided half messages asked for, each second."""

from __future__ import annotations

import logging
import threading
from typing import Final

from dueline.broker.asking import Asking
from dueline.clock import Clock
from dueline.errors import BrokerError
from dueline.server.threads import OnFailure, start_thread

__all__ = ["Asker"]

TURN_S: Final = 1.0

log = logging.getLogger(__name__)


class Asker:
    """`start` it once, `stop` it once."""

    def __init__(
        self, asking: Asking, clock: Clock, *, on_failure: OnFailure, turn_s: float = TURN_S
    ) -> None:
        self._asking = asking
        self._clock = clock
        self._on_failure = on_failure
        self._turn_s: Final = turn_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = start_thread("asker", self._run, on_failure=self._on_failure)

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._turn_s):
            try:
                self._asking.turn(self._clock.now_ms())
            except BrokerError as error:
                log.warning("undecided transactions were not asked for: %s", error)
            except Exception:
                # The boundary of a thread that must go on: the next turn may fare better.
                log.exception("undecided transactions were not asked for")
