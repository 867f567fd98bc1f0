"""An event loop in a thread, for programs that have none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Loop"]

T = TypeVar("T")


class Loop:
    """Runs coroutines in a thread of its own; any other thread may call it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="dueline-client", daemon=True
        )
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin with it, and go on."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for its end."""
        future: Future[T] | None = None
        try:
            future = self.start(work)
            return future.result()
        except BaseException:
            if future is not None:
                future.cancel()  # Ctrl-C: nobody waits for it any more
            raise

    def close(self) -> None:
        """Cancel what was left under way, so that it ends in order; then end the thread."""
        self.run(_end_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_others() -> None:
    await end_tasks(task for task in asyncio.all_tasks() if task is not asyncio.current_task())


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and return when they have ended."""
    ending = list(tasks)
    for task in ending:
        task.cancel()
    await asyncio.gather(*ending, return_exceptions=True)
