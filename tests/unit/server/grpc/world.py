"""The parts of the 5.x port without a port: calls run on a loop that is turned by hand."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.unit.server.remoting.world import RemotingWorld, remoting_world

from dueline.broker import BrokerOptions
from dueline.server.grpc.clients import Clients
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.parts import Parts, Peer
from dueline.server.grpc.stubs import message_class
from dueline.server.shares import Shares

T = TypeVar("T")


class Call:
    """What gRPC tells of one call."""

    def __init__(self, client_id: str | None = "c", *, left_s: float | None = None) -> None:
        self._client_id = client_id
        self._left_s = left_s
        self.written: list[Any] = []

    def invocation_metadata(self) -> tuple[tuple[str, str], ...] | None:
        return None if self._client_id is None else (("x-mq-client-id", self._client_id),)

    def time_remaining(self) -> float | None:
        return self._left_s

    async def write(self, message: Any) -> None:
        self.written.append(message)


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
            peers=lambda name: Peer(host="127.0.0.1", port=1),
            calls=Shares("calls", 10),
            polls=Shares("polls", 10),
        )

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
