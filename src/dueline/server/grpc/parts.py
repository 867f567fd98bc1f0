"""What the methods share: the broker's parts, the clients, and ways to wait without blocking.

The event loop never blocks: reads of the store run in a small pool of threads (`off_loop`), writes
are handed over and answered by a callback (`sent`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

from dueline.broker import Broker
from dueline.broker.sending import Sending
from dueline.server.grpc.call import Call
from dueline.server.grpc.clients import Clients
from dueline.server.grpc.codes import Code, Refused
from dueline.server.grpc.guard import GrpcGuard
from dueline.server.grpc.options import GrpcOptions
from dueline.server.outbox import Outbox
from dueline.server.runtime import Runtime
from dueline.server.shares import Shares

__all__ = ["Parts", "client_id_of", "resolve"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Everything a method needs."""

    broker: Broker
    clients: Clients
    options: GrpcOptions
    runtime: Runtime
    sending: Sending
    guard: GrpcGuard
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


def client_id_of(call: Call) -> str:
    """Who calls.

    Raises:
        Refused: the call does not say.
    """
    client_id = call.metadata.get("x-mq-client-id")
    if client_id:
        return client_id
    raise Refused(Code.CLIENT_ID_REQUIRED, "metadata: expected x-mq-client-id, found none")


def resolve(answer: asyncio.Future[Any], result: Any) -> None:
    """Settle a future with a result or an error, unless nobody waits for it any more."""
    if answer.done():  # the caller has gone
        return
    if isinstance(result, BaseException):
        answer.set_exception(result)
    else:
        answer.set_result(result)
