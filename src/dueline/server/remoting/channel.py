"""One connection: a peer's `dueline.wire.Connection` on a transport, and the room for its answers.

Back-pressure: a peer that leaves too many answers unread is not read from, requests that came with
the last bytes are not looked at, and its waiting pulls stay where they are (see `room`). What it
has not asked for, such as a reply or the news of a change, is refused meanwhile. Answers that are
ready in one turn of the loop are sent with one write. Everything here runs in the loop's thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from dueline.broker.access import ANONYMOUS, Action, Caller, Certificate, Resource
from dueline.errors import LimitExceeded, OutcomeUnknown, ProtocolError, Unavailable
from dueline.message import HOST_UNKNOWN, pack_host
from dueline.server.connections import peer_of
from dueline.server.remoting.answers import Response, answer_of
from dueline.server.remoting.room import Room
from dueline.server.shares import Share
from dueline.server.wrong_port import answer_to_http
from dueline.wire import Answered, Command, Connection
from dueline.wire.connection import answer_frame

if TYPE_CHECKING:
    from dueline.server.remoting.guard import Guard
    from dueline.server.remoting.hub import Hub

__all__ = ["Channel", "Request"]

TURN_S_MAX: Final = 0.003
"""How long the requests of one connection may take before it is the others' turn."""

SECURE_PIECE_BYTES: Final = 16 << 10
"""Encrypted bytes pass a second buffer, which the transport's size leaves out. What is written in
pieces, of TLS's largest record each, stays in the one that is counted."""

log = logging.getLogger(__name__)


class FirstLook(Protocol):
    """Answers what it knows of a connection, before its bytes are looked at as usual."""

    def take(self, data: bytes) -> bytes:
        """What has come but for what it has answered."""


class Request:
    """A request until it is answered, once."""

    __slots__ = (
        "_is_open",
        "_reserved_bytes",
        "caller",
        "changed_count",
        "changed_names",
        "channel",
        "command",
        "guard",
        "on_answer",
        "size_bytes",
    )

    def __init__(self, channel: Channel, command: Command, size_bytes: int = 0) -> None:
        self.channel = channel
        self.command = command
        self.size_bytes = size_bytes
        self.guard: Guard | None = None
        self.caller = ANONYMOUS
        self.on_answer: Callable[[Response], None] | None = None
        self.changed_names: tuple[str, ...] = ()
        self.changed_count: int | None = None
        self._is_open = True
        self._reserved_bytes = 0

    @property
    def who(self) -> Caller:
        """The caller, also where nobody has been asked who they are."""
        return self.caller if self.caller.address else Caller(None, self.channel.source)

    def check(self, actions: Action, *resources: Resource) -> None:
        """Refuse what its caller may not do with what was found for it; any thread may call.

        Raises:
            Unauthenticated, Forbidden: says what is missing.
        """
        if self.guard is not None:
            self.guard.check(self, (actions, resources))

    def may(self, actions: Action, *resources: Resource) -> bool:
        """The same as a question."""
        return self.guard is None or self.guard.may(self, (actions, resources))

    def reserve(self, size_bytes: int) -> bool:
        """Room for an answer of about this size; False: `channel.room.wait`, and try again."""
        if self._reserved_bytes or self.command.is_oneway:
            return True
        if not self.channel.room.reserve(size_bytes):
            return False
        self._reserved_bytes = size_bytes
        return True

    def release(self) -> None:
        """Nothing is being made for it now."""
        size_bytes, self._reserved_bytes = self._reserved_bytes, 0
        self.channel.room.release(size_bytes)

    def answer(self, answer: Response) -> None:
        """Answer it; a second answer, or one to a peer that has gone, is dropped."""
        if not self._is_open:
            return
        self._is_open = False
        self.release()
        if self.on_answer is not None:
            self.on_answer(answer)
        self.channel.finished(self, answer)

    def answer_frame(self, *chunks: bytes | memoryview) -> None:
        """Answer it with a whole frame that was made for it, in one or more pieces."""
        if not self._is_open:
            return
        self._is_open = False
        self.release()
        self.channel.hub.finished(self)
        if not self.command.is_oneway:
            self.channel.write(chunks)

    def fail(self, error: BaseException, *, is_message: bool = False) -> None:
        """Answer it with an error."""
        self.answer(answer_of(error, is_message=is_message))


class Channel(asyncio.Protocol):
    """A peer's connection."""

    def __init__(self, hub: Hub) -> None:
        self.hub: Final = hub
        self._loop = hub.loop
        self.connection: Final = Connection[asyncio.Future[Command]](
            frame_size_bytes_max=hub.limits.frame_size_bytes_max,
            request_count_max=hub.limits.request_count_max,
            request_size_bytes_max=hub.limits.request_size_bytes_max,
        )
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes | memoryview] = []
        self._piece_bytes = sys.maxsize
        self._is_blocked = False
        self._is_push_refused = False
        self.room = Room(hub.pool, hub.limits.unsent_size_bytes_max)
        self.on_close: set[Callable[[], None]] = set()
        self.first_look: FirstLook | None = None
        self.active_s = hub.loop.time()
        self.paused_s: float | None = None
        self.is_member = False
        self.address = ""
        self.peer = ""
        self.source = ""
        self.certificate: Certificate | None = None
        self.host = HOST_UNKNOWN
        self.local_host = ""

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(high=self.room.buffered_size_max)
        if transport.get_extra_info("sslcontext") is not None:
            self._piece_bytes = SECURE_PIECE_BYTES
            self.certificate = transport.get_extra_info("peercert")
        peer = transport.get_extra_info("peername") or ("", 0)
        own = transport.get_extra_info("sockname") or ("", 0)
        self.address = f"{peer[0]}:{peer[1]}"
        self.peer = peer_of(str(peer[0]))
        self.source = _plain_address(str(peer[0]))
        self.local_host = _plain_address(str(own[0]))
        with contextlib.suppress(Exception):  # a peer without an address of ours is "unknown"
            self.host = pack_host(_plain_address(str(peer[0])), int(peer[1]))
        if not self.hub.enter(self):
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._unsent.clear()
        for future in self.connection.close():
            if not future.done():
                future.set_exception(Unavailable(f"client {self.address} has gone"))
        callbacks, self.on_close = self.on_close, set()
        for callback in callbacks:
            callback()
        self.room.close()
        self.hub.leave(self)

    def data_received(self, data: bytes) -> None:
        """Look at the requests that have come, as long as there is room for their answers."""
        self.active_s = self._loop.time()
        if data and self.first_look is not None:
            data = self.first_look.take(data)
            if not data:
                return
        turns = self.hub.turns
        if turns is not None and not self._is_blocked and turns.is_ready:
            turns.add(self, data)
        else:
            self.take(data)

    def is_clear(self, size_bytes: int) -> bool:
        """Is nothing here that came before and was not looked at, and room for such an answer?"""
        turns = self.hub.turns
        return (
            not self._is_blocked
            and not self.connection.held_bytes
            and (turns is None or not turns.holds(self))
            and self._transport is not None
            and self.room.has(size_bytes)
        )

    def gather(self, data: bytes) -> bytes:
        """What has come with what was held back before; empty: no request is complete."""
        if self._is_blocked:
            self.take(data)
            return b""
        before = self.connection.held_bytes
        try:
            whole = self.connection.gather(data)
        except ProtocolError:
            return b""  # said and closed before
        self.hub.note_held(self, self.connection.held_bytes - before)
        return whole

    def take(self, data: bytes) -> bool:
        """Look at requests one by one; False: what comes behind them has to wait."""
        before = self.connection.held_bytes
        if self._is_blocked:
            self.connection.keep(data)
        else:
            try:
                self._take_all(data)
            except ProtocolError as error:
                self.hub.count_violation(self, error)
                self._tell_port(data)
                self.close()
        self.hub.note_held(self, self.connection.held_bytes - before)
        return not self._is_blocked and self._transport is not None

    def _tell_port(self, data: bytes) -> None:
        """Browsers and gRPC clients that have come to the wrong port learn which one it is."""
        words = answer_to_http(data, self.hub.port_words)
        if words is not None and self._transport is not None:
            self._transport.write(words)

    def _take_all(self, data: bytes) -> None:
        end_s = self._loop.time() + TURN_S_MAX
        with contextlib.closing(self.connection.receive(data)) as events:
            for event in events:
                if isinstance(event, Command):
                    self.hub.take(Request(self, event, self.connection.size_bytes))
                else:
                    self._answered(event)
                if not self.room.is_free:
                    self._block()
                    self.room.wait(self._unblock)
                    return
                if self._loop.time() > end_s:  # the others first
                    self._block()
                    self._loop.call_soon(self._unblock)
                    return

    def _block(self) -> None:
        self._is_blocked = True
        self._pause_or_resume_reading()

    def _unblock(self) -> None:
        """There is room again; what has come meanwhile goes first."""
        self._is_blocked = False
        if self._transport is not None:
            self.data_received(b"")
            self._pause_or_resume_reading()

    @property
    def is_blocked(self) -> bool:
        """Are requests here that are not looked at for want of room, or of time in this turn?"""
        return self._is_blocked

    def _pause_or_resume_reading(self) -> None:
        if self._transport is None:
            return
        if self._is_blocked or self.room.is_paused:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def note_sent(self) -> None:
        """Look how much the peer has not read; the transport does not say each time."""
        if self._transport is not None:
            self.room.sent(self._transport.get_write_buffer_size())

    def eof_received(self) -> bool:
        return False  # close: clients of this protocol do not half-close

    def pause_writing(self) -> None:
        self.paused_s = self._loop.time()
        self.room.is_paused = True
        self._pause_or_resume_reading()

    def resume_writing(self) -> None:
        self.paused_s = None
        self.active_s = self._loop.time()
        self._is_push_refused = False
        self.room.is_paused = False
        self.note_sent()
        self._pause_or_resume_reading()

    # What goes out

    def finished(self, request: Request, answer: Response) -> None:
        """A request has its answer; for `Request` only."""
        self.hub.finished(request)
        if request.command.is_oneway or self._transport is None:
            return
        try:
            reply = request.command.reply(
                code=answer.code, ext=answer.ext, body=answer.body, remark=answer.remark
            )
            self.write(answer_frame(reply, answer.chunks))
        except ProtocolError:
            # An answer of ours that the protocol cannot carry: the peer is told so instead.
            log.exception("an answer to code %d could not be sent", request.command.code)
            failed = answer_of(OutcomeUnknown("the answer is larger than a frame may be"))
            again = request.command.reply(code=failed.code, remark=failed.remark)
            self.write((again.encode(),))

    def notify(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> bool:
        """Send a request that wants no answer; False: the peer does not read, nothing was sent."""
        if not self._may_push(code):
            return False
        self.write((self.connection.notify(code, ext, body),))
        return True

    def _may_push(self, code: int) -> bool:
        """What the peer has not asked for is only sent while it reads."""
        if self.room.is_free:
            return True
        if not self._is_push_refused:
            self._is_push_refused = True
            log.info("%s does not read; requests to it (code %d) are dropped", self.address, code)
        return False

    def call(
        self, code: int, ext: Mapping[str, str], body: bytes = b"", *, timeout_s: float
    ) -> asyncio.Future[Command]:
        """Send a request; the future has the peer's answer, and is cancelled if none comes in time.

        Raises:
            LimitExceeded: the peer owes too many answers already, or does not read.
            Unavailable: the peer has gone.
        """
        if self._transport is None:
            raise Unavailable(f"client {self.address} has gone")
        if not self._may_push(code):
            raise LimitExceeded(f"client {self.address} does not read what it is sent")
        future: asyncio.Future[Command] = self._loop.create_future()
        deadline_s = self._loop.time() + timeout_s
        self.write((self.connection.call(future, code, ext, body, deadline_s=deadline_s),))
        return future

    def _answered(self, answered: Answered[asyncio.Future[Command]]) -> None:
        future = answered.token
        if future is not None and not future.done():
            future.set_result(answered.command)

    def expire(self, now_s: float) -> None:
        """Give up the requests to the peer that it has not answered in time."""
        for future in self.connection.expire(now_s):
            future.cancel()

    def write(self, chunks: Sequence[bytes | memoryview]) -> None:
        """Send these bytes with what else is ready in this turn; dropped if the peer has gone."""
        if self._transport is None:
            return
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent += chunks
        if not self.room.write(sum(map(len, chunks))):
            log.warning(
                "%s: closed %s: it has left %d bytes of answers unread",
                *(self.hub.name, self.address, self.room.size_bytes),
            )
            self._unsent.clear()
            self.abort()

    def write_now(self, data: bytes | memoryview) -> None:
        """The same at once, with what is ready: nothing else will be in this turn. That the
        connection is active is for the caller to say."""
        if self._unsent or self.room.is_paused:  # which may be too much: `write` says
            self.write((data,))
        elif self._transport is not None:
            self._send(self._transport, data)

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if self._transport is None or not unsent:
            return
        self.active_s = self._loop.time()
        self._send(self._transport, unsent[0] if len(unsent) == 1 else b"".join(unsent))

    def _send(self, transport: asyncio.Transport, data: bytes | memoryview) -> None:
        if len(data) <= self._piece_bytes:
            transport.write(data)
        else:
            for start in range(0, len(data), self._piece_bytes):
                transport.write(data[start : start + self._piece_bytes])
        self.room.flushed(transport.get_write_buffer_size())

    # Ending

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Close after what was written is sent."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def wait(self, give_up: Callable[[], None]) -> Share:
        """A request waits for messages, for as long as it may.

        Args:
            give_up: answers it when another client needs its place more.

        Raises:
            LimitExceeded: too many wait already, and this client has its share.
        """
        return self.hub.waiting.take(self.peer, self, give_up)

    def close_soon(self) -> None:
        """Close it at once; any thread may call."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the connection with it
            self._loop.call_soon_threadsafe(self.abort)

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


def _plain_address(text: str) -> str:
    """An IPv4 address that came by an IPv6 socket is still an IPv4 address."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return text
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
