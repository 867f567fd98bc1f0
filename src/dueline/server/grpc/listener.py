"""The listening side of the port: its connections, what they share, and the time they have."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Final

from dueline.server.connections import ACCEPTED_AT_ONCE, BACKLOG, Connections
from dueline.server.grpc.link import Link, Links, Service
from dueline.server.grpc.options import GrpcOptions
from dueline.server.tls import Entrance, Tls
from dueline.server.tls.entrance import EntranceOptions
from dueline.server.wrong_port import TLS_ONLY, answer_to_http

__all__ = ["Listener"]

CONNECTION_COUNT_MAX: Final = 20_000
LOOK_EVERY_S: Final = 0.25


class Listener:
    """All connections; `start` and `stop` in the loop that serves."""

    def __init__(
        self,
        options: GrpcOptions,
        service: Service,
        *,
        tls: Tls | None = None,
        connections: Connections | None = None,
    ) -> None:
        """Prepare.

        Args:
            tls: None: plain text only.
        """
        connections = connections or Connections(CONNECTION_COUNT_MAX)
        self.links: Final = Links(
            options=options, service=service, connections=connections, on_change=self._changed
        )
        time_s = options.handshake_ms_max / 1_000
        self.entrance: Final = Entrance(
            EntranceOptions(
                name="5.x",
                make=lambda: Link(self.links),
                refuse_plain=lambda first: answer_to_http(first, TLS_ONLY),
                protocols=("h2",),
                first_byte_s_max=time_s,
                handshake_s_max=time_s,
            ),
            tls,
            connections,
        )
        self._server: asyncio.Server | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended: asyncio.Event = asyncio.Event()

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port, a free one if it was 0."""
        loop = asyncio.get_running_loop()
        family = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family)
        self._server = await loop.create_server(
            self.entrance, sock=listener, backlog=ACCEPTED_AT_ONCE
        )
        listener.listen(BACKLOG)
        bound: int = listener.getsockname()[1]
        return bound

    async def stop(self, grace_s: float) -> None:
        """Take nothing new; let calls under way end, for a moment; then end all connections."""
        if self._server is None:
            return
        self._server.close()
        self.entrance.close()
        for link in list(self.links.all):
            link.refuse()
        await self._wait(grace_s)
        for link in list(self.links.all):
            link.stop()
        await self._wait(grace_s)
        for link in list(self.links.all):
            link.abort()
        await self._server.wait_closed()

    async def _wait(self, seconds: float) -> None:
        """Until no connection is left: those without calls close when they are refused."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.links.all:
                    self._ended.clear()
                    await self._ended.wait()

    def _changed(self) -> None:
        """A connection has come or gone."""
        self._ended.set()
        if self._timer is None and self.links.all:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LOOK_EVERY_S, self._look)

    def _look(self) -> None:
        """Time has passed for everybody; nobody is looked at while nobody is there."""
        now_s = asyncio.get_running_loop().time()
        for link in list(self.links.all):
            link.look(now_s)
        self._timer = None
        self._changed()
