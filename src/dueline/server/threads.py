"""Threads that may not die in silence.

A broker whose writer or gate thread has ended still answers some requests, which is worse than not
running. So each of its threads is started here: if its function raises, the error is logged and
handed to `on_failure`, and the broker stops.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

__all__ = ["OnFailure", "start_thread"]

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
