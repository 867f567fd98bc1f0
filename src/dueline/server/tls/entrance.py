"""The way into a port that speaks plain text and TLS: the first byte of a connection says which.

    client ──▶ newcomer ── 0x16 ──▶ handshake ──▶ protocol, on an encrypted transport
                       └── else ──────────────▶ protocol, on the connection as it is

TLS begins with a handshake record, type 0x16; no other protocol here does. The protocol that is
behind the entrance sees one connection with its first bytes, and cannot tell the difference but by
asking the transport for its `sslcontext`.

A connection of the kind that the mode excludes is told so as far as its protocol has words for it:
TLS by an alert, others by `refuse_plain`.

Bounded: the time until the first byte and that of a handshake; handshakes at a time, shared out
among addresses when they are many. Not bounded: the processor time of handshakes, which the loop
shares with clients that are in already. A connection has a place among those of all ports from the
start. For the thread of one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from dueline.errors import LimitExceeded
from dueline.server.connections import Connections, Place, peer_of
from dueline.server.shares import Share, Shares
from dueline.server.tls.contexts import Tls

__all__ = ["Entrance", "EntranceOptions"]

HANDSHAKE_COUNT_MAX: Final = 256
HANDSHAKE_S_MAX: Final = 10.0
SHUTDOWN_S_MAX: Final = 2.0
FIRST_BYTE_S_MAX: Final = 120.0

_TLS_HANDSHAKE: Final = 0x16
_ALERT: Final = bytes([0x15, 3, 1, 0, 2, 2, 40])
"""Fatal: handshake failure."""
_RAW_BUFFER_BYTES_MAX: Final = 16 << 10
"""Encrypted bytes that the socket does not take; more wait where the protocol's side sees them."""
_LOGGED_PER_MINUTE: Final = 10

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntranceOptions:
    """What a port wants of its entrance."""

    name: str
    """In the log, such as "broker"."""
    make: Callable[[], asyncio.Protocol]
    """Serves a connection that has come in."""
    refuse_plain: Callable[[bytes], bytes | None] = lambda first: None
    """What a client without TLS is told, by its first bytes, if it must have TLS."""
    protocols: tuple[str, ...] = ()
    """Offered to clients that ask (ALPN)."""
    has_room: Callable[[int], bool] = lambda newcomer_count: True
    """Whether the port takes another connection, beside so many that are not in yet."""
    first_byte_s_max: float = FIRST_BYTE_S_MAX
    handshake_s_max: float = HANDSHAKE_S_MAX
    handshake_count_max: int = HANDSHAKE_COUNT_MAX


@dataclass(slots=True)
class EntranceCounts:
    """Since the start."""

    secured: int = 0
    failed: int = 0
    refused: int = 0
    plain: int = 0


class Entrance:
    """The entrance of one port: `asyncio.create_server(entrance, …)`."""

    def __init__(self, options: EntranceOptions, tls: Tls | None, connections: Connections) -> None:
        """Nobody has come yet.

        Args:
            tls: None: as if it were disabled.
        """
        self.options: Final = options
        self.tls: Final = tls
        self.mode: Final = tls.mode if tls is not None else "disabled"
        if tls is not None and self.mode != "disabled":
            tls.context(*options.protocols)
        self.connections: Final = connections
        self.handshakes: Final = Shares("TLS handshakes", options.handshake_count_max)
        self.counts: Final = EntranceCounts()
        self.newcomers: Final[set[_Newcomer]] = set()
        self._lines = _LOGGED_PER_MINUTE
        self._minute_s = 0.0

    def __call__(self) -> asyncio.Protocol:
        return _Newcomer(self)

    def close(self) -> None:
        """End the connections that are not in yet."""
        for newcomer in list(self.newcomers):
            newcomer.abort()

    def tell(self, newcomer: _Newcomer, why: str) -> None:
        """Log it, but not for everyone who scans ports."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._minute_s > 60:
            self._minute_s, self._lines = now_s, _LOGGED_PER_MINUTE
        if self._lines > 0:
            self._lines -= 1
            log.info("%s: closed %s: %s", self.options.name, newcomer.address, why)


class _Newcomer(asyncio.Protocol):
    """A connection until it is known what it speaks, and then until it is encrypted."""

    def __init__(self, entrance: Entrance) -> None:
        self._entrance = entrance
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._place: Place | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._early = bytearray()
        self._is_over = False
        self.active_s = self._loop.time()
        self.address = ""
        self.peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        name = transport.get_extra_info("peername") or ("", 0)
        self.address, self.peer = f"{name[0]}:{name[1]}", peer_of(str(name[0]))
        entrance = self._entrance
        if entrance.options.has_room(len(entrance.newcomers)):
            self._place = entrance.connections.enter(self.peer, self)
        if self._place is None:
            entrance.counts.refused += 1
            transport.abort()
            return
        self._entrance.newcomers.add(self)
        self._timer = self._loop.call_later(self._entrance.options.first_byte_s_max, self.abort)

    def data_received(self, data: bytes) -> None:
        if self._task is not None:  # encrypted already, and nobody has been handed it yet
            self._early += data
            return
        self._stop_timer()
        is_tls = data[0] == _TLS_HANDSHAKE
        if is_tls and self._entrance.mode == "disabled":
            self._refuse(_ALERT, "it begins TLS, which is disabled (tls.mode)")
        elif not is_tls and self._entrance.mode == "enforcing":
            words = self._entrance.options.refuse_plain(data)
            self._refuse(words, "it does not use TLS, which is required (tls.mode = enforcing)")
        elif is_tls:
            self._begin_handshake(data)
        else:
            self._entrance.counts.plain += 1
            assert self._transport is not None
            self._let_in(self._transport, data)

    def eof_received(self) -> bool:
        self._is_over = True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_over = True
        self._leave()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def close_soon(self) -> None:
        """Close it at once; any thread may call."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the connection with it
            self._loop.call_soon_threadsafe(self.abort)

    def _refuse(self, words: bytes | None, why: str) -> None:
        self._entrance.counts.refused += 1
        self._entrance.tell(self, why)
        assert self._transport is not None
        if words is not None:
            self._transport.write(words)
        self._transport.close()

    def _let_in(self, transport: asyncio.Transport, data: bytes) -> None:
        """The connection belongs to the protocol behind the entrance from here on."""
        self._leave()
        protocol = self._entrance.options.make()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        if data and not transport.is_closing():
            protocol.data_received(data)

    def _leave(self) -> None:
        self._stop_timer()
        self._entrance.newcomers.discard(self)
        if self._place is not None:
            self._place.leave()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    # TLS

    def _begin_handshake(self, first: bytes) -> None:
        try:
            share = self._entrance.handshakes.take(self.peer, self, self.abort)
        except LimitExceeded as error:
            self._refuse(None, error.message)
            return
        self._task = self._loop.create_task(self._secure(share))
        # `start_tls` has no word for bytes that were read before it. They are handed over as the
        # transport would: to the protocol that it has by then, when it has been told of its
        # connection, and before it is read from.
        self._loop.call_soon(self._loop.call_soon, self._feed, first)

    def _feed(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        protocol = self._transport.get_protocol()
        assert isinstance(protocol, asyncio.BufferedProtocol)
        left = memoryview(data)
        while left:
            room = memoryview(protocol.get_buffer(len(left)))
            count = min(len(room), len(left))
            room[:count] = left[:count]
            protocol.buffer_updated(count)
            left = left[count:]

    async def _secure(self, share: Share) -> None:
        assert self._transport is not None
        assert self._entrance.tls is not None
        options = self._entrance.options
        self._transport.set_write_buffer_limits(high=_RAW_BUFFER_BYTES_MAX)
        try:
            with share:
                secured: Any = await self._loop.start_tls(
                    self._transport,
                    self,
                    self._entrance.tls.context(*options.protocols),
                    server_side=True,
                    ssl_handshake_timeout=options.handshake_s_max,
                    ssl_shutdown_timeout=SHUTDOWN_S_MAX,
                )
        except OSError as error:
            self._fail(str(error))
            return
        if secured is None or secured.is_closing() or self._is_over:
            self._fail("the connection ended in the handshake")
            return
        self._entrance.counts.secured += 1
        self._let_in(secured, bytes(self._early))

    def _fail(self, why: str) -> None:
        self._entrance.counts.failed += 1
        self._entrance.tell(self, f"no TLS handshake: {why}")
        self.abort()
        self._leave()
