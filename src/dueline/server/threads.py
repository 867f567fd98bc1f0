"""Threads that may not die in silence.

A broker whose writer or gate thread has ended still answers some requests, which is worse than not
running. So each of its threads is started here: if its function raises, the error is logged and
handed to `on_failure`, and the broker stops.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

__all__ = ["OnFailure", "Worker", "start_thread"]

OnFailure = Callable[[BaseException], None]

log = logging.getLogger(__name__)


def start_thread(
    name: str, target: Callable[[], None], *, on_failure: OnFailure
) -> threading.Thread:
    """Run `target` in a thread; what it raises goes to `on_failure`."""

    def run() -> None:
        try:
            target()
        except BaseException as error:
            # The boundary of a thread: there is no caller to raise to.
            log.exception("the thread %s ended", name)
            on_failure(error)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


class Worker(ABC):
    """One thread that works from `start` to `stop`; each is called once."""

    def __init__(self, name: str, *, on_failure: OnFailure) -> None:
        self._name = name
        self._on_failure = on_failure
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = start_thread(self._name, self._run, on_failure=self._on_failure)

    def stop(self) -> None:
        """Return when it has ended; what it is at is finished first."""
        self._stopping.set()
        self._wake()
        if self._thread is not None:
            self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Work until `_stopping` is set."""

    def _wake(self) -> None:  # noqa: B027 - who waits for nothing but `_stopping` needs none
        """Let it look at `_stopping`."""
