"""The thread that has undecided half messages asked for, each second."""

from __future__ import annotations

import logging
from typing import Final

from dueline.broker.asking import Asking
from dueline.clock import Clock
from dueline.errors import BrokerError
from dueline.server.threads import OnFailure, Worker

__all__ = ["Asker"]

TURN_S: Final = 1.0

log = logging.getLogger(__name__)


class Asker(Worker):
    """`start` it once, `stop` it once."""

    def __init__(
        self, asking: Asking, clock: Clock, *, on_failure: OnFailure, turn_s: float = TURN_S
    ) -> None:
        super().__init__("asker", on_failure=on_failure)
        self._asking = asking
        self._clock = clock
        self._turn_s: Final = turn_s

    def _run(self) -> None:
        while not self._stopping.wait(self._turn_s):
            try:
                self._asking.turn(self._clock.now_ms())
            except BrokerError as error:
                log.warning("undecided transactions were not asked for: %s", error)
            except Exception:
                # The boundary of a thread that must go on: the next turn may fare better.
                log.exception("undecided transactions were not asked for")
