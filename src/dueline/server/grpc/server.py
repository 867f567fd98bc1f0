"""The gRPC port: a thread with an event loop of its own, and everything the methods need.

`start` returns when clients can call; `stop` when nobody is served any more. Between them the
thread runs the listener and the methods.

Why asyncio and not threads: a long poll and a telemetry stream last for as long as their client
wants. Each would hold a thread; here it is an entry in a dictionary.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from dueline.broker import Broker
from dueline.broker.sending import Sending
from dueline.errors import BrokerError, Unavailable
from dueline.server.connections import Connections
from dueline.server.grpc.clients import Clients
from dueline.server.grpc.guard import GrpcGuard
from dueline.server.grpc.listener import Listener
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.parts import Parts
from dueline.server.grpc.service import MessagingService
from dueline.server.outbox import Outbox
from dueline.server.runtime import Runtime
from dueline.server.shares import Shares
from dueline.server.threads import OnFailure, start_thread
from dueline.server.tls import Tls
from dueline.settings import parse_address

__all__ = ["GrpcServer"]

STOP_GRACE_S: Final = 1.0
READER_COUNT: Final = 4

log = logging.getLogger(__name__)


class GrpcServer:
    """The port; `start` it once, `stop` it once."""

    def __init__(
        self,
        broker: Broker,
        options: GrpcOptions,
        *,
        tls: Tls | None = None,
        connections: Connections | None = None,
        on_failure: OnFailure = lambda error: None,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            tls: None: plain text only.
        """
        self.options: Final = options
        self.port = 0
        self._broker = broker
        self._tls = tls
        self._connections = connections
        self._on_failure = on_failure
        self.listener: Listener | None = None
        self._executor = ThreadPoolExecutor(READER_COUNT, thread_name_prefix="grpc-read")
        self._clients = Clients(
            count_max=options.client_count_max,
            gone_after_ms=options.gone_after_ms,
            on_gone=self._gone,
        )
        broker.inflight.renew_while(self._clients.is_present)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._is_started = threading.Event()
        self._start_error: BaseException | None = None

    def start(self) -> None:
        """Serve.

        Raises:
            Unavailable: the port is taken.
        """
        self._thread = start_thread(
            "grpc", lambda: asyncio.run(self._serve()), on_failure=self._failed
        )
        self._is_started.wait()
        if self._start_error is not None:
            self._thread.join()
            self._executor.shutdown()
            raise self._start_error

    def stop(self) -> None:
        """Let calls under way end, for a moment; then end them."""
        if self._loop is not None and self._stopping is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._stopping.set)
        if self._thread is not None:
            self._thread.join()
        self._executor.shutdown()

    def _gone(self, client_id: str) -> None:
        self._executor.submit(self._broker.inflight.release, client_id)

    def _failed(self, error: BaseException) -> None:
        if self._is_started.is_set():
            self._on_failure(error)
        self._start_error = error
        self._is_started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        runtime = Runtime(loop=self._loop, outbox=Outbox(self._loop), threads=self._executor)
        service = MessagingService(
            Parts(
                broker=self._broker,
                clients=self._clients,
                options=self.options,
                runtime=runtime,
                sending=Sending(self._broker, runtime),
                guard=GrpcGuard(
                    self._broker.access,
                    self._broker.trail,
                    clock=self._broker.clock,
                    age_ms_max=self.options.signature_age_ms_max,
                ),
                calls=Shares("calls", self.options.call_count_max),
                polls=Shares(
                    "waiting consumers",
                    self.options.poll_count_max,
                    quota=self._broker.quotas.poll_count_max,
                    on_limited=self._broker.quotas.note_limited,
                ),
            )
        )
        try:
            self.listener = Listener(
                self.options, service, tls=self._tls, connections=self._connections
            )
            self.port = await self.listener.start(*parse_address(self.options.address))
        except (BrokerError, OSError) as error:
            self._start_error = _start_error(error, self.options.address)
            self._is_started.set()
            return
        self._is_started.set()
        try:
            await self._stopping.wait()
        finally:
            self._clients.stop()
            await self.listener.stop(STOP_GRACE_S)


def _start_error(error: BaseException, address: str) -> BaseException:
    if isinstance(error, BrokerError):
        return error
    return Unavailable(
        f"listen.grpc: expected to listen on {address}, found: {str(error).splitlines()[0]}; is "
        "the port taken by another broker?",
        address=address,
    )
