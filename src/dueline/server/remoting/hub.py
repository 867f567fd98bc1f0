"""A listening port: its connections, its table of handlers, and the bounds of all peers together.

    request ──▶ too many? ── yes ──▶ 2 "busy"
                    │ no
                    ▼
                 table[code] ── none ──▶ 3 "not supported"
                    ▼
                 guard ── may not ──▶ 16 "no permission"
                    ▼
                 handler ──▶ an answer, or none yet: then the handler has kept the request
                    └─ raises ──▶ the error's code (`dueline.server.remoting.answers`)

Handlers run in the loop's thread and must not block: what waits for a disk or for long goes to
`in_thread`, what waits for the store's writer comes back by `outbox`.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol, TypeVar

from dueline.broker.quotas import Quotas
from dueline.errors import BrokerError, ProtocolError
from dueline.server.connections import ACCEPTED_AT_ONCE, BACKLOG, Connections, Place
from dueline.server.remoting.answers import Response, answer_of
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.guard import Guard
from dueline.server.remoting.limits import Limits
from dueline.server.remoting.listeners import Listener
from dueline.server.remoting.requirements import Needs
from dueline.server.remoting.room import Pool
from dueline.server.runtime import Runtime
from dueline.server.shares import Shares
from dueline.server.tls.contexts import Tls
from dueline.server.tls.entrance import Entrance, EntranceOptions
from dueline.server.wrong_port import (
    BROKER_PORT,
    NAME_SERVER_PORT,
    TLS_ONLY,
    answer_to_frame,
    answer_to_http,
)
from dueline.wire.body import Body
from dueline.wire.codes import ResponseCode

__all__ = ["Handler", "Hub", "blocking", "decoded"]

B = TypeVar("B", bound=Body)

Handler = Callable[[Request], Response | None]

SWEEP_S: Final = 1.0
GRACE_S: Final = 0.5
ANSWER_SIZE_BYTES: Final = 1 << 20
"""What is reserved for an answer that is made in a thread."""
LIGHT_SIZE_BYTES: Final = 32 << 10
"""A JSON body of this size is read within some milliseconds, whatever it says."""
_MAKE_ROOM_S: Final = 0.01
_VIOLATIONS_LOGGED_PER_MINUTE: Final = 10

log = logging.getLogger(__name__)


class Turns(Protocol):
    """Reads what has come on all connections at once (`dueline.server.remoting.turns`)."""

    @property
    def is_ready(self) -> bool: ...

    def holds(self, channel: Channel) -> bool: ...

    def add(self, channel: Channel, data: bytes) -> None: ...


class Hub:
    """One port's connections and handlers."""

    def __init__(  # noqa: PLR0913 - what it stands on
        self,
        name: str,
        runtime: Runtime,
        limits: Limits | None = None,
        connections: Connections | None = None,
        *,
        guard: Guard | None = None,
        tls: Tls | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self.name: Final = name
        self.port_words: Final = NAME_SERVER_PORT if name == "name server" else BROKER_PORT
        self.table: Final[dict[int, Handler]] = {}
        self.loop: Final = runtime.loop
        self.limits: Final = limits or Limits()
        self.request_count = 0
        self.request_size_bytes = 0
        self.violation_count = 0
        self.refused_count = 0
        self.on_leave: list[Callable[[Channel], None]] = []
        self.turns: Turns | None = None
        self.pool: Final = Pool(
            runtime.loop, self.limits.total_unsent_size_bytes_max, on_full=self._make_room
        )
        quotas = quotas or Quotas()
        self.waiting: Final = Shares(
            "waiting pulls",
            self.limits.waiting_count_max,
            quota=quotas.poll_count_max,
            on_limited=quotas.note_limited,
        )
        self._request_count_max = self.limits.total_request_count_max
        self._request_size_bytes_max = self.limits.total_request_size_bytes_max
        self._is_making_room = False
        self._runtime = runtime
        self._guard = guard
        self._connections = connections or Connections(self.limits.connection_count_max)
        self.entrance: Final = Entrance(
            EntranceOptions(
                name=name,
                make=lambda: Channel(self),
                refuse_plain=self._refuse_plain,
                has_room=self._has_room,
                first_byte_s_max=self.limits.idle_s_max,
            ),
            tls,
            self._connections,
        )
        self._channels: dict[Channel, Place] = {}
        self._held_bytes = 0
        self._violations_to_log = _VIOLATIONS_LOGGED_PER_MINUTE
        self._servers: list[asyncio.Server] = []
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweeps = 0
        self._is_empty = asyncio.Event()

    async def listen(self, *listeners: Listener) -> None:
        """Begin to serve."""
        for listener in listeners:
            server = await self.loop.create_server(
                self.entrance, sock=listener.socket, backlog=ACCEPTED_AT_ONCE
            )
            listener.socket.listen(BACKLOG)
            self._servers.append(server)
        self._sweep()

    async def close(self) -> None:
        """Stop listening and close every connection; one that does not read is left behind."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for server in self._servers:
            server.close()
        self.entrance.close()
        self._is_empty.clear()
        for channel in list(self._channels):
            channel.close()
        try:
            async with asyncio.timeout(GRACE_S):
                if self._channels:
                    await self._is_empty.wait()
        except TimeoutError:
            for channel in list(self._channels):
                channel.abort()

    # Connections

    def enter(self, channel: Channel) -> bool:
        """A connection was made; False: there are too many."""
        place = None
        if len(self._channels) < self.limits.connection_count_max:
            place = self._connections.enter(channel.peer, channel)
        if place is None:
            self.refused_count += 1
            return False
        self._channels[channel] = place
        return True

    def leave(self, channel: Channel) -> None:
        """A connection has gone."""
        place = self._channels.pop(channel, None)
        if place is None:
            return
        place.leave()
        self._held_bytes -= channel.connection.held_bytes
        for callback in self.on_leave:
            callback(channel)
        if not self._channels:
            self._is_empty.set()

    def _has_room(self, newcomer_count: int) -> bool:
        has_room = len(self._channels) + newcomer_count < self.limits.connection_count_max
        self.refused_count += not has_room
        return has_room

    def _refuse_plain(self, first: bytes) -> bytes | None:
        """What a client without TLS is told, where it must have TLS."""
        return answer_to_http(first, TLS_ONLY) or answer_to_frame(first, TLS_ONLY)

    @property
    def channels(self) -> Collection[Channel]:
        return self._channels.keys()

    def note_held(self, channel: Channel, change_bytes: int) -> None:
        """A connection holds more or less of an unfinished frame than before."""
        self._held_bytes += change_bytes
        if change_bytes > 0 and self._held_bytes > self.limits.held_size_bytes_max:
            # The one that adds to it goes: the others are then no worse off than before.
            log.warning("%s: too many unfinished frames; closed %s", self.name, channel.address)
            channel.abort()

    def count_violation(self, channel: Channel, error: ProtocolError) -> None:
        """A peer does not speak the protocol; logged, but not for everyone who scans ports."""
        self.violation_count += 1
        if self._violations_to_log > 0:
            self._violations_to_log -= 1
            log.info("%s: closed %s: %s", self.name, channel.address, error)

    def _sweep(self) -> None:
        """Close what is idle, stuck, or silent in the middle of a frame."""
        self._sweeper = self.loop.call_later(SWEEP_S, self._sweep)
        self._sweeps += 1
        if self._sweeps % 60 == 0:
            self._violations_to_log = _VIOLATIONS_LOGGED_PER_MINUTE
        now_s = self.loop.time()
        limits = self.limits
        for channel in list(self._channels):
            channel.expire(now_s)
            silent_s = now_s - channel.active_s
            if channel.paused_s is not None:
                if now_s - channel.paused_s > limits.stuck_s_max:
                    channel.abort()
            elif silent_s > limits.idle_s_max:
                channel.close()
            elif (
                channel.connection.held_bytes
                and not channel.is_blocked
                and silent_s > limits.half_frame_s_max
            ):
                channel.abort()

    def _make_room(self) -> None:
        """The room of all is full: look who has read, and close whom has not for longest."""
        if self._is_making_room:
            return
        self._is_making_room = True
        self.loop.call_later(_MAKE_ROOM_S, self._made_room)
        for channel in self._channels:
            channel.note_sent()
        stuck = [each for each in self._channels if each.paused_s is not None and each.is_open]
        if not self.pool.is_full or not stuck:
            return  # there is room, or everybody reads and there will be
        oldest = min(stuck, key=lambda each: each.paused_s or 0.0)
        log.warning(
            "%s: %d bytes of answers are unread; closed %s, which has not read for longest",
            *(self.name, self.pool.size_bytes, oldest.address),
        )
        oldest.abort()

    def _made_room(self) -> None:
        self._is_making_room = False
        if self.pool.is_full:
            self._make_room()

    # Requests

    def take(self, request: Request) -> None:
        """A request has come."""
        self.request_count += 1
        self.request_size_bytes += request.size_bytes
        if (
            request.channel.connection.is_busy
            or self.request_count > self._request_count_max
            or self.request_size_bytes > self._request_size_bytes_max
        ):
            request.answer(
                Response(
                    code=ResponseCode.SYSTEM_BUSY,
                    remark="the broker is busy: too many requests are not answered yet",
                )
            )
            return
        handler = self.table.get(request.command.code)
        if handler is None:
            request.answer(
                Response(
                    code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                    remark=f"request type {request.command.code} not supported by {self.name}. "
                    f"{self.port_words}",
                )
            )
            return
        self._run(handler, request)

    def has_place(self, channel: Channel, size_bytes: int) -> bool:
        """Would requests of this size be taken, and not be told that the broker is busy?"""
        return (
            self.request_count < self._request_count_max
            and self.request_size_bytes + size_bytes <= self._request_size_bytes_max
            and channel.connection.has_place(size_bytes)
        )

    def begin(self, channel: Channel, count: int, size_bytes: int) -> bool:
        """Count requests that `Turns` has read; False: they are too many, none is counted."""
        if (
            self.request_count + count > self._request_count_max
            or self.request_size_bytes + size_bytes > self._request_size_bytes_max
            or not channel.connection.begin(count, size_bytes)
        ):
            return False
        self.request_count += count
        self.request_size_bytes += size_bytes
        return True

    def finish(self, channel: Channel, count: int, size_bytes: int) -> None:
        """Requests of `Turns` have their answers."""
        channel.connection.finish(size_bytes, count)
        self.request_count -= count
        self.request_size_bytes -= size_bytes

    def finished(self, request: Request) -> None:
        """A request has its answer, and is forgotten."""
        request.channel.connection.finish(request.size_bytes)
        self.request_count -= 1
        self.request_size_bytes -= request.size_bytes

    def _run(self, handler: Handler, request: Request) -> None:
        try:
            answer = handler(request)
        except BrokerError as error:
            request.fail(error)
        except Exception as error:
            # The boundary of a request: the peer is told, the connection and the others go on.
            log.exception("%s: a request of code %d failed", self.name, request.command.code)
            request.fail(error)
        else:
            if answer is not None:
                request.answer(answer)

    def in_thread(self, request: Request, work: Callable[[], Response]) -> None:
        """Answer a request with what `work` returns or raises, elsewhere, when there is room."""
        if not request.reserve(ANSWER_SIZE_BYTES):
            request.channel.room.wait(functools.partial(self.in_thread, request, work))
            return
        if not request.channel.is_open and not request.command.is_oneway:
            request.answer(Response())  # to nobody
            return
        future = self._runtime.in_thread(work)
        future.add_done_callback(functools.partial(self._from_thread, request))

    def decode(
        self,
        request: Request,
        read: Callable[[], B],
        handle: Callable[[Request, B], Response | None],
    ) -> None:
        """Read a body elsewhere and handle it here."""

        def handler(request: Request) -> Response | None:
            return handle(request, future.result())

        future = self._runtime.in_thread(read)
        future.add_done_callback(lambda _: self._run(handler, request))

    def _from_thread(self, request: Request, future: asyncio.Future[Response]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            request.answer(future.result())
            return
        if not isinstance(error, BrokerError):
            log.error(
                "%s: a request of code %d failed",
                self.name,
                request.command.code,
                exc_info=error,
            )
        request.answer(answer_of(error))

    def add(self, table: Mapping[int, Handler]) -> None:
        """More codes; each may have one handler. With a guard, it must have a requirement."""
        twice = self.table.keys() & table.keys()
        assert not twice, f"two handlers for {sorted(twice)}"
        if self._guard is not None:
            table = self._guard.guarded(table, self._asked_in_thread)
        self.table.update(table)

    def _asked_in_thread(
        self,
        request: Request,
        ask: Callable[[], Needs],
        handle: Callable[[Request, Needs], Response | None],
    ) -> None:
        """Find out elsewhere who asks and what for, and go on here."""
        future = self._runtime.in_thread(ask)
        future.add_done_callback(
            lambda done: self._run(lambda request: handle(request, done.result()), request)
        )


def decoded(hub: Hub, kind: type[B], handle: Callable[[Request, B], Response | None]) -> Handler:
    """A handler of a JSON body; one that takes long to read is read in a thread."""

    def handler(request: Request) -> Response | None:
        data = request.command.body
        if len(data) <= LIGHT_SIZE_BYTES:
            return handle(request, kind.decode_request(data))
        hub.decode(request, lambda: kind.decode_request(data), handle)
        return None

    return handler


def blocking(hub: Hub, work: Callable[[Request], Response]) -> Handler:
    """A handler that may wait for a disk or walk over many things."""

    def handler(request: Request) -> Response | None:
        hub.in_thread(request, lambda: work(request))
        return None

    return handler
