"""A broker without threads: its writer and its loop are turned by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from dueline.broker import Broker, BrokerOptions
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.sending import Destination, Sending
from dueline.broker.writing import Done, Results
from dueline.errors import LimitExceeded
from dueline.message import Message
from dueline.store import Files, PutResult, Record, Store, StoreOptions
from dueline.store import record as records
from dueline.store.restore import deliveries
from dueline.testing import ManualClock

START_MS = 1_000_000
SMALL = StoreOptions(
    flush="async",  # no power fails here
    commit_segment_size_bytes=1 << 18,
    delay_segment_size_bytes=1 << 18,
    body_size_max=10_000,
)


class HandLoop:
    """An event loop that makes its calls when it is told to."""

    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        self.works: deque[Callable[[], None]] = deque()

    def soon(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def post(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def run(self, work: Callable[[], object], done: Callable[[BaseException | None], None]) -> None:
        def whole() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - as a thread pool does
                failure: BaseException | None = error
            else:
                failure = None
            self.calls.append(lambda: done(failure))

        self.works.append(whole)

    def turn(self) -> None:
        """Make the calls that are there now."""
        for _ in range(len(self.calls)):
            self.calls.popleft()()

    def work(self) -> None:
        """Do what was given to other threads."""
        while self.works:
            self.works.popleft()()

    def settle(self) -> None:
        """Until nothing is left to do."""
        while self.calls or self.works:
            self.turn()
            self.work()


class World:
    """One broker; `groups` are the messages that were handed to the writer together."""

    def __init__(self, folder: Path, options: BrokerOptions | None = None) -> None:
        self.clock = ManualClock(START_MS)
        self.store = Store.open(folder / "store", SMALL, clock=self.clock)
        self.groups: list[list[Message]] = []
        self.room: int | None = None
        self.broker = Broker(
            self.store,
            ConsumerOffsets(folder / "consumerOffset.json", Files()),
            submit=self._submit,
            options=options,
        )
        self.loop = HandLoop()
        self.sending = Sending(self.broker, self.loop)

    def _submit(self, messages: Sequence[Message], done: Done) -> None:
        if self.room is not None and len(messages) > self.room:
            raise LimitExceeded("the broker is busy", limit=self.room, found=len(messages))
        self.groups.append(list(messages))
        done(self.store.put_all(messages))

    def send(self, to: str | Destination, *bodies: bytes, **properties: str) -> Results:
        """Send messages to a topic and wait for the answers."""
        to = self.sending.destination(to) if isinstance(to, str) else to
        messages = [
            Message(
                topic=to.topic,
                body=body,
                queue_id=self.sending.queue_id(to, properties),
                properties=properties,
                sys_flag=4 if "TRAN_MSG" in properties else 0,
            )
            for body in bodies
        ]
        answers: list[Results | BaseException] = []
        self.sending.send(to, messages, answers.append, size_bytes=sum(map(len, bodies)))
        self.loop.settle()
        (results,) = answers
        assert isinstance(results, list)
        return results

    def accepted(self, topic: str, body: bytes = b"x", **properties: str) -> PutResult:
        """Send one message that is accepted."""
        (result,) = self.send(topic, body, **properties)
        assert isinstance(result, PutResult)
        return result

    def carry(self) -> None:
        """Deliver what waits, as the pipeline would."""
        corner = self.store.next_corner(until_ms=1 << 60, row_count_max=100)
        self.store.deliver([deliveries(self.store.read_window(self.store.window(corner)))])

    def read(self, topic: str, queue_id: int = 0) -> list[Record]:
        result = self.store.read(topic, queue_id, 0, count_max=1_000)
        return [records.decode(view) for view in result.records]

    def topics(self) -> set[str]:
        return set(self.broker.topics.all().entries)
