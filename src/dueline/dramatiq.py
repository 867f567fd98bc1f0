"""Dramatiq on Dueline: messages with a delay wait in the broker; see docs/dramatiq.md.

    import dramatiq
    from dueline.dramatiq import DuelineBroker

    dramatiq.set_broker(DuelineBroker("127.0.0.1:9876"))

Each queue is a topic. A message with a delay (`send_with_options(delay=…)`, or the backoff of a
retry) goes to it with its due time: there are no delay queues, and no worker holds a message that
is not due. Workers take messages one by one and acknowledge each (`SimpleConsumer`): what a worker
held that was killed comes to another one when its `invisible` time is over. Failed messages go to
the topic of the dead-letter queue (`default.XQ`).

A broker may be used from any thread, and in forked processes: each opens connections of its own.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import dramatiq
from dramatiq.common import current_millis, xq_name
from dramatiq.errors import ConnectionClosed, DecodeError, QueueNotFound
from dramatiq.middleware import Middleware

from dueline.client import Outgoing, Producer, SimpleConsumer, Taken
from dueline.client.queue_topic import topic_of
from dueline.errors import BrokerError, InvalidRequest, Unavailable
from dueline.times import Duration

__all__ = ["DuelineBroker"]

GROUP: Final = "dramatiq"
INVISIBLE: Final = "1m"
TAKE_COUNT_MAX: Final = 32


class DuelineBroker(dramatiq.Broker):
    """A dramatiq broker on a Dueline broker."""

    def __init__(
        self,
        name_server: str,
        *,
        group: str = GROUP,
        invisible: Duration = INVISIBLE,
        middleware: list[Middleware] | None = None,
    ) -> None:
        """Say where the broker is.

        Args:
            name_server: its address, `host:port`; several are separated by `;`.
            group: the consumer group that all workers share.
            invisible: how long the messages of a worker that was killed are kept for it.
        """
        super().__init__(middleware)
        self.queues: set[str] = set()
        self._name_server = name_server
        self._group = group
        self._invisible = invisible
        self._lock = threading.Lock()
        self._producer: tuple[int, Producer] | None = None

    # Queues

    def declare_queue(self, queue_name: str) -> None:
        """Make a queue known here; its topic is made by the first message."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues.add(queue_name)
            self.emit_after("declare_queue", queue_name)

    def get_declared_queues(self) -> set[str]:
        return self.queues.copy()

    def flush(self, queue_name: str) -> None:
        """Drop the messages of a queue that are due; those that wait stay."""
        self._check_declared(queue_name)
        with self._consumer(queue_name) as consumer:
            while found := consumer.receive_now(TAKE_COUNT_MAX):
                for taken in found:
                    consumer.ack(taken)

    def flush_all(self) -> None:
        for queue_name in self.get_declared_queues():
            self.flush(queue_name)

    # Sending

    def enqueue(
        self, message: dramatiq.Message[object], *, delay: int | None = None
    ) -> dramatiq.Message[object]:
        """Send a message, which waits in the broker if it has a delay, in milliseconds.

        Raises:
            QueueNotFound: the queue was not declared.
            ConnectionClosed: no broker could be asked.
        """
        self._check_declared(message.queue_name)
        due_ms = None if delay is None else current_millis() + delay
        self.emit_before("enqueue", message, delay)
        self.send_to(message.queue_name, message, due_ms=due_ms)
        self.emit_after("enqueue", message, delay)
        return message

    def send_to(
        self, queue_name: str, message: dramatiq.Message[object], *, due_ms: int | None = None
    ) -> None:
        """Send a message to any queue."""
        outgoing = Outgoing(
            topic=topic_of(queue_name),
            body=message.encode(),
            keys=[message.message_id],
            # Not `delay`: one that is not above 0 means now.
            properties={} if due_ms is None else {"TIMER_DELIVER_MS": str(due_ms)},
        )
        try:
            self._sender().send_one(outgoing)
        except Unavailable as error:
            raise ConnectionClosed(error) from error

    def _sender(self) -> Producer:
        """The producer of this process: one that was forked cannot use its parent's."""
        with self._lock:
            if self._producer is None or self._producer[0] != os.getpid():
                self._producer = (os.getpid(), Producer(self._name_server).__enter__())
            return self._producer[1]

    # Receiving

    def consume(
        self, queue_name: str, prefetch: int = 1, timeout: int = 30_000
    ) -> dramatiq.Consumer:
        self._check_declared(queue_name)
        return _Consumer(self, queue_name, self._consumer(queue_name), prefetch, timeout / 1_000)

    def _consumer(self, queue_name: str) -> SimpleConsumer:
        return SimpleConsumer(
            self._name_server, topic_of(queue_name), self._group, invisible=self._invisible
        )

    def _check_declared(self, queue_name: str) -> None:
        if queue_name not in self.queues:
            raise QueueNotFound(queue_name)

    def close(self) -> None:
        with self._lock:
            held, self._producer = self._producer, None
            if held is not None and held[0] == os.getpid():
                held[1].__exit__(None, None, None)


class _Taken(dramatiq.MessageProxy):
    """A message, and what acknowledges it."""

    def __init__(self, taken: Taken) -> None:
        super().__init__(dramatiq.Message.decode(taken.message.body))
        self.taken: Final = taken


class _Consumer(dramatiq.Consumer):
    """One queue's messages for one worker, at most `prefetch` at a time."""

    def __init__(
        self,
        broker: DuelineBroker,
        queue_name: str,
        consumer: SimpleConsumer,
        prefetch: int,
        timeout_s: float,
    ) -> None:
        self._broker = broker
        self._queue_name = queue_name
        self._consumer = consumer.__enter__()
        self._prefetch = prefetch
        self._timeout_s = timeout_s
        self._ready: deque[Taken] = deque()
        self._room = threading.Condition()
        self._held_count = 0

    def __next__(self) -> dramatiq.MessageProxy | None:
        with self._room:
            if self._held_count >= self._prefetch:
                self._room.wait(self._timeout_s)
            wanted_count = min(self._prefetch - self._held_count, TAKE_COUNT_MAX)
        if not self._ready:
            if wanted_count < 1:
                return None
            found = self._consumer.receive(wanted_count, timeout_s=self._timeout_s)
            self._ready.extend(found)
            with self._room:
                self._held_count += len(found)
        return self._decoded(self._ready.popleft()) if self._ready else None

    def _decoded(self, taken: Taken) -> _Taken | None:
        try:
            return _Taken(taken)
        except DecodeError as error:
            # After its last attempt it is a dead letter of the broker's.
            self._broker.logger.warning("Message %s is none: %s", taken.message.id, error)
            self._give_back(taken)
            return None

    def ack(self, message: dramatiq.MessageProxy) -> None:
        self._finish(message)

    def nack(self, message: dramatiq.MessageProxy) -> None:
        """Put a message that failed to the dead-letter queue."""
        self._broker.send_to(xq_name(self._queue_name), message._message)
        self._finish(message)

    def _finish(self, message: dramatiq.MessageProxy) -> None:
        assert isinstance(message, _Taken)
        try:
            is_done = self._consumer.ack(message.taken)
        except Unavailable as error:
            raise ConnectionClosed(error) from error  # the worker says it again until it is heard
        if not is_done:
            self._broker.logger.warning("Message %r had gone back before.", message.message_id)
        self._release_room()

    def requeue(self, messages: Iterable[dramatiq.MessageProxy]) -> None:
        for message in messages:
            assert isinstance(message, _Taken)
            self._give_back(message.taken)

    def _give_back(self, taken: Taken) -> None:
        with suppress(BrokerError):  # then it comes when its time is over
            self._consumer.release(taken)
        self._release_room()

    def _release_room(self) -> None:
        with self._room:
            self._held_count -= 1
            self._room.notify()

    def close(self) -> None:
        """Leave; what is not acknowledged comes again."""
        with suppress(InvalidRequest):  # closed before
            self._consumer.__exit__(None, None, None)
