"""Celery on Dueline: tasks with a countdown or an eta wait in the broker; see docs/celery.md.

    import dueline.celery
    app = Celery("shop", broker="dueline://127.0.0.1:9876")

Importing this module makes the scheme `dueline://` known to kombu, Celery's messaging library. The
address is that of a name server; several are separated by `;`.

Each queue of Celery is a topic. A task goes to it with the due time that its eta says, and with the
task's id as its key. Workers take tasks one by one and acknowledge each (`AsyncSimpleConsumer`):
the tasks of a worker that was killed come to another one when their `invisible` time is over.

    Transport     one connection: a session, and the channels that kombu opens on it
    Session       the clients, and an event loop in a thread; what was taken waits here
    Channel, QoS  kombu's verbs, turned into those of the session

Everything of kombu's runs in the thread that calls it. The session's thread hands messages over in
`Feed`s and wakes the caller, by a condition or, in Celery's own event loop, by a pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from datetime import datetime
from time import monotonic
from typing import Any, Final, TypeVar

from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.utils.json import dumps, loads

from dueline import __version__
from dueline.client import AsyncSimpleConsumer, Outgoing, Producer, Taken
from dueline.client.loop import Loop
from dueline.client.queue_topic import topic_of
from dueline.errors import BrokerError, NotFound, Unavailable
from dueline.times import Duration

__all__ = ["Channel", "QoS", "Session", "Transport"]

GROUP: Final = "celery"
INVISIBLE: Final = "1m"
TAKE_COUNT_MAX: Final = 32
RECEIVE_S: Final = 5.0
ROOM_S: Final = 0.5
SETTLE_S_MAX: Final = 10.0
"""How long acknowledgements may take when a connection is closed; what is lost comes again."""

T = TypeVar("T")
Payload = dict[str, Any]

log = logging.getLogger(__name__)


class Feed:
    """The messages of one queue for one channel: taken from the broker, not yet given to Celery."""

    def __init__(self, consumer: AsyncSimpleConsumer, room: Callable[[], int]) -> None:
        self.consumer: Final = consumer
        self.ready: Final[deque[Taken]] = deque()
        self.room: Final = room
        self.has_room: Final = asyncio.Event()


class Session:
    """The clients of one connection; those that take have an event loop of their own."""

    def __init__(self, name_server: str, *, group: str, invisible: Duration) -> None:
        self._name_server = name_server
        self._group = group
        self._invisible = invisible
        self._pid = os.getpid()
        self._loop = Loop()
        self._settling: set[Future[Any]] = set()
        self._tasks: dict[Feed, asyncio.Task[None]] = {}
        self.news: Final = threading.Condition()
        self._pipe = os.pipe()
        for each in self._pipe:
            os.set_blocking(each, False)
        self._producer = Producer(name_server).__enter__()

    @property
    def fileno(self) -> int:
        """Readable when something has been taken."""
        return self._pipe[0]

    def check(self) -> None:
        """Raises Unavailable if there is no broker."""
        with contextlib.suppress(NotFound):
            self._producer.levels(GROUP)

    def send(self, message: Outgoing) -> None:
        self._producer.send_one(message)

    # Taking

    def feed(self, topic: str, room: Callable[[], int]) -> Feed:
        """Begin to take messages of a topic, as many as there is room for."""
        return self._loop.run(self._feed(topic, room))

    async def _feed(self, topic: str, room: Callable[[], int]) -> Feed:
        feed = Feed(await self._consumer(topic).__aenter__(), room)
        self._tasks[feed] = asyncio.create_task(self._fill(feed))
        return feed

    def _consumer(self, topic: str) -> AsyncSimpleConsumer:
        return AsyncSimpleConsumer(self._name_server, topic, self._group, invisible=self._invisible)

    async def _fill(self, feed: Feed) -> None:
        while True:
            count = min(feed.room() - len(feed.ready), TAKE_COUNT_MAX)
            if count < 1:
                feed.has_room.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(ROOM_S):
                        await feed.has_room.wait()
                continue
            found = await feed.consumer.receive(count, timeout_s=RECEIVE_S)
            if found:
                feed.ready.extend(found)
                self._tell()

    def _tell(self) -> None:
        with self.news:
            self.news.notify_all()
        with contextlib.suppress(BlockingIOError):  # full: it is readable anyway
            os.write(self._pipe[1], b"\0")

    def clear_news(self) -> None:
        """What was told is being looked at."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._pipe[0], 4_096):
                pass

    def end_feed(self, feed: Feed) -> None:
        """Take no more; what is here and not acknowledged comes again."""
        if self._is_ours:
            self._settle()
            self._loop.run(self._end_feed(feed))

    async def _end_feed(self, feed: Feed) -> None:
        task = self._tasks.pop(feed, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await feed.consumer.__aexit__(None, None, None)

    def take_all(self, topic: str, use: Callable[[Taken], None], count_max: int) -> int:
        """Take what is visible now and acknowledge it; how many there were."""

        async def work() -> int:
            count = 0
            async with self._consumer(topic) as consumer:
                while count < count_max:
                    wanted = min(count_max - count, TAKE_COUNT_MAX)
                    found = await consumer.receive_now(wanted)
                    if not found:
                        break
                    for taken in found:
                        await consumer.ack(taken)
                        use(taken)
                    count += len(found)
            return count

        return self._loop.run(work())

    # Having done with it

    def ack(self, feed: Feed, taken: Taken) -> None:
        """Acknowledge, without waiting for the answer."""
        self._start(feed, _acknowledged(feed.consumer, taken))

    def release(self, feed: Feed, taken: Taken) -> None:
        """Let it come again at once, without waiting for the answer."""
        self._start(feed, feed.consumer.release(taken))

    def _start(self, feed: Feed, work: Coroutine[Any, Any, object]) -> None:
        if not self._is_ours:
            work.close()
            return

        async def settle() -> None:
            feed.has_room.set()
            try:
                await work
            except BrokerError as error:
                log.warning("a task comes again: %s", error)

        future = self._loop.start(settle())
        self._settling.add(future)
        future.add_done_callback(self._settling.discard)

    def _settle(self) -> None:
        wait(set(self._settling), timeout=SETTLE_S_MAX)

    @property
    def _is_ours(self) -> bool:
        """A forked process has the object, and not the thread."""
        return os.getpid() == self._pid

    def close(self) -> None:
        if not self._is_ours:
            return
        self._settle()
        for feed in list(self._tasks):
            self.end_feed(feed)
        self._producer.__exit__(None, None, None)
        self._loop.close()
        for each in self._pipe:
            os.close(each)


async def _acknowledged(consumer: AsyncSimpleConsumer, taken: Taken) -> None:
    if not await consumer.ack(taken):
        log.warning("task %s had gone back before it was acknowledged", taken.message.keys)


class QoS(virtual.QoS):
    """What Celery has and has not acknowledged."""

    def ack(self, delivery_tag: str) -> None:
        super().ack(delivery_tag)  # first: it makes room, and `settle` tells the feed
        self.channel.settle(delivery_tag, is_done=True)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Without `requeue` a task is dropped, as other transports without dead letters do it."""
        super().ack(delivery_tag)
        self.channel.settle(delivery_tag, is_done=not requeue)


class Channel(virtual.Channel):
    """Queues as topics."""

    QoS = QoS
    do_restore = False
    """What is not acknowledged is given back when its feed ends, and not before: the request that
    waits for more would be given it."""

    def __init__(self, connection: Transport, **kwargs: Any) -> None:
        self._feeds: dict[str, Feed] = {}
        self._taken: dict[str, tuple[Feed, Taken]] = {}
        super().__init__(connection, **kwargs)

    @property
    def _session(self) -> Session:
        session: Session = self.connection.session
        return session

    # Sending

    def _put(self, queue: str, message: Payload, **kwargs: Any) -> None:
        headers = message.get("headers") or {}
        due_ms = due_ms_of(headers.get("eta"))
        self._session.send(
            Outgoing(
                topic=topic_of(queue),
                body=dumps(message).encode(),
                keys=keys_of(headers.get("id")),
                # Not `deliver_at`: an eta that has passed means now.
                properties={} if due_ms is None else {"TIMER_DELIVER_MS": str(due_ms)},
            )
        )

    # Receiving

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **kwargs: Any
    ) -> None:
        super().basic_consume(queue, no_ack, callback, consumer_tag, **kwargs)
        if queue not in self._feeds:
            self._feeds[queue] = self._session.feed(topic_of(queue), self._room)

    def _room(self) -> int:
        if not self._consumers:
            return 0
        room = self.qos.can_consume_max_estimate()
        return TAKE_COUNT_MAX if room is None else int(room)

    def deliver_ready(self) -> bool:
        """Give Celery what has been taken, as far as it wants it; whether there was anything."""
        is_delivered = False
        for queue, feed in list(self._feeds.items()):
            while queue in self._active_queues and feed.ready and self.qos.can_consume():
                self._deliver(queue, feed, feed.ready.popleft())
                is_delivered = True
        return is_delivered

    def _deliver(self, queue: str, feed: Feed, taken: Taken) -> None:
        try:
            payload = payload_of(taken)
        except (ValueError, KeyError, TypeError) as error:
            log.warning("topic %s, message %s: no task: %s", queue, taken.message.id, error)
            self._session.release(feed, taken)  # after its last attempt it is a dead letter
            return
        self._taken[payload["properties"]["delivery_tag"]] = (feed, taken)
        self.connection._deliver(payload, queue)

    def _get(self, queue: str) -> Payload:
        """One message at once, acknowledged: for `basic_get`, which workers do not use."""
        found: list[Taken] = []
        if not self._session.take_all(topic_of(queue), found.append, 1):
            raise virtual.Empty
        return payload_of(found[0])

    def settle(self, delivery_tag: str, *, is_done: bool) -> None:
        """Acknowledge a task, or let it come again."""
        found = self._taken.pop(delivery_tag, None)
        if found is not None:
            (self._session.ack if is_done else self._session.release)(*found)

    def _restore(self, message: Any) -> None:
        self.settle(message.delivery_tag, is_done=False)

    # Queues

    def _purge(self, queue: str) -> int:
        return self._session.take_all(topic_of(queue), lambda taken: None, 1 << 62)

    def _delete(self, queue: str, *args: Any, **kwargs: Any) -> None:
        """Topics stay."""

    def close(self) -> None:
        transport = self.connection
        super().close()
        if transport is not None:
            for feed in self._feeds.values():
                transport.session.end_feed(feed)
        self._feeds.clear()


class Transport(virtual.Transport):
    """`dueline://` for kombu."""

    Channel = Channel
    default_port = 9876
    driver_type = "dueline"
    driver_name = "dueline"
    connection_errors = (*virtual.Transport.connection_errors, Unavailable)
    channel_errors = (*virtual.Transport.channel_errors, BrokerError)
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic"]), heartbeats=False
    )

    def __init__(self, client: Any, **kwargs: Any) -> None:
        super().__init__(client, **kwargs)
        self._session: Session | None = None

    @property
    def session(self) -> Session:
        """The clients of this connection; made when they are first needed."""
        if self._session is None:
            options = self.client.transport_options
            host = self.client.hostname or "127.0.0.1"
            self._session = Session(
                host if ":" in host else f"{host}:{self.client.port or self.default_port}",
                group=options.get("group", GROUP),
                invisible=options.get("invisible", INVISIBLE),
            )
        return self._session

    def establish_connection(self) -> Any:
        self.session.check()
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        super().close_connection(connection)
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def driver_version(self) -> str:
        return __version__

    # Without an event loop

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Wait until something was delivered."""
        end_s = None if timeout is None else monotonic() + timeout
        while not self._deliver_ready():
            left_s = None if end_s is None else end_s - monotonic()
            if left_s is not None and left_s <= 0:
                raise TimeoutError
            with self.session.news:
                # Acknowledgements make room without any news: look again now and then.
                self.session.news.wait(ROOM_S if left_s is None else min(left_s, ROOM_S))

    def _deliver_ready(self) -> bool:
        # All of them: a list, where a generator would stop at the first.
        return True in [channel.deliver_ready() for channel in list(self.channels)]

    # In Celery's event loop

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        loop.add_reader(self.session.fileno, self.session.clear_news)
        # At each turn: what was acknowledged since the last one has made room.
        loop.on_tick.add(self._deliver_ready)


def due_ms_of(eta: object) -> int | None:
    """The first millisecond that is not before an eta; None: deliver now.

    Celery writes a zone; an eta without one is left to the worker, which knows its own.

    >>> due_ms_of("2027-01-01T00:00:00.000001+00:00")
    1798761600001
    """
    if not isinstance(eta, str):
        return None
    try:
        moment = datetime.fromisoformat(eta)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    since = moment - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    due_us = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return max(-(-due_us // 1_000), 0)


def keys_of(task_id: object) -> list[str]:
    """A task can be found by its id, unless somebody has chosen one with spaces."""
    return [task_id] if isinstance(task_id, str) and task_id.split() == [task_id] else []


def payload_of(taken: Taken) -> Payload:
    """Kombu's message, marked as delivered before if it was.

    A task that was moved while it waited is due now, whatever its eta says: a worker that saw that
    would keep it.
    """
    payload: Payload = loads(taken.message.body)
    properties, headers = payload["properties"], payload.get("headers") or {}
    due_ms = taken.message.due_ms
    if due_ms is not None and due_ms != due_ms_of(headers.get("eta")):
        headers["eta"] = None
    properties["delivery_tag"] = f"{taken.message.id}/{taken.receipt}"
    if taken.message.attempt:
        properties["delivery_info"]["redelivered"] = True
    return payload


TRANSPORT_ALIASES["dueline"] = f"{__name__}:Transport"
