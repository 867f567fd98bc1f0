"""The thread that writes receipts: acknowledgements that wait together go to disk together.

While one group of them is on its way to the disk the next one gathers, as with messages (see
`writer`). It sleeps when there is nothing to write.
"""

from __future__ import annotations

import threading

from dueline.broker.inflight import InFlight
from dueline.server.threads import OnFailure, start_thread

__all__ = ["ReceiptWriter"]


class ReceiptWriter:
    """Writes what gathers in the receipts' log, from `start` to `stop`."""

    def __init__(self, inflight: InFlight, *, on_failure: OnFailure) -> None:
        self._inflight = inflight
        self._on_failure = on_failure
        self._news = threading.Event()
        self._is_stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._inflight.on_gathered(self._news.set)
        self._thread = start_thread("receipts", self._run, on_failure=self._on_failure)

    def stop(self) -> None:
        """End; what gathers from now on is written when the log is closed."""
        self._is_stopping = True
        self._news.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            self._news.wait()
            # Cleared before it is written: what gathers meanwhile sets it again.
            self._news.clear()
            self._inflight.flush()
