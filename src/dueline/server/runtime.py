"""Where a server of a messaging protocol runs: a loop, threads for what blocks, the way back.

The loop's thread has the connections; nothing else touches them. Threads of the store come back by
the outbox, work for `threads` by its future. It is the `Loop` that `dueline.broker.writing` wants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from dueline.server.lines import Lines
from dueline.server.outbox import Outbox

__all__ = ["Runtime"]

T = TypeVar("T")


class Runtime:
    """An event loop and its helpers."""

    def __init__(self, loop: asyncio.AbstractEventLoop, outbox: Outbox, threads: Executor) -> None:
        self.loop: Final = loop
        self.outbox: Final = outbox
        self.threads: Final = threads
        self.lines: Final = Lines(threads)
        # As they are, and not by methods of ours: each send comes by here.
        self.soon: Callable[[Callable[[], None]], object] = loop.call_soon
        self.post: Callable[[Callable[[], None]], None] = outbox.post

    def in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run what may block in a thread."""
        return self.loop.run_in_executor(self.threads, work)

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        """The same with a callback, in the loop's thread."""
        self.in_thread(work).add_done_callback(lambda future: done(future.exception()))
