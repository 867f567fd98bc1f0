"""The verbs that every protocol offers, over one store and one clock.

    send          accept messages; the answer comes through a callback, when they are on disk
    pull          read a queue; if there is nothing yet, be woken when there is
    cancel, reschedule, find, pending        delayed messages that were accepted
    figures       for people and monitors

The engine reacts to calls and starts no threads: writing is handed to `submit` (a broker's writer
thread, see `dueline.server.writer`). Delivering is between the pipeline and the store. Any thread
may call any verb.

Errors are `dueline.errors`; each protocol turns them into its own codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from dueline.broker.figures import Figures, Meter
from dueline.broker.watches import Wake, Watch, Watches
from dueline.errors import BrokerError, Unavailable
from dueline.message import Message
from dueline.store import Answer, PendingMessage, PutResult, ReadResult, ReadStatus, Store
from dueline.store.reading import Accept

__all__ = ["Done", "Engine", "PendingSummary", "Pulled", "Submit"]

Results = list[PutResult | BrokerError]
Done = Callable[[Results | BaseException], None]
"""Called once, from the writer's thread: an answer for each message, or why there are none."""


class Submit(Protocol):
    """Hand messages to whoever writes; never blocks."""

    def __call__(self, messages: Sequence[Message], done: Done) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """What was read. With a `watch` nothing was, and the reader will be woken."""

    result: ReadResult
    watch: Watch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSummary:
    """Delayed messages that are not delivered yet; buckets by the start of their due time."""

    count: int
    next_due_ms: int | None
    by_topic: dict[str, int]
    by_bucket_ms: dict[int, int]


class Engine:
    """One store's verbs."""

    def __init__(self, store: Store, *, submit: Submit) -> None:
        self.store: Final = store
        self.clock: Final = store.clock
        self._submit = submit
        self._watches = Watches()
        self._is_refusing = False
        store.observe(self._watches)
        self.meter: Final = Meter(store, self._watches)

    def refuse(self) -> None:
        """Accept nothing more and let waiting readers go; what was accepted is still answered."""
        self._is_refusing = True
        self._watches.wake_all()

    @property
    def is_accepting(self) -> bool:
        return not self._is_refusing

    def check_accepting(self) -> None:
        """Raises Unavailable once the broker is stopping."""
        if self._is_refusing:
            raise Unavailable("the broker is stopping; send again when it is back")

    # Sending

    def send(self, messages: Sequence[Message], done: Done) -> None:
        """Accept messages; `done` gets an answer for each when they are on disk.

        Raises:
            Unavailable: the broker is stopping; `done` is not called.
            LimitExceeded: too much waits for the disk; `done` is not called.
        """
        self.check_accepting()
        self._submit(messages, done)

    # Reading

    def pull(  # noqa: PLR0913 - a queue, a place and bounds, mostly keyword-only
        self,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        count_max: int = 32,
        size_bytes_max: int = 256 * 1024,
        accept: Accept | None = None,
        wake: Wake | None = None,
    ) -> Pulled:
        """Read from `offset` on. With `wake`, a reader at the end is called when there is more."""

        def read() -> ReadResult:
            return self.store.read(
                topic,
                queue_id,
                offset,
                count_max=count_max,
                size_bytes_max=size_bytes_max,
                accept=accept,
            )

        result = read()
        if wake is None or result.status is not ReadStatus.AT_END or self._is_refusing:
            return Pulled(result=result)
        watch = self.watch(topic, queue_id, wake)
        # What became visible between the read and the watch has woken nobody.
        result = read()
        if result.status is not ReadStatus.AT_END:
            watch.cancel()
            return Pulled(result=result)
        return Pulled(result=result, watch=watch)

    def watch(self, topic: str, queue_id: int | None, wake: Wake) -> Watch:
        """Call `wake` once when a queue (None: any of the topic) has grown; then read again."""
        watch = self._watches.add(topic, queue_id, wake)
        if self._is_refusing:  # since a moment ago, perhaps: nobody may be left waiting
            watch.cancel()
            wake()
        return watch

    # Delayed messages

    def cancel(self, keys: Sequence[str]) -> list[Answer]:
        """Cancel by key, unique id or offset id; an answer for each."""
        self.check_accepting()
        return self.store.cancel_many(keys)

    def recall(self, topic: str, unique_id: str) -> Answer:
        """Cancel the message that was sent to a topic with this unique id, and no other."""
        self.check_accepting()
        return self.store.recall(topic, unique_id)

    def reschedule(self, requests: Sequence[tuple[str, int]]) -> list[Answer]:
        """Move (key or id, due time) pairs; an answer for each."""
        self.check_accepting()
        return self.store.reschedule_many(requests)

    def find(self, key: str) -> list[PendingMessage]:
        """Delayed messages by key or id, the newest first, also those that are done."""
        return self.store.find_delayed(key)

    def pending(self, *, bucket_ms: int, topic: str | None = None) -> PendingSummary:
        """How many messages wait, by topic and by due time."""
        by_bucket_ms = self.store.pending_by_bucket(bucket_ms, topic)
        by_topic = self.store.pending_by_topic()
        return PendingSummary(
            count=self.store.pending_count() if topic is None else by_topic.get(topic, 0),
            next_due_ms=self.store.next_due_ms(),
            by_topic=by_topic,
            by_bucket_ms=by_bucket_ms,
        )

    # Figures

    def figures(self) -> Figures:
        return self.meter.figures()
