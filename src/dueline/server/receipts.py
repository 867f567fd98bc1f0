"""The thread that writes receipts: acknowledgements that wait together go to disk together.

While one group of them is on its way to the disk the next one gathers, as with messages (see
`writer`). It sleeps when there is nothing to write.
"""

from __future__ import annotations

import threading

from dueline.broker.inflight import InFlight
from dueline.server.threads import OnFailure, Worker

__all__ = ["ReceiptWriter"]


class ReceiptWriter(Worker):
    """Writes what gathers in the receipts' log, from `start` to `stop`; then its `close` does."""

    def __init__(self, inflight: InFlight, *, on_failure: OnFailure) -> None:
        super().__init__("receipts", on_failure=on_failure)
        self._inflight = inflight
        self._news = threading.Event()

    def start(self) -> None:
        self._inflight.on_gathered(self._news.set)
        super().start()

    def _wake(self) -> None:
        self._news.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._news.wait()
            # Cleared before it is written: what gathers meanwhile sets it again.
            self._news.clear()
            self._inflight.flush()
