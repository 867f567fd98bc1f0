"""A broker behind the 4.x door, without sockets and threads: a call runs the loop until it rests.

Clients are channels on transports that keep what is written to them.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from tests.unit.broker.reading_world import SMALL, START_MS

from dueline.broker import Broker, BrokerOptions
from dueline.broker.access import Access, AccessOptions
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.message import Message
from dueline.server.outbox import Outbox
from dueline.server.remoting.channel import Channel
from dueline.server.remoting.context import Addresses, Context
from dueline.server.remoting.guard import Guard
from dueline.server.remoting.hub import Handler, Hub
from dueline.server.remoting.limits import Limits
from dueline.server.remoting.requirements import REQUIREMENTS
from dueline.server.runtime import Runtime
from dueline.store import Files, PutResult, Store
from dueline.store.restore import deliveries
from dueline.testing import ManualClock
from dueline.wire import Command, FrameDecoder

P = ParamSpec("P")
T = TypeVar("T")


class Inline(Executor):
    """Threads that do their work at once, in the caller's."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as a thread pool does
            future.set_exception(error)
        return future


class Transport(asyncio.Transport):
    """Keeps what is written."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__({"peername": (host, port), "sockname": ("127.0.0.1", 10911)})
        self.written = bytearray()
        self.is_gone = False
        self.unsent_bytes = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_gone

    def abort(self) -> None:
        self.is_gone = True

    def close(self) -> None:
        self.is_gone = True


class Client:
    """One connection."""

    def __init__(self, world: RemotingWorld, host: str = "127.0.0.1", port: int = 40_000) -> None:
        self._world = world
        self.channel = Channel(world.hub)
        self.transport = Transport(host, port)
        self.channel.connection_made(self.transport)
        self._decoder = FrameDecoder()
        self._opaque = 0
        self.told: deque[Command] = deque()
        """What came without being asked for."""

    def ask(
        self, code: int, ext: Mapping[str, object] | None = None, body: bytes | object = b""
    ) -> Command:
        """Send a request; its answer."""
        self._opaque += 1
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        texts = {name: _text(value) for name, value in (ext or {}).items() if value is not None}
        command = Command(code=code, opaque=self._opaque, ext=texts, body=data)
        self.channel.data_received(command.encode())
        answers = [each for each in self.read() if each.opaque == self._opaque]
        assert len(answers) == 1, f"expected one answer to {code}, found {answers}"
        return answers[0]

    def read(self) -> list[Command]:
        """Answers that have come; questions and news are put aside."""
        self._world.settle()
        data = bytes(self.transport.written)
        self.transport.written.clear()
        answers: list[Command] = []
        for command in map(Command.decode, self._decoder.feed(data)):
            (answers if command.is_response else self.told).append(command)
        return answers

    def news(self) -> list[Command]:
        """What came without being asked for, since the last look."""
        self.read()
        found = list(self.told)
        self.told.clear()
        return found

    def leave(self) -> None:
        self.channel.connection_lost(None)
        self._world.settle()


class RemotingWorld:
    """One broker and its handlers."""

    def __init__(
        self,
        folder: Path,
        options: BrokerOptions | None,
        limits: Limits | None,
        access: AccessOptions | None = None,
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(START_MS)
        self.store = Store.open(folder / "store", SMALL, clock=self.clock, files=Files())
        self.broker = Broker(
            self.store,
            ConsumerOffsets(folder / "offsets.json", Files()),
            submit=lambda messages, done: done(self.store.put_all(messages)),
            options=options,
            access=Access(folder / "access", Files(), clock=self.clock, options=access),
        )
        runtime = Runtime(loop=self.loop, outbox=Outbox(self.loop), threads=Inline())
        self.context = Context(self.broker, runtime)
        self.context.addresses = Addresses(host="10.0.0.7", port=10911)
        guard = Guard(self.broker.access, self.broker.trail)
        self.hub = Hub("broker", runtime, limits, guard=guard)

    def serve(self, table: Mapping[int, Handler]) -> None:
        """Behind the guard, but for codes that only a test has."""
        if not table.keys() <= REQUIREMENTS.keys():
            self.hub._guard = None
        self.hub.add(table)

    def client(self, host: str = "127.0.0.1", port: int = 40_000) -> Client:
        return Client(self, host, port)

    def settle(self) -> None:
        """Let the loop turn until what was handed on has come back."""
        for _ in range(10):
            self.loop.run_until_complete(asyncio.sleep(0))

    def send(self, *bodies: bytes, topic: str = "t", **properties: str) -> list[PutResult]:
        self.broker.topics.for_client(topic)
        messages = [Message(topic=topic, body=body, properties=properties) for body in bodies]
        results = self.store.put_all(messages)
        return [each for each in results if isinstance(each, PutResult)]

    def carry(self) -> None:
        """What the pipeline does."""
        until_ms = self.clock.now_ms() + 10_000
        corner = self.store.next_corner(until_ms=until_ms, row_count_max=100)
        self.store.deliver([deliveries(self.store.read_window(self.store.window(corner)))])


@contextmanager
def remoting_world(
    folder: Path,
    options: BrokerOptions | None = None,
    limits: Limits | None = None,
    access: AccessOptions | None = None,
) -> Iterator[RemotingWorld]:
    world = RemotingWorld(folder, options, limits, access)
    try:
        yield world
    finally:
        world.settle()
        world.broker.close()
        world.store.close()
        world.loop.close()


def body_of(answer: Command) -> Any:
    """A JSON body."""
    return json.loads(answer.body)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
