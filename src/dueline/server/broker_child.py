"""The broker as a child of `dueline serve`: `python -m dueline.server.broker_child`.

It takes orders from its standard input and tells what happens on its standard output
(`dueline.server.telling`); its log goes to the error output. When the input ends, the parent has
died, and this process ends at once, as if it had been killed too: the next one repairs what is to
be repaired, and must not wait. A spare is one that was not told to begin yet; `prepare` has it load
also what is otherwise loaded later.

    begin ──▶ accepting ──▶ … figures …  ──▶ stop ──▶ filled ──▶ (store closed, status 0)
       └────▶ refused (status 2)  └────────▶ failed (status 1)
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import IO, Final

from dueline.broker.pipeline import PipelineReport
from dueline.config import Config
from dueline.errors import BrokerError
from dueline.server.child import REFUSED_STATUS
from dueline.server.process import BrokerProcess, prepare
from dueline.server.remoting.listeners import Listener
from dueline.server.telling import (
    Accepting,
    AskFigures,
    Begin,
    Event,
    Failed,
    Filled,
    Order,
    PipelineIs,
    PipelineReady,
    PipelineTrouble,
    Prepare,
    Prepared,
    Refused,
    ServingFigures,
    Stop,
    decode_order,
    encode,
    from_values,
)

__all__ = ["BrokerChild", "main"]

SWITCH_INTERVAL_S: Final = 0.001
"""How long a thread may keep the interpreter: the gate's thread should not wait for 5 ms."""

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

log = logging.getLogger(__name__)

Tell = Callable[[Event], None]


class BrokerChild:
    """One broker from its start to its end, by orders."""

    def __init__(self, config: Config, tell: Tell) -> None:
        self._config = config
        self._tell = tell
        self._inbox: SimpleQueue[Order | BaseException] = SimpleQueue()
        self._broker = BrokerProcess(
            config, on_failure=self._inbox.put, on_pipeline=self._on_pipeline
        )

    def order(self, order: Order) -> None:
        """Any thread may call, and a signal's handler too."""
        self._inbox.put(order)

    def run(self) -> int:
        """Serve until `Stop` or a failure; returns the exit status."""
        try:
            self._broker.start()
        except (BrokerError, OSError) as error:
            self._tell(Refused(message=str(error)))
            return REFUSED_STATUS
        self._tell(self._accepting())
        while True:
            order = self._inbox.get()
            if isinstance(order, BaseException):
                self._tell(Failed(message=str(order)))
                self._close()
                return 1
            if isinstance(order, Stop):
                # Clients are served meanwhile: that the runway is filled costs them nothing.
                if order.fills and self._broker.pipeline.report().status == "ready":
                    self._broker.fill_runway()
                self._broker.refuse()
                self._close()
                return 0
            self._do(order)

    def _close(self) -> None:
        self._tell(Filled())
        self._broker.stop()

    def _do(self, order: Order) -> None:
        pipeline = self._broker.pipeline
        if isinstance(order, AskFigures):
            self._tell(self._figures())
        elif isinstance(order, PipelineIs):
            pipeline.follow(
                status=order.status,
                pid=order.pid,
                start_count=order.start_count,
                reason=order.reason,
            )
        elif isinstance(order, PipelineTrouble):
            pipeline.failed(order.error)

    def _on_pipeline(self, report: PipelineReport) -> None:
        if report.status == "ready":
            self._tell(PipelineReady())

    def _accepting(self) -> Accepting:
        broker, ports = self._broker, self._broker.remoting_options
        grpc = self._config.listen.grpc
        return Accepting(
            address=broker.address,
            local_address=broker.local_address,
            name_server=_shown(ports.name_server),
            remoting=_shown(ports.broker),
            vip=_shown(ports.vip),
            grpc=None
            if grpc is None or broker.grpc.port is None
            else f"{grpc.rpartition(':')[0]}:{broker.grpc.port}",
            waiting_count=broker.store.pending_count() + broker.store.gate_row_count,
            cut_bytes=broker.store.report.cut_bytes,
            damage_count=len(broker.store.report.damage),
            file_count_max=broker.connections.file_count_max,
        )

    def _figures(self) -> ServingFigures:
        figures, driver = self._broker.broker.meter.figures(), self._broker.pipeline.report()
        lateness = figures.lateness
        return ServingFigures(
            now_ms=figures.now_ms,
            sent=figures.sent_count,
            delivered=figures.delivered_count,
            dropped=figures.dropped_count,
            pending=figures.pending_count,
            at_gate=figures.at_gate_count,
            overdue=figures.overdue.count,
            next_due_ms=figures.next_due_ms,
            late_count=lateness.count,
            late_p50_ms=lateness.p50_ms,
            late_p99_ms=lateness.p99_ms,
            late_max_ms=lateness.max_ms,
            pipeline=driver.status,
            error=driver.error,
        )


def _shown(listener: Listener | None) -> str | None:
    return None if listener is None else f"{listener.host}:{listener.port}"


def main() -> int:
    """The process."""
    tell = _Teller(os.dup(1))
    os.dup2(2, 1)  # whatever else is printed belongs into the log
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with os.fdopen(os.dup(0), "rb") as orders:
        begin = _first_order(orders, tell)
        if begin is None:  # it was never needed
            return 0
        config = from_values(begin.settings)
        logging.basicConfig(stream=sys.stderr, level=config.log_level.upper(), format=LOG_FORMAT)
        logging.raiseExceptions = False  # a log that nobody reads any more
        child = BrokerChild(config, tell)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: child.order(Stop()))
        threading.Thread(target=_read, args=(orders, child), name="orders", daemon=True).start()
        try:
            status = child.run()
        except Exception:
            log.exception("the broker's process ended")
            status = 1
        # The store is closed, or opening it repairs it; the interpreter's own end takes longer.
        logging.shutdown()
        os._exit(status)


def _first_order(orders: IO[bytes], tell: Tell) -> Begin | None:
    while line := orders.readline():
        order = decode_order(line)
        if isinstance(order, Begin):
            return order
        if not isinstance(order, Prepare):
            return None
        prepare(from_values(order.settings))
        tell(Prepared())
    return None


def _read(orders: IO[bytes], child: BrokerChild) -> None:
    for line in orders:
        child.order(decode_order(line))
    os._exit(1)


class _Teller:
    """Writes lines for the parent; one that has died hears nothing. Any thread may call."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock, contextlib.suppress(OSError):
            rest = memoryview(encode(event))
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]


if __name__ == "__main__":
    sys.exit(main())
