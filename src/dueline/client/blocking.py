"""The same clients for programs without an event loop: one runs in a thread of its own.

with Producer("127.0.0.1:9876") as producer:
    producer.send("orders", b"17", delay=timedelta(minutes=30))
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from dueline.client.consumer import AsyncConsumer
from dueline.client.producer import ATTEMPT_COUNT, GROUP, AsyncProducer, OnResult
from dueline.client.reader import AsyncReader, OnConnection
from dueline.client.values import Outgoing, Received, Sent
from dueline.clock import Clock
from dueline.errors import BrokerError, InvalidRequest
from dueline.schedule import DelayLevels
from dueline.times import Duration

__all__ = ["Consumer", "Producer", "Reader"]

T = TypeVar("T")


class _Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="dueline-client", daemon=True
        )
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: nobody waits for it any more
            raise

    def close(self) -> None:
        self.run(_end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _end_tasks() -> None:
    """Cancel what was left under way, so that it ends in order."""
    tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class _Client(Protocol):
    """What the asyncio clients have in common."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


C = TypeVar("C", bound=_Client)


class _Blocking(Generic[C]):
    """What the three have in common: entered and left with the loop."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make_client = make
        self._entered: tuple[_Loop, C] | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        if self._entered is not None:
            raise InvalidRequest(f"{type(self).__name__}: expected one `with` at a time, found two")
        loop = _Loop()

        async def enter() -> C:
            return await self._make_client().__aenter__()

        try:
            self._entered = (loop, loop.run(enter()))
        except BaseException:
            loop.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        loop, client = self._open()
        self._entered = None
        self._is_closed = True
        try:
            loop.run(client.__aexit__(None, None, None))
        finally:
            loop.close()

    def _open(self) -> tuple[_Loop, C]:
        if self._entered is None:
            name, found = type(self).__name__, "closed" if self._is_closed else "not entered"
            raise InvalidRequest(
                f"{name}: expected to be used inside `with {name}(…) as …:`, found it {found}"
            )
        return self._entered

    def _run(self, work: Callable[[C], Coroutine[Any, Any, T]]) -> T:
        loop, client = self._open()
        return loop.run(work(client))


class Producer(_Blocking[AsyncProducer]):
    """`AsyncProducer` for programs without an event loop; any thread may call it."""

    def __init__(
        self,
        name_server: str,
        *,
        group: str = GROUP,
        timeout_s: float = 5.0,
        attempts_max: int = ATTEMPT_COUNT,
        clock: Clock | None = None,
    ) -> None:
        """The arguments of `AsyncProducer`."""
        super().__init__(
            lambda: AsyncProducer(
                name_server,
                group=group,
                timeout_s=timeout_s,
                attempts_max=attempts_max,
                clock=clock,
            )
        )

    def send(  # noqa: PLR0913 - as AsyncProducer.send
        self,
        topic: str,
        body: bytes,
        *,
        delay: Duration | None = None,
        delay_level: int | None = None,
        deliver_at: datetime | str | None = None,
        tag: str | None = None,
        keys: str | Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> Sent:
        """Send one message; returns when the broker has it. See `AsyncProducer.send`."""
        return self._run(
            lambda client: client.send(
                topic,
                body,
                delay=delay,
                delay_level=delay_level,
                deliver_at=deliver_at,
                tag=tag,
                keys=keys,
                properties=properties,
                queue_id=queue_id,
            )
        )

    def send_many(self, messages: Sequence[Outgoing]) -> list[Sent]:
        """Send many; an answer for each."""
        return self._run(lambda client: client.send_many(messages))

    def send_each(
        self, messages: Sequence[Outgoing], *, on_result: OnResult | None = None
    ) -> list[Sent | BrokerError]:
        """Like `send_many`, with an answer for each: sent, or why not."""
        return self._run(lambda client: client.send_each(messages, on_result=on_result))

    def levels(self, topic: str) -> DelayLevels:
        """The delay levels of the topic's broker."""
        return self._run(lambda client: client.levels(topic))

    def cancel(self, sent: Sent) -> bool:
        """Take a delayed message back; False: it is too late."""
        return self._run(lambda client: client.cancel(sent))


class Reader(_Blocking[AsyncReader]):
    """`AsyncReader` for programs without an event loop: iterate over it."""

    def __init__(  # noqa: PLR0913 - as AsyncReader
        self,
        name_server: str,
        topic: str,
        *,
        start: str = "start",
        tags: str = "*",
        group: str | None = None,
        timeout_s: float = 5.0,
        on_connection: OnConnection = lambda error: None,
    ) -> None:
        """The arguments of `AsyncReader`."""
        super().__init__(
            lambda: AsyncReader(
                name_server,
                topic,
                start=start,
                tags=tags,
                group=group,
                timeout_s=timeout_s,
                on_connection=on_connection,
            )
        )

    def __iter__(self) -> Iterator[Received]:
        while True:
            yield self.receive()

    def receive(self) -> Received:
        """The next message; waits for one."""
        return self._run(lambda client: client.receive())

    def receive_many(self, count_max: int, *, timeout_s: float | None = None) -> list[Received]:
        """What has come; waits for one message, or until the time is up."""
        return self._run(lambda client: client.receive_many(count_max, timeout_s=timeout_s))

    def commit(self) -> None:
        """Remember for the group what was received so far."""
        self._run(lambda client: client.commit())


class Consumer(_Blocking[AsyncConsumer]):
    """`AsyncConsumer` whose handler is a plain function, called in threads."""

    def __init__(  # noqa: PLR0913 - as AsyncConsumer
        self,
        name_server: str,
        topic: str,
        group: str,
        handler: Callable[[Received], object],
        *,
        tags: str = "*",
        concurrency: int = 16,
        attempts_max: int = 16,
        timeout_s: float = 5.0,
    ) -> None:
        """The arguments of `AsyncConsumer`."""
        self._concurrency = concurrency
        self._threads: ThreadPoolExecutor | None = None

        async def handle(message: Received) -> None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, handler, message)

        super().__init__(
            lambda: AsyncConsumer(
                name_server,
                topic,
                group,
                handle,
                tags=tags,
                concurrency=concurrency,
                attempts_max=attempts_max,
                timeout_s=timeout_s,
            )
        )

    def __enter__(self) -> Self:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                self._concurrency, thread_name_prefix="dueline-handler"
            )
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown()
