"""The parts of the 5.x port without a port: calls run on a loop that is turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.unit.server.remoting.world import RemotingWorld, remoting_world

from dueline.broker import BrokerOptions
from dueline.broker.writing import Results
from dueline.message import Message
from dueline.server.grpc import call as grpc_call
from dueline.server.grpc.clients import Clients
from dueline.server.grpc.guard import GrpcGuard
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.parts import Parts, resolve
from dueline.server.grpc.peer import Peer
from dueline.server.grpc.reception import Asked
from dueline.server.grpc.stubs import message_class
from dueline.server.shares import Shares
from dueline.wire.http2 import Limits, ServerConnection

T = TypeVar("T")


class Way:
    """A connection that nobody is at the other end of."""

    def __init__(self) -> None:
        self.http2 = ServerConnection(Limits())
        self.peer = Peer(host="127.0.0.1", port=1)

    def changed(self) -> None:
        """It is not sent anyway."""

    def waits(self, call: grpc_call.Call) -> None:
        """For ever."""

    over = recount = waits


class Call(grpc_call.Call):
    """A call that shows what was written."""

    def __init__(self, client_id: str | None = "c", *, left_s: float | None = None) -> None:
        metadata = {} if client_id is None else {"x-mq-client-id": client_id}
        asked = Asked(method="", metadata=metadata, timeout_s=None, encoding="identity")
        super().__init__(Way(), 1, asked, request_size_max=1 << 20, now_s=0.0)
        self._left_s = left_s
        self.written: list[Any] = []

    def time_remaining(self) -> float | None:
        return self._left_s

    def write(self, *messages: Any) -> None:
        self.written.extend(messages)


class GrpcWorld:
    """One broker and what the methods of its 5.x port share."""

    def __init__(self, inside: RemotingWorld) -> None:
        self.inside = inside
        self.broker = inside.broker
        self.clients = Clients(count_max=10, gone_after_ms=1_000)
        self.parts = Parts(
            broker=inside.broker,
            clients=self.clients,
            options=GrpcOptions(),
            runtime=inside.context.runtime,
            sending=inside.context.sending,
            guard=GrpcGuard(
                inside.broker.access, inside.broker.trail, clock=inside.clock, age_ms_max=60_000
            ),
            calls=Shares("calls", 10),
            polls=Shares("polls", 10),
        )

    def sent(self, *messages: Message) -> Results:
        """Store messages of one topic; an answer for each."""
        answer: asyncio.Future[Results] = self.inside.loop.create_future()
        sending = self.parts.sending
        sending.send(
            sending.destination(messages[0].topic),
            messages,
            lambda results: resolve(answer, results),
            size_bytes=sum(len(message.body) for message in messages),
        )
        return self.inside.loop.run_until_complete(answer)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        return self.inside.loop.run_until_complete(call)


@contextmanager
def grpc_world(folder: Path, options: BrokerOptions | None = None) -> Iterator[GrpcWorld]:
    with remoting_world(folder, options) as inside:
        world = GrpcWorld(inside)
        yield world
        world.clients.stop()


def make(name: str, **fields: Any) -> Any:
    """A message of the protocol; `topic` and `group` by their names."""
    plain = {key: value for key, value in fields.items() if key not in ("topic", "group")}
    message = message_class(name)(**plain)
    for key in ("topic", "group"):
        if key in fields:
            getattr(message, key).name = fields[key]
    return message
