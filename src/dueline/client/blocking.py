"""The same clients for programs without an event loop: one runs in a thread of its own.

with Producer("127.0.0.1:9876") as producer:
    producer.send("orders", b"17", delay=timedelta(minutes=30))
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar

from dueline.client.consumer import AsyncConsumer
from dueline.client.producer import AsyncProducer
from dueline.client.reader import AsyncReader
from dueline.client.values import Outgoing, Received, Sent
from dueline.errors import BrokerError

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
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Blocking:
    """What the three have in common: entered and left with the loop."""

    def __init__(self) -> None:
        self._loop: _Loop | None = None
        self._made: Any = None

    def _make(self) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._loop = _Loop()

        async def enter() -> Any:
            made = self._make()
            return await made.__aenter__()

        try:
            self._made = self._loop.run(enter())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        try:
            self._loop.run(self._made.__aexit__(None, None, None))
        finally:
            self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None, "use it in a `with` block"
        return self._loop.run(work)


class Producer(_Blocking):
    """`AsyncProducer` for programs without an event loop; any thread may call it."""

    def __init__(self, name_server: str, **options: Any) -> None:
        super().__init__()
        self._name_server = name_server
        self._options = options

    def _make(self) -> AsyncProducer:
        return AsyncProducer(self._name_server, **self._options)

    def send(  # noqa: PLR0913 - as AsyncProducer.send
        self,
        topic: str,
        body: bytes,
        *,
        delay: timedelta | None = None,
        delay_level: int | None = None,
        deliver_at: datetime | None = None,
        tag: str | None = None,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        queue_id: int | None = None,
    ) -> Sent:
        """Send one message; returns when the broker has it."""
        sent: Sent = self._run(
            self._made.send(
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
        return sent

    def send_many(self, messages: Sequence[Outgoing]) -> list[Sent]:
        """Send many; an answer for each."""
        sent: list[Sent] = self._run(self._made.send_many(messages))
        return sent

    def send_each(self, messages: Sequence[Outgoing]) -> list[Sent | BrokerError]:
        """Like `send_many`, with an answer for each: sent, or why not."""
        results: list[Sent | BrokerError] = self._run(self._made.send_each(messages))
        return results

    def cancel(self, sent: Sent) -> bool:
        """Take a delayed message back; False: it is too late."""
        is_cancelled: bool = self._run(self._made.cancel(sent))
        return is_cancelled


class Reader(_Blocking):
    """`AsyncReader` for programs without an event loop: iterate over it."""

    def __init__(self, name_server: str, topic: str, **options: Any) -> None:
        super().__init__()
        self._arguments = (name_server, topic)
        self._options = options

    def _make(self) -> AsyncReader:
        return AsyncReader(*self._arguments, **self._options)

    def __iter__(self) -> Iterator[Received]:
        while True:
            yield self.receive()

    def receive(self) -> Received:
        """The next message; waits for one."""
        message: Received = self._run(self._made.receive())
        return message

    def receive_many(self, count_max: int, *, timeout_s: float | None = None) -> list[Received]:
        """What has come; waits for one message, or until the time is up."""
        found: list[Received] = self._run(self._made.receive_many(count_max, timeout_s=timeout_s))
        return found

    def commit(self) -> None:
        """Remember for the group what was received so far."""
        self._run(self._made.commit())


class Consumer(_Blocking):
    """`AsyncConsumer` whose handler is a plain function, called in threads."""

    def __init__(
        self, name_server: str, topic: str, group: str, handler: Any, **options: Any
    ) -> None:
        super().__init__()
        self._arguments = (name_server, topic, group)
        self._handler = handler
        self._options = options
        self._threads = ThreadPoolExecutor(
            options.get("concurrency", 16), thread_name_prefix="dueline-handler"
        )

    def _make(self) -> AsyncConsumer:
        async def handler(message: Received) -> None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self._threads, self._handler, message)

        return AsyncConsumer(*self._arguments, handler, **self._options)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._threads.shutdown()
