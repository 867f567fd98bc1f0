"""A store with one topic of two queues, and the receipts of whoever receives from it."""

from __future__ import annotations

from pathlib import Path

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.filters import filter_of
from dueline.broker.inflight import Holding, InFlight, Taken
from dueline.message import Message
from dueline.store import Files, Store, StoreOptions
from dueline.testing import ManualClock

START_MS = 1_800_000_000_000
SMALL = StoreOptions(
    commit_segment_size_bytes=1 << 20, delay_segment_size_bytes=1 << 20, queue_file_units=100
)
TEN_SECONDS = Holding(invisible_ms=10_000, attempt_max=3)


class World:
    """A store with one topic of two queues, and the receipts of whoever receives from it."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        self.clock = ManualClock(START_MS)
        self.store = Store.open(folder / "store", SMALL, clock=self.clock)
        self.folder = folder
        self.offsets = self.saved_offsets()
        self.path = folder / "pop" / "receipts.log"
        self.files = files or Files()
        self.answers: list[BaseException | None] = []
        self.inflight = self.open()

    def saved_offsets(self) -> ConsumerOffsets:
        return ConsumerOffsets(self.folder / "offsets.json", Files())

    def open(self) -> InFlight:
        return InFlight(
            self.path,
            files=self.files,
            store=self.store,
            clock=self.clock,
            offsets=self.offsets,
        )

    def restart(self, *, is_flushed: bool = True) -> None:
        """As after a kill: nothing is closed, what was written is there."""
        if is_flushed:
            self.inflight.flush()
        self.offsets = self.saved_offsets()
        self.inflight = self.open()

    def send(self, *bodies: str, queue_id: int = 0, **properties: str) -> None:
        for body in bodies:
            self.store.put(
                Message(topic="t", body=body.encode(), queue_id=queue_id, properties=properties)
            )

    def take(self, count: int = 8, *, holding: Holding = TEN_SECONDS, tags: str = "*") -> Taken:
        return self.inflight.take(
            "g", "t", [0, 1], count_max=count, holding=holding, wanted=filter_of(tags)
        )

    def bodies(self, count: int = 8, *, holding: Holding = TEN_SECONDS) -> list[str]:
        return [held.record.body.decode() for held in self.take(count, holding=holding).messages]

    def finish(self, receipt: str) -> None:
        self.inflight.acknowledge("g", "t", receipt, self.answers.append)
        self.inflight.flush()
