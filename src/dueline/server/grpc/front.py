"""One port for plain text and TLS: the first byte of a connection says which it is.

    client ──▶ front ── first byte 0x16 ──▶ gRPC, TLS          (a loopback port)
                   └─── anything else ────▶ gRPC, plain text   (a loopback port)

TLS begins with a handshake record, type 0x16; HTTP/2 in plain text begins with the letter P. A
gRPC server can have one kind of port only, so the front passes bytes on, as they are, to the port
of their kind. It remembers who is behind each of its connections: gRPC sees only the front, and
asks here for the client's address. A peer that begins as neither is told which port this is.

Bounded: connections (by the budget of all ports), the time until the first byte, and what is kept
of one side's bytes while the other does not take them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from typing import Any, Final

from dueline.server.connections import ACCEPTED_AT_ONCE, BACKLOG, Connections, Place, peer_of
from dueline.server.wrong_port import GRPC_PORT, answer_to_frame, answer_to_http

__all__ = ["Front"]

CONNECTION_COUNT_MAX: Final = 20_000
FILE_COUNT: Final = 3
"""Of one connection: the client's, and both ends of the one that it is passed on by."""
_BUFFER_BYTES_MAX: Final = 256 << 10
_TLS_HANDSHAKE: Final = 0x16
_HTTP2: Final = b"PRI"

log = logging.getLogger(__name__)


class Front:
    """The listening side; `start` and `stop` in the loop that serves."""

    def __init__(
        self,
        *,
        plain_port: int,
        tls_port: int,
        first_byte_s_max: float,
        connections: Connections | None = None,
    ) -> None:
        self.first_byte_s_max: Final = first_byte_s_max
        self.connections: Final = connections or Connections(FILE_COUNT * CONNECTION_COUNT_MAX)
        self._ports: Final = {False: plain_port, True: tls_port}
        self._server: asyncio.Server | None = None
        self._sides: set[_Side] = set()
        self._clients: dict[int, tuple[str, int]] = {}

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, a free one if it was 0."""
        loop = asyncio.get_running_loop()
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
        self._server = await loop.create_server(
            lambda: _Outside(self), sock=listener, backlog=ACCEPTED_AT_ONCE
        )
        listener.listen(BACKLOG)
        bound: int = listener.getsockname()[1]
        return bound

    async def refuse(self) -> None:
        """Listen no more; connections stay."""
        if self._server is not None:
            self._server.close()

    async def stop(self) -> None:
        """End all connections."""
        for side in list(self._sides):
            side.abort()
        if self._server is not None:
            await self._server.wait_closed()

    def client_of(self, port: int) -> tuple[str, int] | None:
        """Who is behind the front's connection with this local port."""
        return self._clients.get(port)

    def entered(self, side: _Side) -> None:
        self._sides.add(side)

    def left(self, side: _Side) -> None:
        self._sides.discard(side)

    async def connect(self, outside: _Outside, *, is_tls: bool) -> _Inside:
        """The other half of a connection, by its kind."""
        loop = asyncio.get_running_loop()
        _, inside = await loop.create_connection(
            lambda: _Inside(self, outside), "127.0.0.1", self._ports[is_tls]
        )
        return inside

    def note(self, local_port: int, client: tuple[str, int]) -> None:
        self._clients[local_port] = client

    def forget(self, local_port: int) -> None:
        self._clients.pop(local_port, None)


class _Side(asyncio.Protocol):
    """One end of a connection; what comes goes to the other end."""

    def __init__(self, front: Front) -> None:
        self.front: Final = front
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None
        self.is_silent = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.set_write_buffer_limits(high=_BUFFER_BYTES_MAX)
        self.front.entered(self)

    def data_received(self, data: bytes) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        """This end says no more; when neither does, the connection is over."""
        self.is_silent = True
        if self.other is None or self.other.is_silent:
            return False
        transport = self.other.transport
        if transport is None or transport.is_closing() or not transport.can_write_eof():
            return False
        transport.write_eof()
        return True

    def pause_writing(self) -> None:
        """This end does not take more: the other must not be read."""
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        self.front.left(self)
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()


class _Outside(_Side):
    """The client's end."""

    def __init__(self, front: Front) -> None:
        super().__init__(front)
        self._loop = asyncio.get_running_loop()
        self._connecting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._place: Place | None = None
        self.active_s = self._loop.time()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        client = transport.get_extra_info("peername") or ("", 0)
        self._place = self.front.connections.enter(
            peer_of(str(client[0])), self, file_count=FILE_COUNT
        )
        if self._place is None:
            transport.abort()
            return
        self._timer = self._loop.call_later(self.front.first_byte_s_max, self.abort)

    def close_soon(self) -> None:
        """Close it at once; any thread may call."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the connection with it
            self._loop.call_soon_threadsafe(self.abort)

    def data_received(self, data: bytes) -> None:
        self.active_s = self._loop.time()
        if self.other is not None:
            super().data_received(data)
            return
        if self._timer is not None:
            self._timer.cancel()
        assert self.transport is not None
        words = _wrong_port(data)
        if words is not None:
            self.transport.write(words)
            self.transport.close()
            return
        self.transport.pause_reading()  # until there is somebody to pass it on to
        self._connecting = asyncio.get_running_loop().create_task(self._connect(data))

    async def _connect(self, first: bytes) -> None:
        assert self.transport is not None
        try:
            inside = await self.front.connect(self, is_tls=first[0] == _TLS_HANDSHAKE)
        except OSError as error:
            log.warning("a connection could not be passed on: %s", error)
            self.abort()
            return
        self.other = inside
        if self.transport.is_closing():
            inside.abort()
            return
        assert inside.transport is not None
        inside.transport.write(first)
        self.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._place is not None:
            self._place.leave()
        super().connection_lost(error)


def _wrong_port(first: bytes) -> bytes | None:
    """The answer to who is no gRPC client, as far as there is one."""
    if first[0] == _TLS_HANDSHAKE or first[:3] == _HTTP2:
        return None
    return answer_to_http(first, GRPC_PORT) or answer_to_frame(first, GRPC_PORT)


class _Inside(_Side):
    """The end towards gRPC."""

    def __init__(self, front: Front, outside: _Outside) -> None:
        super().__init__(front)
        self.other = outside
        self._port = 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._port = transport.get_extra_info("sockname")[1]
        assert self.other is not None
        assert self.other.transport is not None
        client = self.other.transport.get_extra_info("peername")
        if client:
            self.front.note(self._port, (client[0], client[1]))

    def connection_lost(self, error: Exception | None) -> None:
        self.front.forget(self._port)
        super().connection_lost(error)
