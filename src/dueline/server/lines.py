"""Work that would wait for its like anyway: each line's is done one after the other, in one thread.

Receives of one group and topic take turns (see `dueline.broker.inflight`). With a thread for each
of them, all threads would wait for one lock, with none left for others, and change places for every
message. So those that come while one is at work gather, and one thread does them all:

    submit ──▶ a line, if it is new ──▶ threads ──▶ what has gathered, in order ──▶ its end
                                           ▲                                    │
                                           └── behind other lines ◀── more came ┘

Any thread may submit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Executor

__all__ = ["Lines"]

Work = Callable[[], None]

log = logging.getLogger(__name__)


class Lines:
    """Lines of work, for as many threads as there are."""

    def __init__(self, threads: Executor) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: dict[Hashable, list[Work]] = {}

    def submit(self, line: Hashable, work: Work) -> None:
        """Do this when all that came before it in its line is done.

        Raises:
            RuntimeError: the threads have ended.
        """
        with self._lock:
            if line in self._waiting:
                self._waiting[line].append(work)
                return
            self._threads.submit(self._run, line)
            self._waiting[line] = [work]

    def _run(self, line: Hashable) -> None:
        while self._advance(line):
            try:
                self._threads.submit(self._run, line)
            except RuntimeError:  # no more threads: this one goes on
                continue
            return

    def _advance(self, line: Hashable) -> bool:
        """Do what has gathered; returns whether more has come meanwhile."""
        with self._lock:
            gathered, self._waiting[line] = self._waiting[line], []
        for work in gathered:
            try:
                work()
            except Exception:
                log.exception("work in a line failed")
        with self._lock:
            if not self._waiting[line]:
                del self._waiting[line]
            return line in self._waiting
