"""Coroutines of a client in the thread of their caller: no event loop, no thread of its own.

A request is written and its answer is read by the one who waits for it. `Direct.run` drives a
coroutine; where that waits for an answer, `run` reads the socket until the answer is there:

    run(send) ──▶ coroutine ──▶ call: frame to the socket ──▶ waits ─┐
     ▲                                                               │
     └── result ◀── coroutine goes on ◀── answer ◀── socket is read ◀┘

A run has connections of its own, taken from those that are idle and put back at its end, so any
number of threads may run at a time and none waits for another. One that was interrupted before all
of its answers came ends its connections with it. Several works of one run (`side_by_side`) share
them: their requests are written before the first answer is read, they pause at the same time, and
where nobody answered one of them, the others do not try at once again.

A connection that was idle may have been closed by the server meanwhile. It is looked at before it
is used again, so that a send is not lost on the way to nobody.

A process that was forked cannot use its parent's: both would read the answers of one socket.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import Any, Final, Self, TypeVar

from dueline.client.connection import ClientConnection, Dialling, dialled
from dueline.client.transport import Transport, Work
from dueline.errors import InvalidRequest, ProtocolError, Unavailable
from dueline.wire import Command

__all__ = ["Direct", "DirectConnection", "finished"]

READ_SIZE_BYTES: Final = 64 * 1024
"""Less than what makes malloc ask the system for pages each time."""
_NEAR_S: Final = 0.001
"""A socket's time limit is left as it is if it is off by less."""
IDLE_COUNT_MAX: Final = 64
"""Connections to one address that are kept for later."""
REDIAL_S: Final = 0.1
"""So long after nobody answered at an address, a run does not connect to it again."""

T = TypeVar("T")
_NOT_YET: Final = (TimeoutError, BlockingIOError, ssl.SSLWantReadError)


class Answer:
    """What a request waits for: the answer, or the error in its place."""

    __slots__ = ("_connection", "command", "deadline_s", "error")

    def __init__(self, connection: DirectConnection, deadline_s: float) -> None:
        self._connection = connection
        self.deadline_s: Final = deadline_s
        self.command: Command | None = None
        self.error: Exception | None = None

    def __await__(self) -> Generator[Answer, None, Command]:
        if self.command is None and self.error is None:
            yield self
        if self.error is not None:
            raise self.error
        assert self.command is not None
        return self.command

    def wait(self) -> None:
        """Read until it is there."""
        while self.command is None and self.error is None:
            self._connection.read(self.deadline_s)


class Pause:
    """What a work waits for that has nothing to do for a while."""

    __slots__ = ("_end_s",)

    def __init__(self, seconds: float) -> None:
        self._end_s = time.monotonic() + seconds

    def __await__(self) -> Generator[Pause, None, None]:
        yield self

    def wait(self) -> None:
        time.sleep(max(self._end_s - time.monotonic(), 0.0))


Waiting = Answer | Pause


class DirectConnection(ClientConnection[Answer]):
    """An open connection that one thread at a time uses; made by `open`."""

    def __init__(self, address: str, how: Dialling, opened: socket.socket) -> None:
        super().__init__(address, how)
        self._socket = opened
        self._is_secured = how.secured is not None
        self._limit_s = how.timeout_s
        self._poll = select.poll()
        self._poll.register(opened, select.POLLIN)
        self._is_ended = False

    @classmethod
    def open(cls, address: str, how: Dialling) -> Self:
        """Connect.

        Raises:
            Unavailable: nobody answers there, or not with TLS.
        """
        with dialled(address) as (host, port):
            opened = socket.create_connection((host, port), timeout=how.timeout_s)
            try:
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if how.secured is not None:
                    name = how.secured.server_name or host
                    opened = how.secured.context.wrap_socket(opened, server_hostname=name)
            except BaseException:
                opened.close()
                raise
        return cls(address, how, opened)

    @property
    def is_open(self) -> bool:
        return not self._is_ended

    @property
    def is_free(self) -> bool:
        """Can others use it: is it open, and has every request its answer?"""
        return not (self._is_ended or self._connection.is_waiting)

    def _answer(self, encode: Callable[[int], bytes], timeout_s: float) -> Answer:
        deadline_s = time.monotonic() + timeout_s
        answer = Answer(self, deadline_s)
        if self._is_ended:
            raise self._broken(None)
        frame = self._connection.ask(answer, encode, deadline_s=deadline_s)
        self._allow(timeout_s)
        self._write(frame)
        return answer

    def _write(self, data: bytes) -> None:
        try:
            sent = 0
            if not self._is_secured:
                with contextlib.suppress(BlockingIOError):  # what finds no room waits, below
                    sent = os.write(self._socket.fileno(), data)
            if sent < len(data):
                self._socket.sendall(data[sent:])
        except TimeoutError as error:  # half of it may be there: nothing more can follow
            self._end(error, TimeoutError())
        except OSError as error:
            self._end(error)

    def _give(self, token: Answer, answer: Command) -> None:
        token.command = answer

    def read(self, deadline_s: float) -> None:
        """Wait for what comes next, and take it; at the latest at the deadline, requests are late.

        What has come is taken also when it is too late to wait.
        """
        self._allow(max(deadline_s - time.monotonic(), 0.0))
        try:
            if data := self._socket.recv(READ_SIZE_BYTES):
                for event in self._connection.receive(data):
                    self._take(event)
            else:
                self._end(None)
        except _NOT_YET:
            for answer in self._connection.expire(time.monotonic()):
                answer.error = TimeoutError()
        except (OSError, ProtocolError) as error:
            self._end(error)

    def refresh(self) -> bool:
        """Take what has come while nobody waited; is the connection still open?"""
        while not self._is_ended and self._poll.poll(0):
            self.read(0.0)
        return not self._is_ended

    def _allow(self, seconds: float) -> None:
        """How long the socket may wait from now on."""
        if not -_NEAR_S < self._limit_s - seconds < _NEAR_S or seconds == 0.0:
            self._limit_s = seconds
            self._socket.settimeout(seconds)

    def _end(self, cause: BaseException | None, instead: Exception | None = None) -> None:
        self.close()
        for answer in self._connection.close():
            answer.error = instead or self._broken(cause)

    def close(self) -> None:
        """Let go of the socket; what another process has of it stays as it is."""
        self._is_ended = True
        self._socket.close()

    def interrupt(self) -> None:
        """Let the thread that waits find the connection closed."""
        with contextlib.suppress(OSError):
            # Not the method of an encrypted socket: that thread is using what it would change.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)


class Direct(Transport):
    """Runs coroutines in the threads that ask for it, with connections that they take turns in."""

    def __init__(self, *, redial_s: float = REDIAL_S) -> None:
        self._process = os.getpid()
        self._redial_s = redial_s
        self._lock = threading.Lock()
        self._idle: dict[str, list[DirectConnection]] = {}
        self._used: set[DirectConnection] = set()
        self._is_closed = False
        self._thread = _Thread()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for its end."""
        thread = self._thread
        held: dict[str, DirectConnection] = {}
        outer, thread.held = thread.held, held  # a callback may run something as well
        thread.failed.clear()
        try:
            return finished(work)
        finally:
            thread.held = outer
            for address, connection in held.items():
                self._put_back(address, connection)

    # Connections

    def known(self, address: str) -> DirectConnection | None:
        held = self._thread.held
        found = held.get(address)
        if found is None or not found.is_open:
            if found is not None:
                self._put_back(address, held.pop(address))
            self._check_usable(address)
            found = self._take_idle(address)
            if found is not None:
                held[address] = found
        return found

    async def connection(self, address: str, how: Dialling) -> DirectConnection:
        found = self.known(address)
        if found is None:
            found = self._dial(address, how)
            with self._lock:
                self._used.add(found)
            self._thread.held[address] = found
        return found

    def _dial(self, address: str, how: Dialling) -> DirectConnection:
        until_s, message = self._thread.failed.get(address, (0.0, ""))
        if time.monotonic() < until_s:
            raise Unavailable(message, address=address)
        try:
            return DirectConnection.open(address, how)
        except Unavailable as error:
            self._thread.failed[address] = (time.monotonic() + self._redial_s, error.message)
            raise

    def _check_usable(self, address: str) -> None:
        if os.getpid() != self._process:
            raise InvalidRequest(
                f"expected to be used in process {self._process}, which has made it, found process "
                f"{os.getpid()}; after a fork, make a client of its own"
            )
        if self._is_closed:
            raise Unavailable(f"{address}: the client was closed", address=address)

    def _take_idle(self, address: str) -> DirectConnection | None:
        while True:
            with self._lock:
                idle = self._idle.get(address)
                if not idle:
                    return None
                found = idle.pop()
                self._used.add(found)
            if found.refresh():
                return found
            with self._lock:
                self._used.discard(found)

    def _put_back(self, address: str, connection: DirectConnection) -> None:
        with self._lock:
            self._used.discard(connection)
            if connection.is_free and not self._is_closed:
                idle = self._idle.setdefault(address, [])
                if len(idle) < IDLE_COUNT_MAX:
                    idle.append(connection)
                    return
        connection.close()

    async def disconnect(self) -> None:
        self.close()

    def close(self) -> None:
        """End all connections for good; who waits for an answer is told."""
        with self._lock:
            self._is_closed = True
            idle = [connection for each in self._idle.values() for connection in each]
            self._idle.clear()
            used = list(self._used)
        for connection in idle:
            connection.close()
        if os.getpid() == self._process:
            for connection in used:
                connection.interrupt()

    # Waiting

    async def sleep(self, seconds: float) -> None:
        await Pause(seconds)

    async def side_by_side(self, works: Iterable[Work], *, count_max: int) -> None:
        under_way: _UnderWay = deque()
        try:
            for begin in works:
                _go_on(begin(), under_way)
                while len(under_way) >= count_max:
                    _advance(under_way)
            while under_way:
                _advance(under_way)
        finally:
            for work, _ in under_way:
                work.close()


class _Thread(threading.local):
    """What a thread's run holds: a connection for each address, and where nobody answered."""

    def __init__(self) -> None:
        self.held: dict[str, DirectConnection] = {}
        self.failed: dict[str, tuple[float, str]] = {}


def finished(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, whose answers are waited for."""
    try:
        while True:
            work.send(None).wait()
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        work.close()


_UnderWay = deque[tuple[Coroutine[Any, Any, None], Waiting]]


def _go_on(work: Coroutine[Any, Any, None], under_way: _UnderWay) -> None:
    """Go on with a work until it is done, or waits for something."""
    try:
        waiting: Waiting = work.send(None)
    except StopIteration:
        return
    under_way.append((work, waiting))


def _advance(under_way: _UnderWay) -> None:
    """Wait for what the one waits for that has waited longest, and go on with it."""
    work, waiting = under_way.popleft()
    try:
        waiting.wait()
    except BaseException:
        work.close()
        raise
    _go_on(work, under_way)
