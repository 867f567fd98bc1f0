"""What the handlers of one broker share, and the two ways in which they wait.

`write` hands messages to the store's writer and answers when they are on disk. `saved` makes topics
and groups durable first, which costs nothing if nothing changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from dueline.engine import Results
from dueline.errors import BrokerError
from dueline.message import Message
from dueline.messaging import Messaging
from dueline.server.remoting.answers import Answer, answer_of
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.listeners import ANY_ADDRESSES
from dueline.server.remoting.runtime import Runtime
from dueline.store import PutResult

__all__ = ["Addresses", "Context"]

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where clients find the broker."""

    host: str
    port: int

    def seen_from(self, channel: Channel) -> str:
        """A broker that listens everywhere is where this client found the name server."""
        host = channel.local_host if self.host in ANY_ADDRESSES else self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


class Context:
    """One broker, as its remoting handlers see it."""

    def __init__(self, messaging: Messaging, runtime: Runtime) -> None:
        self.messaging: Final = messaging
        self.engine: Final = messaging.engine
        self.store: Final = messaging.engine.store
        self.clock: Final = messaging.clock
        self.topics: Final = messaging.topics
        self.groups: Final = messaging.groups
        self.outbox: Final = runtime.outbox
        self.loop: Final = runtime.loop
        self.broker_name: Final = messaging.options.broker_name
        self.cluster_name: Final = messaging.options.cluster_name
        self._runtime = runtime
        self.addresses = Addresses(host="127.0.0.1", port=0)

    def write(
        self,
        request: Request,
        messages: Sequence[Message],
        answer: Callable[[list[PutResult]], Answer],
    ) -> None:
        """Send messages and answer the request when they are on disk, or why they are not.

        Raises:
            Unavailable, LimitExceeded: nothing can be accepted now.
        """

        def done(results: Results | BaseException) -> None:
            self.outbox.post(lambda: self._written(request, results, answer))

        self.engine.send(messages, done)

    def _written(
        self,
        request: Request,
        results: Results | BaseException,
        answer: Callable[[list[PutResult]], Answer],
    ) -> None:
        if isinstance(results, BaseException):
            request.fail(results)
            return
        accepted = []
        for result in results:
            if isinstance(result, BrokerError):
                request.fail(result, is_message=True)
                return
            accepted.append(result)
        request.answer(answer(accepted))

    def saved(self, request: Request, then: Callable[[], Answer | None]) -> None:
        """Make topics and groups durable, then go on in the loop's thread."""
        future = self._runtime.in_thread(self.messaging.save)

        def go_on(done: asyncio.Future[None]) -> None:
            try:
                done.result()
                answer = then()
            except BrokerError as error:
                request.fail(error)
            except Exception as error:
                log.exception("a request of code %d failed", request.command.code)
                request.answer(answer_of(error))
            else:
                if answer is not None:
                    request.answer(answer)

        future.add_done_callback(go_on)

    def in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Run what may block in a thread."""
        return self._runtime.in_thread(work)

    def save_soon(self) -> None:
        """Make topics and groups durable in the background."""
        if not self.topics.is_saved or not self.messaging.group_table.is_saved:
            future = self._runtime.in_thread(self.messaging.save)
            future.add_done_callback(_log_failure)


def _log_failure(future: asyncio.Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("topics and groups were not saved and will be later: %s", error)
