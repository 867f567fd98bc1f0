"""What the handlers of one broker share: its parts, the loop, and ways to wait for the disk.

`sending` has the verbs that write messages. `saved` makes topics and groups durable before a
handler goes on, which costs nothing if nothing changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from dueline.broker import Broker
from dueline.broker.sending import Sending
from dueline.broker.values import PutResult
from dueline.broker.writing import Results, accepted
from dueline.errors import BrokerError
from dueline.server.remoting.answers import Response, answer_of
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.listeners import ANY_ADDRESSES
from dueline.server.runtime import Runtime

__all__ = ["Addresses", "Context", "answer_send"]

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

    def __init__(self, broker: Broker, runtime: Runtime) -> None:
        self.broker: Final = broker
        self.reading: Final = broker.reading
        self.sending: Final = Sending(broker, runtime)
        self.clock: Final = broker.clock
        self.topics: Final = broker.topics
        self.groups: Final = broker.groups
        self.outbox: Final = runtime.outbox
        self.loop: Final = runtime.loop
        self.broker_name: Final = broker.options.broker_name
        self.cluster_name: Final = broker.options.cluster_name
        self.runtime: Final = runtime
        self.addresses = Addresses(host="127.0.0.1", port=0)

    def saved(self, request: Request, then: Callable[[], Response | None]) -> None:
        """Make topics and groups durable, then go on in the loop's thread."""
        future = self.runtime.in_thread(self.broker.save)

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
        return self.runtime.in_thread(work)

    def save_soon(self) -> None:
        """Make topics and groups durable in the background."""
        if not self.topics.is_saved or not self.broker.group_table.is_saved:
            future = self.runtime.in_thread(self.broker.save)
            future.add_done_callback(_log_failure)


def answer_send(
    request: Request,
    answer: Callable[[Request, list[PutResult]], None],
    results: Results | BaseException,
) -> None:
    """Answer a request whose messages the store has looked at, or why it has not."""
    if isinstance(results, BaseException):
        request.fail(results)
        return
    try:
        answer(request, accepted(results))
    except BrokerError as error:
        request.fail(error, is_message=True)
    except Exception as error:
        log.exception("an answer to code %d could not be made", request.command.code)
        request.fail(error)


def _log_failure(future: asyncio.Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("topics and groups were not saved and will be later: %s", error)
