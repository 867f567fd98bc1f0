"""How other threads hand work to the event loop: many calls, one wake-up.

`loop.call_soon_threadsafe` writes to a pipe each time. The store's writer answers whole groups of
sends at once, so calls are collected here and the loop is woken once for all of them. The loop's
own thread may post, too: then nothing has to be woken.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

__all__ = ["Outbox"]

log = logging.getLogger(__name__)


class Outbox:
    """Calls from any thread, made in the loop's thread in the order they came."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._calls: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    def post(self, call: Callable[[], None]) -> None:
        """Make this call soon; never blocks. After the loop's end it is dropped."""
        self._calls.append(call)
        if self._is_scheduled:
            return
        self._is_scheduled = True
        if asyncio._get_running_loop() is self._loop:
            self._loop.call_soon(self._drain)
            return
        try:
            self._loop.call_soon_threadsafe(self._drain)
        except RuntimeError:  # the loop is closed
            self._calls.clear()

    def _drain(self) -> None:
        # First the flag: who posts from now on schedules again, and no call is left behind.
        self._is_scheduled = False
        for _ in range(len(self._calls)):
            call = self._calls.popleft()
            try:
                call()
            except Exception:
                log.exception("a call from another thread failed")
