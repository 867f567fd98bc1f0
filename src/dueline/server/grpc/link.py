"""One connection of the port: bytes of a socket to calls, and answers back to bytes.

    socket ──▶ entrance: TLS or not ──▶ ServerConnection ──▶ calls ──▶ service

A peer that does not begin as HTTP/2 does is told which port this is.

Everything that one read brought is handled as one turn, and everything that a turn has to say to
the peer is one write. Bounded: how long a peer may take for its first words, for half a message or
for an answer that waits for it (`look`); what it makes us keep (`hoard`); and nothing is read from
a peer that does not read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from dueline.server.connections import Connections, Place
from dueline.server.grpc.call import Call
from dueline.server.grpc.framing import GrpcStatus, Unreadable
from dueline.server.grpc.hoard import Hoard
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.peer import Peer
from dueline.server.grpc.reception import Reception, Refusal
from dueline.server.wrong_port import GRPC_PORT, answer_to_frame, answer_to_http
from dueline.wire.http2 import Data, Limits, Request, Reset, ServerConnection

__all__ = ["Link", "Links", "Service"]

WRITE_BUFFER_MAX: Final = 256 << 10
SILENT_S_MAX: Final = 60.0
"""After so long we ask whether a peer is still there."""
ANSWERED_S_MAX: Final = 20.0
"""And so long it has to say so."""
RENEWED_EVERY_S: Final = 10.0
_BUFFER_SIZE: Final = 64 << 10
_HTTP2: Final = b"PRI"

log = logging.getLogger(__name__)


class Service(Protocol):
    """What calls are made to."""

    def takes_stream(self, method: str) -> bool:
        """Does a method take a stream of requests?

        Raises:
            Refusal: there is no such method.
        """

    def serve(self, call: Call, request: bytes | None) -> None:
        """A call with its whole request; None: with a stream of them, which is about to come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """What all links share."""

    options: GrpcOptions
    service: Service
    connections: Connections
    hoard: Hoard = field(default_factory=Hoard)
    all: dict[Link, None] = field(default_factory=dict)
    buffer: memoryview = field(default_factory=lambda: memoryview(bytearray(_BUFFER_SIZE)))
    """What is read, one connection after the other."""
    on_change: Callable[[], None] = lambda: None
    """A connection has come or gone."""


class Link(asyncio.BufferedProtocol, asyncio.Protocol):
    """One connection; see the module."""

    def __init__(self, links: Links) -> None:
        self.peer = Peer(host="", port=0)
        self.http2 = ServerConnection(Limits(stream_count_max=links.options.stream_count_max))
        self.calls: dict[int, Call] = {}
        self._links = links
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._place: Place | None = None
        self._is_known = False
        """It begins as HTTP/2 does."""
        self._is_flushing = False
        self._is_closing = False
        self._reception = Reception()
        self._waiting: dict[int, Call] = {}
        """Calls with answers that the peer has not taken."""
        self._handshake_s_max = links.options.handshake_ms_max / 1_000
        self._kept_bytes = 0
        """Of requests."""
        self._queued_bytes = 0
        self._counted_bytes = 0
        self._paused_s: float | None = None
        self.active_s = self._begun_s = self._renewed_s = self._loop.time()
        self._pinged_s: float | None = None

    # The socket

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        client = transport.get_extra_info("peername") or ("", 0)
        self.peer = Peer(
            host=str(client[0]),
            port=int(client[1]),
            certificate=transport.get_extra_info("peercert"),
        )
        self._place = self._links.connections.enter(self.peer.key, self)
        if self._place is None:
            transport.abort()
            return
        self._links.all[self] = None
        self._links.on_change()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._links.buffer  # the loop reads into it and tells us at once

    def buffer_updated(self, nbytes: int) -> None:
        self.receive(bytes(self._links.buffer[:nbytes]))

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        """The peer does not read: nothing more is read from it, and data waits in its stream."""
        self._paused_s = self._loop.time()
        self.http2.hold(True)
        assert self._transport is not None
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused_s = None
        self.http2.hold(False)
        assert self._transport is not None
        if not self._transport.is_closing():
            self._transport.resume_reading()
        self.changed()

    def connection_lost(self, error: Exception | None) -> None:
        for call in list(self.calls.values()):
            call.on_gone()
        self.calls.clear()
        self._links.hoard.keeps(self, 0)
        self._links.all.pop(self, None)
        self._links.on_change()
        if self._place is not None:
            self._place.leave()

    def abort(self) -> None:
        """End it now."""
        if self._transport is not None:
            self._transport.abort()

    def close_soon(self) -> None:
        """End it; any thread may call."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the connection with it
            self._loop.call_soon_threadsafe(self.abort)

    # What comes

    def receive(self, data: bytes) -> None:
        """One turn: whatever one read brought."""
        self.active_s = self._loop.time()
        self._pinged_s = None
        if not self._is_known:
            if self._says_wrong_port(data):
                return
            self._is_known = True
        for event in self.http2.receive(data):
            if isinstance(event, Data):
                self._on_data(event)
            elif isinstance(event, Request):
                self._on_request(event)
            else:
                self._on_reset(event)
        self._flush()
        if self.http2.fault is not None:
            self._close()

    data_received = receive  # the first bytes come from the entrance

    def _says_wrong_port(self, first: bytes) -> bool:
        if first[:3] == _HTTP2[: len(first)]:
            return False
        words = answer_to_http(first, GRPC_PORT) or answer_to_frame(first, GRPC_PORT)
        if words is None:
            return False
        assert self._transport is not None
        self._transport.write(words)
        self._transport.close()
        return True

    def _on_request(self, event: Request) -> None:
        service = self._links.service
        try:
            asked = self._reception.ask(event.headers)
            is_stream = service.takes_stream(asked.method)
        except Refusal as refusal:
            refusal.tell(self.http2, event.stream_id)
            return
        call = Call(
            self,
            event.stream_id,
            asked,
            request_size_max=self._links.options.request_size_max,
            now_s=self.active_s,
        )
        self.calls[event.stream_id] = call
        call.awaits_request = not is_stream
        if is_stream:
            service.serve(call, None)
        if event.is_end:
            self._on_data(Data(event.stream_id, b"", True))

    def _on_data(self, event: Data) -> None:
        call = self.calls.get(event.stream_id)
        if call is None or call.is_over:
            return
        if not call.counted_bytes and not call.awaits_request:
            call.begun_s = self.active_s
        try:
            call.on_data(event.data, event.is_end)
            if event.is_end and call.awaits_request:
                self._links.service.serve(call, call.request())
        except Unreadable as error:
            call.give_up(error.status, error.message)
        self.recount(call)

    def _on_reset(self, event: Reset) -> None:
        call = self.calls.pop(event.stream_id, None)
        self._waiting.pop(event.stream_id, None)
        if call is not None:
            call.on_gone()
            self.recount(call)

    # What goes

    def changed(self) -> None:
        """There is something to send: it goes at the end of this turn."""
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self._flush)

    def waits(self, call: Call) -> None:
        """The peer has not taken all of an answer."""
        call.begun_s = self._loop.time()
        self._waiting[call.stream_id] = call

    def over(self, call: Call) -> None:
        """All is said on a call; it stays until the peer has taken it."""
        if self.http2.is_open(call.stream_id):
            self.waits(call)
        else:
            self._forget(call.stream_id)
        self.recount(call)

    def _forget(self, stream_id: int) -> None:
        self.calls.pop(stream_id, None)
        if self._is_closing:
            self._loop.call_soon(self._close_if_idle)

    def _close_if_idle(self) -> None:
        if not self.calls:
            self._flush()
            self._close()

    def recount(self, call: Call) -> None:
        """A call keeps more or less of what came."""
        size = 0 if call.is_over else call.buffered_bytes
        self._kept_bytes += size - call.counted_bytes
        call.counted_bytes = size

    def _settle(self) -> None:
        """Windows may have opened: who waits for that?"""
        for stream_id, call in list(self._waiting.items()):
            call.look()
            if not self.http2.is_open(stream_id):
                self._forget(stream_id)
            if not call.queued_bytes:
                del self._waiting[stream_id]

    def _flush(self) -> None:
        self._is_flushing = False
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        data = self.http2.output()
        if data:
            transport.write(data)
        queued_bytes = self.http2.queued_bytes
        if self._waiting and queued_bytes != self._queued_bytes:
            self._settle()
        self._queued_bytes = queued_bytes
        kept_bytes = self._kept_bytes + queued_bytes + transport.get_write_buffer_size()
        if kept_bytes != self._counted_bytes:
            self._counted_bytes = kept_bytes
            self._links.hoard.keeps(self, kept_bytes)

    # Time, and the end

    def look(self, now_s: float) -> None:
        """Who has taken too long? Called every now and then."""
        options = self._links.options
        if not self.http2.has_settings and now_s - self._begun_s > self._handshake_s_max:
            self.abort()
            return
        half_s = options.message_ms_max / 1_000
        if self._paused_s is not None and now_s - self._paused_s > half_s:
            self.abort()
            return
        for call in list(self.calls.values()):
            if call.deadline_s is not None and call.deadline_s < now_s:
                call.give_up(GrpcStatus.DEADLINE_EXCEEDED, "the call's time is over")
            elif call.is_half and now_s - call.begun_s > half_s:
                call.give_up(GrpcStatus.CANCELLED, "the client took too long")
        self._keep_alive(now_s)

    def _keep_alive(self, now_s: float) -> None:
        if now_s - self._renewed_s > RENEWED_EVERY_S:
            self._renewed_s = now_s
            self.http2.patience.renew()
        if self._pinged_s is not None:
            if now_s - self._pinged_s > ANSWERED_S_MAX:
                self.abort()
        elif now_s - self.active_s > SILENT_S_MAX and self.http2.has_settings:
            self._pinged_s = now_s
            self.http2.ping()
            self.changed()

    def refuse(self) -> None:
        """Take no new calls; when those under way have ended, it is over."""
        self.http2.close()
        self._is_closing = True
        self._flush()
        self._close_if_idle()

    def stop(self) -> None:
        """End it, with a word to those who still wait."""
        for call in list(self.calls.values()):
            call.give_up(GrpcStatus.UNAVAILABLE, "the broker is stopping; call again later")
        self._flush()
        self._close()

    def _close(self) -> None:
        """End it when what was written has gone, or when the peer has had its time."""
        if self._transport is not None:
            self._transport.close()
            self._paused_s = self._paused_s or self._loop.time()
