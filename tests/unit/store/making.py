"""What the store's tests share: small stores, a wall clock to move by hand, messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dueline.clock import Clock
from dueline.message import Message
from dueline.store import DeliverResult, Record, Store, StoreOptions, restore
from dueline.store import record as records
from dueline.store.files import File, Files
from dueline.store.schema import routed_schema

START_MS = 1_700_000_000_000

SMALL = StoreOptions(
    commit_segment_size_bytes=16_384,
    delay_segment_size_bytes=16_384,
    queue_file_units=7,
    levels="1s 5s 10s",
)


class Wall:
    """A wall clock that stands still until a test moves it."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def clock(self) -> Clock:
        return Clock(lambda: self.now_ms)

    def advance(self, step_ms: int) -> None:
        self.now_ms += step_ms


class QuickFile(File):
    """A file that is not synced: what a process wrote survives it all the same."""

    def sync(self) -> None:
        pass


class QuickFiles(Files):
    """No waiting for the disk, in tests that lose a process but not its machine."""

    def open(self, path: Path, *, writable: bool = False) -> File:
        return QuickFile(path, writable=writable)

    def sync_folder(self, path: Path) -> None:
        pass


def open_store(path: Path, wall: Wall, options: StoreOptions = SMALL) -> Store:
    return Store.open(path, options, clock=wall.clock(), files=QuickFiles())


def ordinary(body: bytes = b"body", topic: str = "orders", **properties: str) -> Message:
    return Message(topic=topic, body=body, properties=properties)


def delayed(
    delay_ms: int, body: bytes = b"body", topic: str = "orders", **properties: str
) -> Message:
    return Message(
        topic=topic, body=body, properties={**properties, "TIMER_DELAY_MS": str(delay_ms)}
    )


def take_window(
    store: Store, *, ahead_ms: int = 1 << 40, row_count_max: int = 1000
) -> pa.RecordBatch:
    """The raw rows of the next window."""
    until_ms = store.clock.now_ms() + ahead_ms
    corner = store.next_corner(until_ms=until_ms, row_count_max=row_count_max)
    return store.read_window(store.window(corner))


def routed(window: pa.RecordBatch, **changed: Any) -> pa.RecordBatch:
    """The rows that a pipeline sends for a window's rows, with these columns changed."""
    schema = routed_schema(changed)
    columns = [
        pa.array(changed[field.name], field.type)
        if field.name in changed
        else window.column(field.name)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def taken_aside(store: Store) -> pa.RecordBatch | None:
    """The rows that are due too soon for a window, once; None if there are none."""
    window = store.aside.take()
    return None if window is None else store.read_window(window)


def carry_over(
    store: Store, *, ahead_ms: int = 1 << 40, row_count_max: int = 1000
) -> DeliverResult:
    """Deliver the next window the short way."""
    window = take_window(store, ahead_ms=ahead_ms, row_count_max=row_count_max)
    return store.deliver([restore.deliveries(window)])


def read_all(store: Store, topic: str = "orders", queue_id: int = 0) -> list[Record]:
    """Every visible record of a queue, decoded and checked."""
    start, end = store.offset_range(topic, queue_id)
    found: list[Record] = []
    offset = start
    while offset < end:
        result = store.read(topic, queue_id, offset, count_max=1000, size_bytes_max=1 << 30)
        assert result.next_offset > offset, "a read that does not move would loop forever"
        assert not result.damaged
        found += [records.decode(bytes(view)) for view in result.records]
        offset = result.next_offset
    return found


def bodies(store: Store, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
    return [record.body for record in read_all(store, topic, queue_id)]


def int64s(*values: int) -> Any:
    return np.array(values, dtype=np.int64)
