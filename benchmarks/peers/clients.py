"""One way to send and to receive, for each peer as its users would do it.

    dueline     `dueline.client`; the same for RocketMQ, whose protocol it speaks
    redis       a sorted set by due time; a mover carries what is due to a list, where
                consumers wait
    beanstalkd  put with a delay, which is in whole seconds; reserve

A body begins with the due time and the number of the message, so that how late it is does not
depend on what a peer says of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Final, Protocol, Self

from dueline.client import Outgoing, Producer, Reader
from dueline.clock import system_time_ms
from dueline.errors import BrokerError

__all__ = ["FIRST", "Client", "body", "connect", "due_ms_of", "move", "number_of"]

BODY_SIZE: Final = 200
BATCH_COUNT: Final = 500
FIRST: Final = 999_999_999_999
"""The number of a message that makes its topic and is not counted."""
_MOVE_COUNT: Final = 1_000
_MOVE_PAUSE_S: Final = 0.001
_MOVE: Final = """
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
if #due > 0 then
  redis.call('RPUSH', KEYS[2], unpack(due))
  redis.call('ZREM', KEYS[1], unpack(due))
end
return #due
"""


def body(due_ms: int, number: int) -> bytes:
    return f"{due_ms:013d} {number:012d} ".encode().ljust(BODY_SIZE, b"x")


def number_of(received: bytes) -> int:
    return int(received[14:26])


def due_ms_of(received: bytes) -> int:
    return int(received[:13])


class Client(Protocol):
    """A connection of one process."""

    batch_count: int
    """How many it sends in one round trip at most."""
    errors: tuple[type[Exception], ...]
    """What it raises while the peer is away."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def send(self, due_ms: Sequence[int], bodies: Sequence[bytes]) -> None:
        """Send messages together; returns when all are acknowledged."""

    def receive(self, timeout_s: float) -> list[bytes]:
        """What is there, waiting for it."""


class RocketMQ:
    """Dueline or Apache RocketMQ, by Dueline's client."""

    batch_count = BATCH_COUNT
    errors: tuple[type[Exception], ...] = (BrokerError, OSError)

    def __init__(self, address: str, topic: str) -> None:
        self._address = address
        self._topic = topic
        self._stack = ExitStack()
        self._producer: Producer | None = None
        self._reader: Reader | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def send(self, due_ms: Sequence[int], bodies: Sequence[bytes]) -> None:
        if self._producer is None:
            self._producer = self._stack.enter_context(Producer(self._address))
        messages = [
            Outgoing(
                topic=self._topic,
                body=each,
                deliver_at=datetime.fromtimestamp(at_ms / 1_000, UTC),
            )
            for at_ms, each in zip(due_ms, bodies, strict=True)
        ]
        if len(messages) == 1:
            self._producer.send_one(messages[0])
        else:
            self._producer.send_many(messages)

    def receive(self, timeout_s: float) -> list[bytes]:
        while self._reader is None:  # a topic is there when its first message is
            try:
                self._reader = self._stack.enter_context(
                    Reader(self._address, self._topic, start="start")
                )
            except BrokerError:
                time.sleep(0.2)
        return [each.body for each in self._reader.receive_many(1_000, timeout_s=timeout_s)]


class Redis:
    """A sorted set and a list."""

    batch_count = BATCH_COUNT

    def __init__(self, address: str, topic: str) -> None:
        import redis

        host, _, port = address.rpartition(":")
        self._redis: Any = redis.Redis(host, int(port))
        self.errors: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        self._later = f"{topic}:later"
        self._now = topic

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._redis.close()

    def send(self, due_ms: Sequence[int], bodies: Sequence[bytes]) -> None:
        if len(bodies) == 1:
            self._redis.zadd(self._later, {bodies[0]: due_ms[0]})
            return
        with self._redis.pipeline(transaction=True) as batch:
            for at_ms, each in zip(due_ms, bodies, strict=True):
                batch.zadd(self._later, {each: at_ms})
            batch.execute()

    def receive(self, timeout_s: float) -> list[bytes]:
        first = self._redis.blpop([self._now], timeout=timeout_s)
        if first is None:
            return []
        return [first[1], *(self._redis.lpop(self._now, _MOVE_COUNT) or ())]

    def move(self) -> None:
        """Carry what is due from the set to the list, for ever."""
        script = self._redis.register_script(_MOVE)
        keys = [self._later, self._now]
        while True:
            try:
                moved = script(keys=keys, args=[system_time_ms(), _MOVE_COUNT])
            except self.errors:  # it is restarted
                moved = 0
            if not moved:
                time.sleep(_MOVE_PAUSE_S)


class Beanstalkd:
    """A tube; delays are in whole seconds, rounded up."""

    batch_count = 1

    def __init__(self, address: str, topic: str) -> None:
        import greenstalk

        self.errors: tuple[type[Exception], ...] = (greenstalk.Error, OSError)
        host, _, port = address.rpartition(":")
        self._client: Any = greenstalk.Client(
            (host, int(port)), encoding=None, use=topic, watch=topic
        )
        self._timed_out: Any = greenstalk.TimedOutError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def send(self, due_ms: Sequence[int], bodies: Sequence[bytes]) -> None:
        now_ms = system_time_ms()
        for at_ms, each in zip(due_ms, bodies, strict=True):
            self._client.put(each, delay=max(-(-(at_ms - now_ms) // 1_000), 0))

    def receive(self, timeout_s: float) -> list[bytes]:
        try:
            job = self._client.reserve(timeout=int(timeout_s))
        except self._timed_out:
            return []
        self._client.delete(job)
        return [job.body]


_CLIENTS: Final[dict[str, Callable[[str, str], Client]]] = {
    "dueline": RocketMQ,
    "rocketmq": RocketMQ,
    "redis": Redis,
    "beanstalkd": Beanstalkd,
}


def connect(peer: str, address: str, topic: str) -> Client:
    return _CLIENTS[peer](address, topic)


def move(address: str, topic: str) -> None:
    with Redis(address, topic) as client:
        client.move()
