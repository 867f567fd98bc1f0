"""The gRPC port: a thread with an event loop of its own, and everything the methods need.

`start` returns when clients can call; `stop` when nobody is served any more. Between them the
thread runs gRPC's asyncio server, the front before it (plain text and TLS on one port), and the
questions about undecided transactions.

Why asyncio and not threads: a long poll and a telemetry stream last for as long as their client
wants. Each would hold a thread; here it is an entry in a dictionary.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
from dueline.broker import Broker
from dueline.broker.sending import Sending
from dueline.errors import BrokerError, Unavailable
from dueline.server.connections import Connections
from dueline.server.grpc.certificate import load_certificate
from dueline.server.grpc.clients import Clients
from dueline.server.grpc.front import Front
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.parts import Parts, Peer
from dueline.server.grpc.service import MessagingService
from dueline.server.outbox import Outbox
from dueline.server.runtime import Runtime
from dueline.server.shares import Shares
from dueline.server.threads import OnFailure, start_thread
from dueline.settings import parse_address
from dueline.store.files import Files

__all__ = ["GrpcServer"]

STOP_GRACE_S: Final = 1.0
READER_COUNT: Final = 4

log = logging.getLogger(__name__)


class GrpcServer:
    """The port; `start` it once, `stop` it once."""

    def __init__(  # noqa: PLR0913 - what it stands on, and keyword-only the rest
        self,
        broker: Broker,
        options: GrpcOptions,
        *,
        folder: Path,
        files: Files | None = None,
        connections: Connections | None = None,
        on_failure: OnFailure = lambda error: None,
    ) -> None:
        """Prepare; nothing is opened yet.

        Args:
            folder: where a made certificate is kept.
        """
        self.options: Final = options
        self.port = 0
        self._broker = broker
        self._folder = folder
        self._files = files or Files()
        self._connections = connections
        self._on_failure = on_failure
        self._front: Front | None = None
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
            InvalidRequest: a certificate that cannot be read.
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
        server = grpc.aio.server(
            options=_channel_options(self.options),
            # More than are served: those beyond it are refused without a word about why.
            maximum_concurrent_rpcs=_call_count_max(self.options),
        )
        runtime = Runtime(loop=self._loop, outbox=Outbox(self._loop), threads=self._executor)
        service = MessagingService(
            Parts(
                broker=self._broker,
                clients=self._clients,
                options=self.options,
                runtime=runtime,
                sending=Sending(self._broker, runtime),
                peers=self._client_of,
                calls=Shares("calls", self.options.call_count_max),
                polls=Shares("waiting consumers", self.options.poll_count_max),
            )
        )
        server.add_generic_rpc_handlers((service.handler(),))
        try:
            await self._listen(server)
        except (BrokerError, OSError, RuntimeError) as error:
            self._start_error = _start_error(error, self.options.address)
            self._is_started.set()
            return
        self._is_started.set()
        try:
            await self._stopping.wait()
        finally:
            self._clients.stop()
            if self._front is not None:
                await self._front.refuse()
            await server.stop(STOP_GRACE_S)
            if self._front is not None:
                await self._front.stop()

    async def _listen(self, server: Any) -> None:
        host, port = parse_address(self.options.address)
        if self.options.tls == "off":
            self.port = server.add_insecure_port(_target(host, port))
            await server.start()
            return
        certificate = load_certificate(
            self.options, self._folder, files=self._files, clock=self._broker.clock
        )
        credentials = grpc.ssl_server_credentials([(certificate.private_key, certificate.chain)])
        if self.options.tls == "on":
            self.port = server.add_secure_port(_target(host, port), credentials)
            await server.start()
            return
        plain_port = server.add_insecure_port("127.0.0.1:0")
        tls_port = server.add_secure_port("127.0.0.1:0", credentials)
        await server.start()
        self._front = Front(
            plain_port=plain_port,
            tls_port=tls_port,
            first_byte_s_max=self.options.handshake_ms_max / 1_000,
            connections=self._connections,
        )
        self.port = await self._front.start(host, port)

    def _client_of(self, peer: str) -> Peer:
        """The client behind gRPC's name for a peer, such as `ipv4:10.0.0.7:51234`."""
        kind, _, address = peer.partition(":")
        host, _, port_text = address.replace("%5B", "[").replace("%5D", "]").rpartition(":")
        if kind not in ("ipv4", "ipv6") or not port_text.isdigit():
            return Peer(host="", port=0)
        found = (host.strip("[]"), int(port_text))
        if self._front is not None:
            found = self._front.client_of(found[1]) or found
        return Peer(host=found[0], port=found[1])


def _call_count_max(options: GrpcOptions) -> int:
    return 2 * (options.call_count_max + options.poll_count_max)


def _channel_options(options: GrpcOptions) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", options.request_size_max),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", options.stream_count_max),
        # Half a handshake, or half of what HTTP/2 begins with: closed in time.
        ("grpc.server_handshake_timeout_ms", options.handshake_ms_max),
        # A burst of calls, as when all clients come back at once, waits its turn: by default some
        # of those behind the thousandth are cancelled at random.
        ("grpc.server.max_pending_requests", _call_count_max(options)),
        ("grpc.server.max_pending_requests_hard_limit", _call_count_max(options)),
        ("grpc.so_reuseport", 0),  # a taken port is an error, not a second listener
        # Clients ping every few minutes without a call; that is no attack.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.keepalive_time_ms", 60_000),
        ("grpc.keepalive_timeout_ms", 20_000),
    ]


def _target(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _start_error(error: BaseException, address: str) -> BaseException:
    if isinstance(error, BrokerError):
        return error
    return Unavailable(
        f"listen.grpc: expected to listen on {address}, found: {str(error).splitlines()[0]}; is "
        "the port taken by another broker?",
        address=address,
    )
