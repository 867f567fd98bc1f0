"""A broker without threads, whose messages are put at once, on a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dueline.broker import Broker, BrokerOptions
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.reading import Pull
from dueline.message import Message
from dueline.store import Files, Store, StoreOptions
from dueline.store import record as records
from dueline.store.restore import deliveries
from dueline.testing import ManualClock

START_MS = 1_000_000
SMALL = StoreOptions(
    flush="async",  # no power fails here
    commit_segment_size_bytes=1 << 18,
    delay_segment_size_bytes=1 << 18,
)
QUEUE = Pull(topic="t", queue_id=0)


class ReadingWorld:
    """One broker that is read from."""

    def __init__(self, path: Path, options: BrokerOptions | None = None) -> None:
        self.clock = ManualClock(START_MS)
        self.store = Store.open(path / "store", SMALL, clock=self.clock, files=Files())
        self.broker = Broker(
            self.store,
            ConsumerOffsets(path / "offsets.json", Files()),
            submit=lambda messages, done: done(self.store.put_all(messages)),
            options=options,
        )
        self.reading = self.broker.reading
        self.progress = self.broker.progress

    def send(self, *bodies: str, topic: str = "t", **properties: str) -> None:
        messages = [Message(topic=topic, body=b.encode(), properties=properties) for b in bodies]
        self.store.put_all(messages)

    def carry(self) -> None:
        """What the pipeline does."""
        until_ms = self.clock.now_ms() + 10_000
        corner = self.store.next_corner(until_ms=until_ms, row_count_max=100)
        self.store.deliver([deliveries(self.store.read_window(self.store.window(corner)))])

    def bodies(self, pull: Pull, offset: int = 0) -> tuple[list[str], int]:
        """What a pull finds, and where to go on."""
        result = self.reading.pull(pull, offset).result
        found = [records.decode(view).body.decode() for view in result.records]
        return found, result.next_offset


@contextmanager
def reading_world(path: Path, options: BrokerOptions | None = None) -> Iterator[ReadingWorld]:
    world = ReadingWorld(path, options)
    try:
        yield world
    finally:
        world.broker.close()
        world.store.close()
