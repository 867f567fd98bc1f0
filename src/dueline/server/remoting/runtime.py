"""Where the remoting servers run: one event loop, a few threads for what blocks, and the way back.

The loop's thread has the connections; nothing else touches them. Threads of the store come back by
the outbox, work for `threads` by its future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from dueline.server.remoting.outbox import Outbox

__all__ = ["Runtime"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """An event loop and its helpers."""

    loop: asyncio.AbstractEventLoop
    outbox: Outbox
    threads: ThreadPoolExecutor

    def in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run what may block in a thread."""
        return self.loop.run_in_executor(self.threads, work)
