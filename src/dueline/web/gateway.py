"""Questions to the broker, from an event loop: so many at a time, the others wait, not too many.

A Flight call blocks, so it runs in a thread. Each has a deadline. A connection that found nobody is
given up and made anew: gRPC would wait for minutes before it looks for a broker that is back.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, TypeVar

from dueline.credentials import Credentials
from dueline.errors import LimitExceeded, Unauthenticated, Unavailable
from dueline.flight.operators import OperatorClient
from dueline.flight.values import Value

__all__ = ["Gateway", "asking"]

THREAD_COUNT: Final = 8
WAITING_COUNT_MAX: Final = 256
TIMEOUT_S: Final = 15.0
USER_COUNT_MAX: Final = 100
"""Connections of users that are kept."""

_user: ContextVar[Credentials | None] = ContextVar("user", default=None)

_Answer = TypeVar("_Answer", bound=Value)
_Result = TypeVar("_Result")


class Gateway:
    """The way to one broker; make it and use it in one event loop.

    A question is asked as the user whom the request names (`asking`), and as nobody without one.
    """

    def __init__(self, address: str, *, own: Credentials | None = None) -> None:
        """Args:
        own: who asks whether the broker is ready, which anybody may know.
        """
        self.address: Final = address
        self.own: Final = own
        self._lock = threading.Lock()
        self._clients: OrderedDict[Credentials | None, OperatorClient] = OrderedDict()
        self._waiting_count = 0
        self._threads = ThreadPoolExecutor(THREAD_COUNT, thread_name_prefix="flight call")

    async def ask(self, request: Value, answer: type[_Answer]) -> _Answer:
        """Send a request and wait for its answer.

        Raises:
            BrokerError: what the broker raised, or `Unavailable` if there is none.
        """
        return await self.run(lambda client: client.ask(request, answer, timeout_s=TIMEOUT_S))

    async def run(self, work: Callable[[OperatorClient], _Result]) -> _Result:
        """Do something with a connection, in a thread.

        Raises:
            LimitExceeded: too many wait already.
        """
        if self._waiting_count >= WAITING_COUNT_MAX:
            raise LimitExceeded(
                f"questions to the broker: expected at most {WAITING_COUNT_MAX} to wait, found as "
                "many; ask again later",
                limit=WAITING_COUNT_MAX,
            )
        self._waiting_count += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._work, _user.get(), work)
        finally:
            self._waiting_count -= 1

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            clients, self._clients = self._clients, OrderedDict()
        for client in clients.values():
            client.close()

    def _work(self, user: Credentials | None, work: Callable[[OperatorClient], _Result]) -> _Result:
        client = self._connected(user)
        try:
            return work(client)
        except (Unavailable, Unauthenticated):
            self._give_up(user, client)
            raise

    def _connected(self, user: Credentials | None) -> OperatorClient:
        with self._lock:
            client = self._clients.get(user) or OperatorClient(self.address, user)
            self._clients[user] = client
            self._clients.move_to_end(user)
            while len(self._clients) > USER_COUNT_MAX:
                self._clients.popitem(last=False)
            return client

    def _give_up(self, user: Credentials | None, client: OperatorClient) -> None:
        """Others may still wait for an answer of it: it is closed when they let go of it."""
        with self._lock:
            if self._clients.get(user) is client:
                del self._clients[user]


@contextmanager
def asking(user: Credentials | None) -> Iterator[None]:
    """Who asks, within this request."""
    token = _user.set(user)
    try:
        yield
    finally:
        _user.reset(token)
