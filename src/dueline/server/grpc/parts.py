"""What the methods share: the broker's parts, the clients, and ways to wait without blocking.

The event loop never blocks: reads of the store run in a small pool of threads (`off_loop`), writes
are handed over and answered by a callback (`sent`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from dueline.broker import Broker
from dueline.broker.sending import Destination, Sending
from dueline.broker.writing import Results
from dueline.errors import BrokerError
from dueline.message import HOST_UNKNOWN, Message, pack_host
from dueline.server.connections import peer_of
from dueline.server.grpc.clients import Clients
from dueline.server.grpc.codes import Code, Refused
from dueline.server.grpc.options import GrpcOptions
from dueline.server.outbox import Outbox
from dueline.server.runtime import Runtime
from dueline.server.shares import Share, Shares

__all__ = ["Parts", "Peer", "client_id_of", "resolve"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything a method needs."""

    broker: Broker
    clients: Clients
    options: GrpcOptions
    runtime: Runtime
    sending: Sending
    peers: Callable[[str], Peer]
    """The client behind gRPC's name for a peer."""
    calls: Shares
    polls: Shares

    @property
    def executor(self) -> Executor:
        return self.runtime.threads

    @property
    def outbox(self) -> Outbox:
        """The way from other threads to the loop: a group of answers wakes it once."""
        return self.runtime.outbox

    def now_ms(self) -> int:
        return self.broker.clock.now_ms()

    async def off_loop(self, work: Callable[[], T]) -> T:
        """Run something that may wait for the disk."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, work)

    async def saved(self) -> None:
        """New topics are on disk before anybody is told about them."""
        if not self.broker.topics.is_saved:
            await self.off_loop(self.broker.save)

    async def sent(self, destination: Destination, messages: Sequence[Message]) -> Results:
        """Store messages; an answer for each when they are on disk."""
        answer: asyncio.Future[Results] = asyncio.get_running_loop().create_future()
        size_bytes = sum(len(message.body) for message in messages)
        self.sending.send(destination, messages, partial(resolve, answer), size_bytes=size_bytes)
        return await answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The other end of a connection."""

    host: str
    port: int

    @property
    def packed(self) -> bytes:
        try:
            return pack_host(self.host, self.port)
        except BrokerError:
            return HOST_UNKNOWN

    def take(self, shares: Shares, give_up: Callable[[], None] | None = None) -> Share:
        """A share for this connection; see `Shares.take`."""
        return shares.take(peer_of(self.host), self, give_up)


def client_id_of(context: Any) -> str:
    """Who calls.

    Raises:
        Refused: the call does not say.
    """
    for name, value in context.invocation_metadata() or ():
        if name == "x-mq-client-id" and value:
            return str(value)
    raise Refused(Code.CLIENT_ID_REQUIRED, "metadata: expected x-mq-client-id, found none")


def resolve(answer: asyncio.Future[Any], result: Any) -> None:
    """Settle a future with a result or an error, unless nobody waits for it any more."""
    if answer.done():  # the caller has gone
        return
    if isinstance(result, BaseException):
        answer.set_exception(result)
    else:
        answer.set_result(result)
