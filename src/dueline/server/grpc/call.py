"""One call: what it says about itself, what was asked, and the way to answer.

    Link ──▶ on_data, on_gone ──▶ Call ──▶ service.serve ──▶ a method
    Link ◀── answer, write, finish, fail ◀──────────────────────┘

A method gets the call beside its request. One that answers once says `answer`; one that answers
with a stream says `write`, with as many messages at once as it has, and `finish`. Answers leave
with everything else that this turn of the loop has for the connection. When the client has gone, or
its time is over, the method's task is cancelled, and what it still says is dropped.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final, Protocol

from dueline.broker.access import ANONYMOUS
from dueline.errors import LimitExceeded
from dueline.server.grpc.framing import GrpcStatus, MessageReader, Unreadable, framed
from dueline.server.grpc.peer import Peer
from dueline.server.grpc.reception import HEADERS, Asked, trailers
from dueline.wire.http2 import ErrorCode, ServerConnection

__all__ = ["Call", "Way"]

QUEUED_BYTES_MAX: Final = 1 << 20
"""Of a stream that is written to without being asked; more is not for one that does not read."""

_OK: Final = trailers(GrpcStatus.OK)


class Way(Protocol):
    """The connection of a call, as far as the call needs it."""

    http2: ServerConnection
    peer: Peer

    def changed(self) -> None:
        """There is something to send."""

    def waits(self, call: Call) -> None:
        """The call has said what the client has not taken yet."""

    def over(self, call: Call) -> None:
        """Nothing more is said on this call."""

    def recount(self, call: Call) -> None:
        """The call keeps more or less of what came."""


class Call:
    """One call; for the thread of the loop."""

    __slots__ = (
        "_closers",
        "_flushed",
        "_has_headers",
        "_inbox",
        "_is_last",
        "_news",
        "_reader",
        "_way",
        "awaits_request",
        "begun_s",
        "caller",
        "counted_bytes",
        "deadline_s",
        "is_over",
        "metadata",
        "method",
        "stream_id",
        "task",
    )

    def __init__(
        self, way: Way, stream_id: int, asked: Asked, *, request_size_max: int, now_s: float
    ) -> None:
        self.method: Final = asked.method
        """Its name, such as `SendMessage`."""
        self.metadata: Final[Mapping[str, str]] = asked.metadata
        """All headers of the call; `authorization` among them, if there is one."""
        self.caller = ANONYMOUS
        """Who makes it, once that was asked."""
        self.stream_id: Final = stream_id
        self.deadline_s = None if asked.timeout_s is None else now_s + asked.timeout_s
        self.begun_s = now_s
        """Since when half a message, in either direction, has been on its way."""
        self.awaits_request = False
        """Nothing is done for it before its only request is whole."""
        self.counted_bytes = 0
        """What its connection counts for it; see `Way.recount`."""
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        self._way = way
        self._reader = MessageReader(size_max=request_size_max, encoding=asked.encoding)
        self._has_headers = False
        self._closers: list[Callable[[], None]] = []
        self._inbox: deque[tuple[bytes, int]] = deque()
        self._is_last = False
        self._news: asyncio.Future[None] | None = None
        self._flushed: asyncio.Future[None] | None = None

    # What it says about itself

    @property
    def peer(self) -> Peer:
        """Where it came from."""
        return self._way.peer

    def time_remaining(self) -> float | None:
        """Seconds until nobody waits for the answer any more; None: as long as it takes."""
        if self.deadline_s is None:
            return None
        return self.deadline_s - asyncio.get_running_loop().time()

    @property
    def buffered_bytes(self) -> int:
        """Of requests that are not dealt with."""
        return self._reader.buffered_bytes + sum(len(message) for message, _ in self._inbox)

    @property
    def queued_bytes(self) -> int:
        """Of answers that the client has not taken."""
        return self._way.http2.queued_bytes_of(self.stream_id)

    @property
    def is_half(self) -> bool:
        """Does it stand for half a request, or an answer that the client does not take?"""
        is_half_asked = self._reader.buffered_bytes > 0 or (
            self.awaits_request and not self._is_last
        )
        return is_half_asked or self.queued_bytes > 0

    # Answers

    def answer(self, message: Any) -> None:
        """The only answer, and the end."""
        self.write(message)
        self.finish()

    def write(self, *messages: Any) -> None:
        """Some of a stream of answers."""
        if not self.is_over:
            self.write_framed(
                b"".join([framed(message.SerializeToString()) for message in messages])
            )

    def write_framed(self, data: bytes) -> None:
        """The same, as bytes: each message in its frame."""
        if not self.is_over:
            self._begin()
            self._way.http2.send_data(self.stream_id, data)
            self._way.changed()

    def push(self, message: Any) -> None:
        """A message that was not asked for.

        Raises:
            LimitExceeded: the client does not read.
        """
        if self.queued_bytes > QUEUED_BYTES_MAX:
            raise LimitExceeded("stream: expected a client that reads, found one that does not")
        self.write(message)

    def finish(self) -> None:
        """The end of a stream of answers; what was written still goes."""
        self._end(_OK)

    def fail(self, status: GrpcStatus, words: str) -> None:
        """End with an error of gRPC's own."""
        self._end(trailers(status, words))

    async def flushed(self) -> None:
        """Until the client, or at least the way to it, has taken what was written."""
        while self.queued_bytes:
            self._way.waits(self)
            self._flushed = asyncio.get_running_loop().create_future()
            await self._flushed

    def _begin(self) -> None:
        if not self._has_headers:
            self._has_headers = True
            self._way.http2.send_headers(self.stream_id, HEADERS)

    def _end(self, block: bytes) -> None:
        if self.is_over:
            return
        self._begin()
        self._way.http2.end(self.stream_id, block)
        self._close()
        self._way.changed()
        self._way.over(self)

    # Its end

    def on_over(self, closer: Callable[[], None]) -> None:
        """Call this when the call is over, however that happens."""
        self._closers.append(closer)

    def _close(self) -> None:
        self.is_over = True
        self._inbox.clear()
        while self._closers:
            self._closers.pop()()

    def on_gone(self) -> None:
        """The client has given the call up, or has gone."""
        if self.task is not None:
            self.task.cancel()
        self._close()

    def give_up(self, status: GrpcStatus, words: str) -> None:
        """End it for a reason of ours: its time is over, or the broker stops."""
        if self.queued_bytes:
            self._way.http2.reset(self.stream_id, ErrorCode.CANCEL)
        else:
            self.fail(status, words)
        self.on_gone()
        self._way.changed()
        self._way.over(self)

    # Requests

    def on_data(self, data: bytes, is_last: bool) -> None:
        """A part of what the client sends.

        Raises:
            Unreadable: it is no request.
        """
        messages = self._reader.feed(data)
        size = len(data)
        for message in messages:
            self._inbox.append((message, size))
            size = 0
        self.credit(size)
        if is_last:
            self._is_last = True
            if self._reader.buffered_bytes:
                raise Unreadable("request: expected all of it, found a part")
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def request(self) -> bytes:
        """The only one.

        Raises:
            Unreadable: there are more, or none.
        """
        if len(self._inbox) != 1:
            raise Unreadable(f"request: expected one, found {len(self._inbox)}")
        return self._inbox.popleft()[0]

    async def requests(self) -> AsyncIterator[bytes]:
        """Those of a stream, as they come; the client may send more as they are taken."""
        while True:
            while self._inbox:
                message, size = self._inbox.popleft()
                self.credit(size)
                self._way.recount(self)
                yield message
            if self._is_last:
                return
            self._news = asyncio.get_running_loop().create_future()
            await self._news

    def credit(self, size: int) -> None:
        """So much is dealt with: the client may send as much more."""
        if size and not self._is_last:
            self._way.http2.credit(self.stream_id, size)
            self._way.changed()

    def look(self) -> None:
        """Something was sent: does somebody wait for that?"""
        if self._flushed is not None and not self._flushed.done() and not self.queued_bytes:
            self._flushed.set_result(None)
