"""Connections of a client to a name server or broker: a `dueline.wire.Connection` with a socket.

`ClientConnection` is what every kind has: requests that are signed with the credentials of a user,
errors in words, and the answer to what the server asks. It goes to `on_request`; if the server
wants an answer, it is told that the client does not support it. `AsyncConnection` is the kind for
asyncio; `dueline.client.direct` has the one for programs without an event loop.

A request that is not answered in time fails with `Unavailable`; so do all of them when the
connection breaks.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, Self, TypeVar, cast

from dueline.credentials import Credentials
from dueline.errors import ProtocolError, Unavailable
from dueline.tls import CA, ClientTls
from dueline.wire import Answered, Command, Connection, Language, ResponseCode
from dueline.wire.command import NO_EXT
from dueline.wire.request_pattern import RequestPattern
from dueline.wire.signature import signed

__all__ = ["AnyConnection", "AsyncConnection", "ClientConnection", "Dialling", "Secured", "dialled"]

CALL_COUNT_MAX: Final = 10_000
"""Requests on one connection that are not answered yet."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Secured:
    """What connections are encrypted with."""

    context: ssl.SSLContext
    server_name: str | None = None

    @classmethod
    def by(cls, tls: ClientTls) -> Secured:
        """Read the certificates, once for all connections.

        Raises:
            InvalidRequest: they cannot be used.
        """
        return cls(context=tls.context(), server_name=tls.server_name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialling:
    """How to connect, to whatever address.

    Args:
        secured: what to encrypt with; None: not at all.
        credentials: whose name and signature requests carry; None: nobody's.
    """

    timeout_s: float
    secured: Secured | None = None
    credentials: Credentials | None = None
    on_request: Callable[[Command], None] = lambda command: None


class ClientConnection(ABC, Generic[T]):
    """An open connection; `T` is what waits for an answer."""

    def __init__(self, address: str, how: Dialling) -> None:
        self.address: Final = address
        self._on_request = how.on_request
        self._credentials = how.credentials
        self._connection = Connection[T](call_count_max=CALL_COUNT_MAX, language=Language.PYTHON)
        self._is_known = False

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether requests can be sent."""

    def call(
        self,
        code: int,
        ext: Mapping[str, str] = NO_EXT,
        body: bytes = b"",
        *,
        timeout_s: float,
    ) -> Coroutine[Any, Any, Command]:
        """Send a request, and wait for the answer.

        Raises:
            LimitExceeded: too many requests are not answered yet.
            Unavailable: the connection broke, or no answer came in time.
        """
        fields = self._signed(ext, body)
        request = self._connection.request
        return self._called(code, lambda opaque: request(opaque, code, fields, body), timeout_s)

    def call_known(
        self, pattern: RequestPattern, values: Sequence[str], body: bytes, *, timeout_s: float
    ) -> Coroutine[Any, Any, Command]:
        """The same for a request whose pattern is known; signatures differ each time."""
        if self._credentials is not None:
            return self.call(pattern.code, pattern.ext(values), body, timeout_s=timeout_s)
        return self._called(
            pattern.code, lambda opaque: pattern.encode(opaque, values, body), timeout_s
        )

    async def _called(self, code: int, encode: Callable[[int], bytes], timeout_s: float) -> Command:
        try:
            return await self._answer(encode, timeout_s)
        except TimeoutError as error:
            raise Unavailable(
                f"{self.address}: expected an answer to request {code} within {timeout_s:g} s"
                f"{self._hint()}",
                address=self.address,
            ) from error
        except OSError as error:
            raise self._broken(error) from error

    @abstractmethod
    def _answer(self, encode: Callable[[int], bytes], timeout_s: float) -> Awaitable[Command]:
        """Send a request; the answer can be waited for, and may be a TimeoutError.

        Args:
            encode: makes the frame, given its `opaque`.
        """

    @abstractmethod
    def _write(self, data: bytes) -> None:
        """Send bytes, or see to it that they are sent."""

    @abstractmethod
    def _give(self, token: T, answer: Command) -> None:
        """Hand an answer to who waits for it."""

    def notify(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> None:
        """Send a request that wants no answer."""
        if not self.is_open:
            raise self._broken(None)
        self._write(self._connection.notify(code, self._signed(ext, body), body))

    def _signed(self, ext: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        return ext if self._credentials is None else signed(ext, body, self._credentials)

    def _take(self, event: Command | Answered[T]) -> None:
        self._is_known = True
        if isinstance(event, Command):
            self._asked(event)
        elif event.token is not None:
            self._give(event.token, event.command)

    def _asked(self, request: Command) -> None:
        self._connection.finish(self._connection.size_bytes)
        self._on_request(request)
        if not request.is_oneway:
            code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            remark = f"request type {request.code} not supported by this client"
            self._write(request.reply(code=code, remark=remark).encode())

    def _broken(self, cause: BaseException | None) -> Unavailable:
        return Unavailable(
            f"{self.address}: the connection was closed{f': {cause}' if cause else ''}"
            f"{self._hint()}",
            address=self.address,
        )

    def _hint(self) -> str:
        """Something that has never answered is perhaps something else."""
        if self._is_known:
            return ""
        return "; is it the port of a name server or a broker of RocketMQ's 4.x protocol?"


AnyConnection = ClientConnection[Any]


@contextlib.contextmanager
def dialled(address: str) -> Iterator[tuple[str, int]]:
    """Host and port, to connect to inside.

    Raises:
        Unavailable: nobody answers there, or not with TLS.
    """
    host, _, port = address.rpartition(":")
    try:
        yield host.strip("[]"), int(port)
    except ssl.SSLError as error:
        raise Unavailable(_no_tls(address, error), address=address) from error
    except OSError as error:
        raise Unavailable(
            f"{address}: expected a broker or name server, found: {error or 'no answer'}",
            address=address,
        ) from error


class AsyncConnection(ClientConnection[asyncio.Future[Command]], asyncio.Protocol):
    """An open connection of an event loop; made by `open`."""

    _transport: asyncio.Transport

    def __init__(self, address: str, how: Dialling) -> None:
        super().__init__(address, how)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._cause: BaseException | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_lost = asyncio.Event()

    @classmethod
    async def open(cls, address: str, how: Dialling) -> Self:
        """Connect.

        Raises:
            Unavailable: nobody answers there, or not with TLS.
        """
        tls: dict[str, Any] = {}
        if how.secured is not None:
            tls["ssl"] = how.secured.context
            if how.secured.server_name is not None:
                tls["server_hostname"] = how.secured.server_name
        loop = asyncio.get_running_loop()
        with dialled(address) as (host, port):
            async with asyncio.timeout(how.timeout_s):
                _, made = await loop.create_connection(
                    partial(cls, address, how), host, port, **tls
                )
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent; asyncio knows of a reset before it says so."""
        return not self._is_lost.is_set() and not self._transport.is_closing()

    async def _answer(self, encode: Callable[[int], bytes], timeout_s: float) -> Command:
        deadline_s = self._loop.time() + timeout_s
        while not self._has_room.is_set():  # the server does not read what was sent before
            async with asyncio.timeout_at(deadline_s):
                await self._has_room.wait()
        return await self._begin(encode, deadline_s)

    def _begin(self, encode: Callable[[int], bytes], deadline_s: float) -> asyncio.Future[Command]:
        answer: asyncio.Future[Command] = self._loop.create_future()
        if not self.is_open:
            raise self._broken(None)
        self._write(self._connection.ask(answer, encode, deadline_s=deadline_s))
        if self._timer is None or self._timer.when() > deadline_s:
            self._wake_at(deadline_s)
        return answer

    def _write(self, data: bytes) -> None:
        self._transport.write(data)

    def pause_writing(self) -> None:
        self._has_room.clear()

    def resume_writing(self) -> None:
        self._has_room.set()

    # Answers that do not come

    def _wake_at(self, deadline_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if deadline_s is not None:
            self._timer = self._loop.call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        for answer in self._connection.expire(self._loop.time()):
            if not answer.done():
                answer.set_exception(TimeoutError())
        self._wake_at(self._connection.next_deadline_s)

    # What comes in

    def data_received(self, data: bytes) -> None:
        try:
            for event in self._connection.receive(data):
                self._take(event)
        except ProtocolError as error:
            self._cause = self._cause or error
            self._transport.close()

    def _give(self, token: asyncio.Future[Command], answer: Command) -> None:
        if not token.done():
            token.set_result(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost.set()
        self._has_room.set()
        self._end(self._cause or exc)

    def _end(self, cause: BaseException | None) -> None:
        self._wake_at(None)
        for answer in self._connection.close():
            if not answer.done():
                answer.set_exception(self._broken(cause))

    async def close(self) -> None:
        self._transport.close()
        self._end(None)
        await self._is_lost.wait()


def _no_tls(address: str, error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"{address}: expected a certificate for this host that an authority in `ca` "
            f"({CA}, --ca) has signed, found: {error.verify_message}"
        )
    reason = (error.reason or str(error)).lower().replace("_", " ")
    return (
        f"{address}: expected TLS, found: {reason}; does the broker speak TLS (tls.mode), and does "
        "it ask for a certificate of the client's?"
    )
