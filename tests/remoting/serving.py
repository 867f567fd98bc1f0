"""A broker for tests: store, threads and remoting ports in this process, delivery without Spark.

The same parts as in `dueline serve`, except that due messages are carried over by a thread here
instead of by the pipeline: one window each few milliseconds, by the store's own short way.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from dueline import compiled
from dueline.broker import Broker, BrokerOptions
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.quotas import Quotas
from dueline.clock import Clock
from dueline.server.asker import Asker
from dueline.server.process import KERNELS
from dueline.server.receipts import ReceiptWriter
from dueline.server.remoting.limits import Limits
from dueline.server.remoting.listeners import Listener
from dueline.server.remoting.service import RemotingOptions, RemotingService
from dueline.server.threads import start_thread
from dueline.server.ticker import GateTicker
from dueline.server.tls import Tls, TlsOptions
from dueline.server.writer import Writer
from dueline.store import Files, Store, StoreOptions, restore

AHEAD_MS: Final = 1_000
TURN_S: Final = 0.05
ROW_COUNT_MAX: Final = 10_000

SMALL: Final = StoreOptions(
    commit_segment_size_bytes=8 << 20,
    delay_segment_size_bytes=8 << 20,
    queue_file_units=1_000,
    levels="1s 2s 3s 4s 5s 6s 7s 8s 9s 10s 11s 12s 13s 14s 15s 16s 1h 2h",
)


class RunningBroker:
    """A running broker with its ports."""

    def __init__(  # noqa: PLR0913 - what a test may choose, by keyword
        self,
        folder: Path,
        *,
        options: StoreOptions = SMALL,
        rules: BrokerOptions | None = None,
        limits: Limits | None = None,
        tls: TlsOptions | None = None,
        quotas: Quotas | None = None,
        queue_count_max: int = 20_000,
        files: Files | None = None,
        is_compiled: bool = True,
        may_fail: bool = False,
    ) -> None:
        """Prepare.

        Args:
            is_compiled: sends of a turn are read by kernels, where there is Numba.
            may_fail: the test breaks its disk: any of its threads may report that, at any time.
        """
        self._may_fail = may_fail
        has_rows = is_compiled and compiled.load(KERNELS)
        self.failures: list[BaseException] = []
        self.clock = Clock()
        # A message's id has the broker's address in it, so ports are chosen before the store opens.
        self._names = Listener.bind("name server", "127.0.0.1", 0)
        self._listener = Listener.bind("broker", "127.0.0.1", 0)
        options = replace(options, port=self._listener.port)
        self.store = Store.open(folder / "store", options, clock=self.clock, files=files or Files())
        self.offsets = ConsumerOffsets(folder / "consumerOffset.json", Files())
        self._writer = Writer(
            self.store.put_all,
            put_rows=self.store.put_rows,
            count_max=queue_count_max,
            size_bytes_max=256 << 20,
            on_failure=self.failures.append,
        )
        self._ticker = GateTicker(self.store, self.clock, on_failure=self.failures.append)
        self.store.observe(self._ticker)
        self.broker = Broker(
            self.store,
            self.offsets,
            submit=self._writer.submit,
            submit_rows=self._writer.submit_rows if has_rows else None,
            options=rules,
            receipts_path=folder / "receipts" / "receipts.log",
            quotas=quotas,
        )
        self.inflight = self.broker.inflight
        self._receipts = ReceiptWriter(self.inflight, on_failure=self.failures.append)
        self.service = RemotingService(
            self.broker,
            RemotingOptions(
                name_server=self._names,
                broker=self._listener,
                limits=limits or Limits(),
            ),
            tls=Tls(tls, folder / "tls") if tls is not None else None,
            on_failure=self.failures.append,
        )
        self._asker = Asker(self.broker.asking, self.clock, on_failure=self.failures.append)
        self._stopping = threading.Event()
        self._writer.start()
        self._ticker.start()
        self._receipts.start()
        self.service.start()
        self._asker.start()
        self._carrier = start_thread("carrier", self._carry, on_failure=self.failures.append)

    @property
    def name_server(self) -> str:
        return f"127.0.0.1:{self._names.port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.port}"

    def _carry(self) -> None:
        while not self._stopping.wait(TURN_S):
            self.carry_over(ahead_ms=AHEAD_MS)

    def carry_over(self, *, ahead_ms: int) -> None:
        """Deliver what is due until `ahead_ms` from now, as the pipeline would."""
        until_ms = self.clock.now_ms() + ahead_ms
        corner = self.store.next_corner(until_ms=until_ms, row_count_max=ROW_COUNT_MAX)
        window = self.store.window(corner)
        if len(window):
            self.store.deliver([restore.deliveries(self.store.read_window(window))])

    def stop(self) -> None:
        self._stopping.set()
        self._carrier.join()
        self.broker.refuse()
        self._asker.stop()
        self._writer.stop()
        self.service.stop()
        self._receipts.stop()
        self.broker.close()
        self._ticker.stop()
        self.offsets.save()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if error is None and not self._may_fail:
            assert self.failures == []
