"""The thread that writes the audit trail: a few times a second, if there is something to write.

A disk that is full or fails must not stop the broker: it is said in the log, once, and tried again.
"""

from __future__ import annotations

import logging
from typing import Final

from dueline.broker.access import Trail
from dueline.errors import BrokerError
from dueline.server.threads import OnFailure, Worker

__all__ = ["AuditWriter"]

PAUSE_S: Final = 0.2

log = logging.getLogger(__name__)


class AuditWriter(Worker):
    """Writes the lines of a trail, from `start` to `stop`, which writes what was noted before."""

    def __init__(self, trail: Trail, *, on_failure: OnFailure) -> None:
        super().__init__("audit", on_failure=on_failure)
        self._trail = trail
        self._has_failed = False

    def _run(self) -> None:
        while not self._stopping.wait(PAUSE_S):
            self.write()
        self.write()

    def write(self) -> None:
        """Write what was noted; if that fails it is tried again with the next."""
        try:
            self._trail.write()
        except (OSError, BrokerError) as error:
            if not self._has_failed:
                log.warning("the audit trail cannot be written and will be later: %s", error)
            self._has_failed = True
        else:
            self._has_failed = False
