"""The housekeeping of a running broker, in one thread.

    each second    is there room on the disk; what has expired by its topic's rule; a checkpoint,
                   if the store says that enough has come together
    each 5 s       the consumer groups' offsets, if they changed; what waits, if a quota is on it
    each minute    a checkpoint, if anything changed; retention and compaction; a word of warning
                   if the wall clock was set far back

Failures that close the store stop the broker. Any other is logged and tried again next time: a
retention run that fails for want of a permission must not stop sends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from dueline.broker.housekeeping import Housekeeping
from dueline.errors import BrokerError, StoreClosed
from dueline.server.threads import OnFailure, Worker

__all__ = ["Caretaker"]

TURN_S: Final = 1.0
OFFSETS_TURNS: Final = 5
RETRY_TURNS: Final = 10
"""A checkpoint that found no disk space is much work: it is not tried again in the next second."""

CHECKPOINT_TURNS: Final = 60

log = logging.getLogger(__name__)


class Caretaker(Worker):
    """Does each chore when it is due."""

    def __init__(self, chores: Housekeeping, *, on_failure: OnFailure) -> None:
        super().__init__("caretaker", on_failure=on_failure)
        self._chores = chores
        self._is_maintained = True

    def _run(self) -> None:
        turn = 0
        while not self._stopping.wait(TURN_S):
            turn += 1
            self.turn(turn)

    def turn(self, number: int) -> None:
        """One second's work."""
        self._do("looking at the disk", self._chores.look_at_disk)
        self._do("keeping the rules of the road", self._chores.keep_rules)
        if self._is_maintained or number % RETRY_TURNS == 0:
            self._is_maintained = self._do("maintenance", self._chores.maintain)
        if number % OFFSETS_TURNS == 0:
            self._do("saving offsets", self._chores.save_offsets)
            self._do("counting what waits", self._chores.count_pending)
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
