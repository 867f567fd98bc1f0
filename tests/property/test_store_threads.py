"""Everybody at once: putting, delivering, cancelling, reading, housekeeping, from many threads.

No order of calls is fixed, so the test only holds what must be true in every one: an acknowledged
message is seen once, or was cancelled by an answer that said so; nothing is seen before it is due;
queues only grow, and by time.
"""

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.store.making import SMALL, Wall, carry_over, open_store, read_all

from dueline.message import Message
from dueline.store import Answer, Store
from dueline.store import record as records

IS_SOAK = os.environ.get("DUELINE_SOAK") == "1"
PUT_COUNT = 200 if IS_SOAK else 60
QUEUES = [("a", 0), ("a", 1), ("b", 0)]
OPTIONS = replace(SMALL, open_units_max=20, queue_file_units=50)


class Crowd:
    """Threads on one store, and what they were told."""

    def __init__(self, store: Store, wall: Wall, seed: int) -> None:
        self.store = store
        self.wall = wall
        self.seed = seed
        self.promised: dict[str, int | None] = {}
        self.cancelled: set[str] = set()
        self.failures: list[BaseException] = []
        self.lock = threading.Lock()
        self.is_over = threading.Event()

    def run(self) -> None:
        putters = [self._thread(self._put, number) for number in range(3)]
        others = [
            self._thread(self._until_over(step), number)
            for number, step in enumerate(
                (self._deliver, self._deliver, self._cancel, self._tick, self._keep_house,
                 self._read, self._count),
                start=10,
            )
        ]  # fmt: skip
        for thread in [*putters, *others]:
            thread.start()
        for thread in putters:
            thread.join()
        self.is_over.set()
        for thread in others:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _thread(self, work: Callable[[random.Random], None], number: int) -> threading.Thread:
        def guarded() -> None:
            try:
                work(random.Random(self.seed * 100 + number))
            except BaseException as error:  # noqa: BLE001 - told to the test
                self.failures.append(error)
                self.is_over.set()

        return threading.Thread(target=guarded)

    def _until_over(self, step: Callable[[random.Random], None]) -> Callable[[random.Random], None]:
        def loop(random: random.Random) -> None:
            # A breath between steps: locks are not fair, and whoever spins keeps the others out.
            while not self.is_over.wait(0.002):
                step(random)

        return loop

    def _put(self, random: random.Random) -> None:
        for _ in range(PUT_COUNT):
            topic, queue_id = random.choice(QUEUES)
            delay_ms = random.choice([0, 1, 5, 20, 60])
            if random.random() < 0.1:
                self._put_table(topic, queue_id, delay_ms)
                continue
            properties = {"TIMER_DELAY_MS": str(delay_ms)} if delay_ms else {}
            message = Message(topic=topic, queue_id=queue_id, body=b"x", properties=properties)
            result = self.store.put(message)
            with self.lock:
                self.promised[result.unique_id] = result.due_ms

    def _put_table(self, topic: str, queue_id: int, delay_ms: int) -> None:
        table = pa.table(
            {
                "topic": [topic] * 5,
                "queue_id": [queue_id] * 5,
                "body": [b"x"] * 5,
                "delay_ms": [delay_ms + number for number in range(5)],
            }
        )
        result = self.store.put_many(table)
        ids = [value.decode() for value in result.unique_ids.to_pylist()]
        with self.lock:
            self.promised.update(zip(ids, result.due_ms.tolist(), strict=True))

    def _deliver(self, random: random.Random) -> None:
        carry_over(self.store, ahead_ms=random.choice([0, 10, 100]), row_count_max=30)

    def _cancel(self, random: random.Random) -> None:
        with self.lock:
            names = list(self.promised)
        if not names:
            return
        name = random.choice(names)
        if self.store.cancel(name) is Answer.CANCELLED:
            self.cancelled.add(name)

    def _tick(self, random: random.Random) -> None:
        self.wall.advance(random.choice([0, 1, 2]))
        self.store.open_gate()

    def _keep_house(self, random: random.Random) -> None:
        random.choice([self.store.maintain, self.store.checkpoint, self.store.retain])()

    def _read(self, random: random.Random) -> None:
        topic, queue_id = random.choice(QUEUES)
        start, end = self.store.offset_range(topic, queue_id)
        if end == start:
            return
        result = self.store.read(topic, queue_id, random.randrange(start, end), count_max=20)
        now_ms = self.store.clock.now_ms()
        assert not result.damaged
        times = [records.decode(bytes(view)).store_ms for view in result.records]
        assert times == sorted(times)
        assert all(store_ms <= now_ms for store_ms in times)

    def _count(self, random: random.Random) -> None:
        by_topic = self.store.survey().pending_by_topic()
        assert all(count > 0 for count in by_topic.values())
        self.store.next_due_ms()
        self.store.stats()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200 if IS_SOAK else 5))
def test_everybody_at_once(tmp_path: Path, seed: int) -> None:
    wall = Wall()
    store = open_store(tmp_path, wall, OPTIONS)
    crowd = Crowd(store, wall, seed)
    crowd.run()

    for is_reopened in (False, True):
        if is_reopened:
            store.close()
            store = open_store(tmp_path, wall, OPTIONS)
        wall.advance(10_000)
        while store.pending_count():
            assert carry_over(store).delivered_count
        store.open_gate()
        check(store, crowd)
    store.close()


def check(store: Store, crowd: Crowd) -> None:
    seen: Counter[str] = Counter()
    for topic, queue_id in QUEUES:
        visible = read_all(store, topic, queue_id)
        times = [record.store_ms for record in visible]
        assert times == sorted(times)
        assert [record.queue_offset for record in visible] == [*range(len(visible))]
        due_order: list[tuple[int, int]] = []
        for record in visible:
            (unique_id,) = (
                part.split(b"\x01")[1].decode()
                for part in record.properties.split(b"\x02")
                if part.startswith(b"UNIQ_KEY\x01")
            )
            seen[unique_id] += 1
            due_ms = crowd.promised[unique_id]
            assert due_ms is None or record.store_ms >= due_ms, "early"
            if record.seq is not None and due_ms is not None and record.store_ms == due_ms:
                due_order.append((due_ms, record.seq))
        assert due_order == sorted(due_order), f"seed {crowd.seed}"
    assert set(seen.values()) <= {1}, "twice"
    lost = set(crowd.promised) - set(seen) - crowd.cancelled
    assert not lost, f"seed {crowd.seed}: {len(lost)} lost"
    assert not crowd.cancelled & set(seen), "cancelled, and seen all the same"
