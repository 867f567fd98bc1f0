"""Where a server of a messaging protocol runs: a loop, threads for what blocks, the way back.

The loop's thread has the connections; nothing else touches them. Threads of the store come back by
the outbox, work for `threads` by its future. It is the `Loop` that `dueline.broker.writing` wants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TypeVar

from dueline.server.outbox import Outbox

__all__ = ["Runtime"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """An event loop and its helpers."""

    loop: asyncio.AbstractEventLoop
    outbox: Outbox
    threads: Executor

    def soon(self, call: Callable[[], None]) -> object:
        """Call at the end of this turn of the loop."""
        return self.loop.call_soon(call)

    def post(self, call: Callable[[], None]) -> None:
        """Call in the loop's thread; for any other thread."""
        self.outbox.post(call)

    def in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run what may block in a thread."""
        return self.loop.run_in_executor(self.threads, work)

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """The same with a callback, in the loop's thread."""
        self.in_thread(work).add_done_callback(lambda future: done(future.exception()))
