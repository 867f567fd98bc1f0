"""The housekeeping of a running broker, in one thread.

    each second    is there room on the disk; a checkpoint, if the store says that enough has come
                   together
    each 5 s       the consumer groups' offsets, if they changed
    each minute    a checkpoint, if anything changed; retention and compaction; a word of warning
                   if the wall clock was set far back

Failures that close the store stop the broker. Any other is logged and tried again next time: a
retention run that fails for want of a permission must not stop sends.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from dueline.broker.housekeeping import Housekeeping
from dueline.errors import BrokerError, StoreClosed
from dueline.server.threads import OnFailure, start_thread

__all__ = ["Caretaker"]

TURN_S: Final = 1.0
OFFSETS_TURNS: Final = 5
RETRY_TURNS: Final = 10
"""A checkpoint that found no disk space is much work: it is not tried again in the next second."""

CHECKPOINT_TURNS: Final = 60

log = logging.getLogger(__name__)


class Caretaker:
    """Does each chore when it is due."""

    def __init__(self, chores: Housekeeping, *, on_failure: OnFailure) -> None:
        self._chores = chores
        self._on_failure = on_failure
        self._stopping = threading.Event()
        self._is_maintained = True
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = start_thread("caretaker", self._run, on_failure=self._on_failure)

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        turn = 0
        while not self._stopping.wait(TURN_S):
            turn += 1
            self.turn(turn)

    def turn(self, number: int) -> None:
        """One second's work."""
        self._do("looking at the disk", self._chores.look_at_disk)
        if self._is_maintained or number % RETRY_TURNS == 0:
            self._is_maintained = self._do("maintenance", self._chores.maintain)
        if number % OFFSETS_TURNS == 0:
            self._do("saving offsets", self._chores.save_offsets)
        if number % CHECKPOINT_TURNS == 0:
            self._do("checkpoint", self._chores.checkpoint)
            self._do("retention", self._chores.retain)
            self._chores.look_at_clock()

    def _do(self, what: str, work: Callable[[], object]) -> bool:
        """Returns whether it was done."""
        try:
            work()
        except StoreClosed:
            raise
        except (BrokerError, OSError) as error:
            log.warning("%s failed and will be tried again: %s", what, error)
            return False
        return True
