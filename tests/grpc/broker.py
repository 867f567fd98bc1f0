"""A whole broker with a gRPC port and a stand-in for Spark, in a thread or as a program.

    python -m tests.grpc.broker FOLDER [--port N] [--attempts N] …

As a program it prints one JSON line when it serves and stops when its input ends, so that a test
can kill it and start another on the same folder. The stand-in carries due messages over with the
same functions that Spark's tasks call, in one process.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.unit.store.making import routed

from dueline.broker import Broker, BrokerOptions
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.retries import RetryOptions
from dueline.broker.transactions import TransactionOptions
from dueline.clock import Clock
from dueline.server.asker import Asker
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.server import GrpcServer
from dueline.server.receipts import ReceiptWriter
from dueline.server.ticker import GateTicker
from dueline.server.tls import Tls, TlsOptions
from dueline.server.writer import Writer
from dueline.store import CORNER_START, Files, Store, StoreOptions
from dueline.store.carrying import carried

SMALL = StoreOptions(commit_segment_size_bytes=64 << 20, delay_segment_size_bytes=64 << 20)


class TestBroker:
    """Everything between the port and the disk."""

    __test__ = False

    def __init__(
        self,
        folder: Path,
        options: GrpcOptions,
        *,
        rules: BrokerOptions | None = None,
        mode: str = "permissive",
    ) -> None:
        self.folder = folder
        self.failures: list[BaseException] = []
        self.store = Store.open(folder / "store", SMALL, clock=Clock())
        self.writer = Writer(
            self.store.put_all,
            count_max=20_000,
            size_bytes_max=1 << 28,
            on_failure=self.failures.append,
        )
        offsets = ConsumerOffsets(folder / "consumerOffset.json", Files())
        self.broker = Broker(
            self.store,
            offsets,
            submit=self.writer.submit,
            options=rules,
            receipts_path=folder / "receipts" / "receipts.log",
        )
        self.inflight = self.broker.inflight
        self.receipts = ReceiptWriter(self.inflight, on_failure=self.failures.append)
        self.ticker = GateTicker(self.store, self.store.clock, on_failure=self.failures.append)
        self.store.observe(self.ticker)
        self.server = GrpcServer(
            self.broker,
            options,
            tls=Tls(TlsOptions(mode=mode), folder / "tls"),
            on_failure=self.failures.append,
        )
        self._stopping = threading.Event()
        self._carrier = threading.Thread(target=self._carry, daemon=True)
        self.asker = Asker(self.broker.asking, self.store.clock, on_failure=self.failures.append)
        self._parts = (self.writer, self.receipts, self.ticker, self.server, self.asker)

    def __enter__(self) -> Self:
        for part in self._parts:
            part.start()
        self._carrier.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.broker.refuse()
        self._stopping.set()
        self._carrier.join()
        for part in (self.asker, self.server, self.writer, self.receipts, self.ticker):
            part.stop()
        self.broker.close()
        self.store.close()
        assert not self.failures, self.failures

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self.server.port}"

    @property
    def polls_waiting(self) -> int:
        """How many receives wait: each watches its topic and its group's retries."""
        return len(self.broker.reading.watches) // 2

    def _carry(self) -> None:
        """What Spark does, every few milliseconds."""
        while not self._stopping.wait(0.02):
            until_ms = self.store.clock.now_ms() + 2_000
            corner = self.store.next_corner(
                until_ms=until_ms, row_count_max=10_000, start=CORNER_START
            )
            window = self.store.window(corner)
            if len(window):
                rows = self.store.read_window(window)
                self.store.deliver(list(carried(rows, routed(rows))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--attempts", type=int)
    parser.add_argument("--invisible-min", type=int, default=500)
    parser.add_argument("--ask-first", type=int, default=2_000)
    parser.add_argument("--tls", default="permissive")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    options = GrpcOptions(
        address=f"127.0.0.1:{arguments.port}",
        invisible_ms_min=arguments.invisible_min,
    )
    rules = BrokerOptions(
        retries=RetryOptions(attempt_count_max=arguments.attempts),
        transactions=TransactionOptions(first_ask_ms=arguments.ask_first, ask_interval_ms=5_000),
    )
    with TestBroker(arguments.folder, options, rules=rules, mode=arguments.tls) as broker:
        _say(event="ready", port=broker.server.port)
        sys.stdin.read()
    _say(event="stopped")


def _say(**event: Any) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
