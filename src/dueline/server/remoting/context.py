"""What the handlers of one broker share, and the two ways in which they wait.

`write` hands messages to the store's writer and answers when they are on disk. What is sent in one
turn of the loop, by whichever connections, goes to the writer together and comes back together: one
hand-over between threads each way, however many messages. `saved` makes topics and groups durable
first, which costs nothing if nothing changed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, TypeVar

from dueline.broker import Broker
from dueline.broker.engine import Results
from dueline.errors import BrokerError, LimitExceeded
from dueline.message import Message
from dueline.server.remoting.answers import Answer, answer_of
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.listeners import ANY_ADDRESSES
from dueline.server.remoting.runtime import Runtime
from dueline.store import PutResult

__all__ = ["Addresses", "Context", "accepted"]

T = TypeVar("T")

TURN_COUNT_MAX: Final = 1_024
TURN_SIZE_BYTES_MAX: Final = 4 << 20

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


AnswerSend = Callable[[Request, Sequence[PutResult]], None]
"""Answers a request whose messages are on disk."""


class _Send(NamedTuple):  # a tuple: one is made for every send
    """A request whose messages are on their way to the disk."""

    request: Request
    messages: Sequence[Message]
    answer: AnswerSend


class Context:
    """One broker, as its remoting handlers see it."""

    def __init__(self, broker: Broker, runtime: Runtime) -> None:
        self.broker: Final = broker
        self.engine: Final = broker.engine
        self.store: Final = broker.engine.store
        self.clock: Final = broker.clock
        self.topics: Final = broker.topics
        self.groups: Final = broker.groups
        self.outbox: Final = runtime.outbox
        self.loop: Final = runtime.loop
        self.broker_name: Final = broker.options.broker_name
        self.cluster_name: Final = broker.options.cluster_name
        self._runtime = runtime
        self._turn: list[_Send] = []
        self._turn_size_bytes = 0
        self.addresses = Addresses(host="127.0.0.1", port=0)

    def write(
        self, request: Request, messages: Sequence[Message], answer: AnswerSend, size_bytes: int
    ) -> None:
        """Send messages and answer the request when they are on disk, or why they are not.

        Args:
            size_bytes: of the messages' bodies together, more or less.
        """
        if not self._turn:
            self.loop.call_soon(self._end_turn)
        self._turn.append(_Send(request, messages, answer))
        self._turn_size_bytes += size_bytes
        if self._turn_size_bytes > TURN_SIZE_BYTES_MAX or len(self._turn) >= TURN_COUNT_MAX:
            self._end_turn()

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, []
        self._turn_size_bytes = 0
        if turn:
            self._hand_over(turn)

    def _hand_over(self, turn: list[_Send]) -> None:
        """All together or, if that is more than may wait, as many as there is room for."""
        messages = [message for send in turn for message in send.messages]
        try:
            self.engine.send(messages, partial(self._done, turn))
        except LimitExceeded as error:
            if len(turn) == 1:
                turn[0].request.fail(error)
                return
            for send in turn:
                self._hand_over([send])
        except BrokerError as error:
            for send in turn:
                send.request.fail(error)

    def _done(self, turn: list[_Send], results: Results | BaseException) -> None:
        """The writer's answer, in its thread."""
        self.outbox.post(partial(self._written, turn, results))

    def _written(self, turn: list[_Send], results: Results | BaseException) -> None:
        if isinstance(results, BaseException):
            for send in turn:
                send.request.fail(results)
            return
        start = 0
        for request, messages, answer in turn:
            end = start + len(messages)
            try:
                answer(request, accepted(results[start:end]))
            except BrokerError as error:
                request.fail(error, is_message=True)
            except Exception as error:
                log.exception("an answer to code %d could not be made", request.command.code)
                request.fail(error)
            start = end

    def saved(self, request: Request, then: Callable[[], Answer | None]) -> None:
        """Make topics and groups durable, then go on in the loop's thread."""
        future = self._runtime.in_thread(self.broker.save)

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
        if not self.topics.is_saved or not self.broker.group_table.is_saved:
            future = self._runtime.in_thread(self.broker.save)
            future.add_done_callback(_log_failure)


def accepted(results: Results) -> list[PutResult]:
    """Raises the first refusal, if there is one."""
    accepted = []
    for result in results:
        if not isinstance(result, PutResult):
            raise result
        accepted.append(result)
    return accepted


def _log_failure(future: asyncio.Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        log.warning("topics and groups were not saved and will be later: %s", error)
