"""What a store tells its observers, event by event."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.unit.store.making import (
    START_MS,
    Wall,
    carry_over,
    delayed,
    int64s,
    open_store,
    ordinary,
    take_window,
)

from dueline.message import Message
from dueline.store import Observer, restore
from dueline.store.kernels import Int64s
from dueline.store.schema import SCHEDULE_SCHEMA


class Hearing(Observer):
    """Writes down all that it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def accepted(self, count: int, delayed_count: int, refused_count: int) -> None:
        self.heard.append(("accepted", count, delayed_count, refused_count))

    def delivered(self, *, count: int, skipped_count: int, dropped_count: int) -> None:
        self.heard.append(("delivered", count, skipped_count, dropped_count))

    def cancelled(self, count: int) -> None:
        self.heard.append(("cancelled", count))

    def rescheduled(self, count: int) -> None:
        self.heard.append(("rescheduled", count))

    def shown(self, due_ms: Int64s, now_ms: int) -> None:
        self.heard.append(("shown", due_ms.tolist(), now_ms))

    def grown(self, queues: list[tuple[str, int]]) -> None:
        self.heard.append(("grown", queues))

    def take(self) -> list[tuple[object, ...]]:
        heard, self.heard = self.heard, []
        return heard


def test_what_is_put_is_told_with_what_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        store.observe(hearing := Hearing())

        store.put(delayed(5))
        store.put_all([ordinary(), delayed(5), Message(topic="bad topic", body=b"")])
        row = {"topic": "orders", "body": b"x", "delay_ms": 5_000}
        store.put_many(pa.Table.from_pylist([row, row], schema=SCHEDULE_SCHEMA))

        assert hearing.take() == [
            ("accepted", 1, 1, 0),
            ("grown", [("orders", 0)]),
            ("accepted", 2, 1, 1),
            ("accepted", 2, 2, 0),
        ]


def test_what_is_delivered_is_told_and_when_it_is_seen(tmp_path: Path) -> None:
    wall = Wall()
    with open_store(tmp_path, wall) as store:
        store.put_all([delayed(5), delayed(7), delayed(90)])
        store.observe(hearing := Hearing())
        window = take_window(store, ahead_ms=50)

        store.deliver([restore.deliveries(window)], dropped=int64s(2))
        store.deliver([restore.deliveries(window)])
        wall.advance(9)
        store.open_gate()

        assert hearing.take() == [
            ("delivered", 2, 0, 1),
            ("delivered", 0, 2, 0),
            ("grown", [("orders", 0)]),
            ("shown", [START_MS + 5, START_MS + 7], START_MS + 9),
        ]


def test_changes_are_told_by_how_many_messages_they_changed(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        store.put_all([delayed(500, KEYS="a"), delayed(500, KEYS="a"), delayed(500, KEYS="b")])
        store.observe(hearing := Hearing())

        store.cancel_many(["a", "unknown"])
        store.reschedule("b", START_MS + 900)
        store.cancel_seqs(int64s(3))

        assert hearing.take() == [("cancelled", 2), ("rescheduled", 1), ("cancelled", 1)]


def test_every_observer_is_told_though_one_before_it_fails(tmp_path: Path) -> None:
    class Failing(Observer):
        def accepted(self, count: int, delayed_count: int, refused_count: int) -> None:
            raise ValueError("a mistake")

    with open_store(tmp_path, Wall()) as store:
        store.observe(Failing())
        store.observe(hearing := Hearing())

        store.put(delayed(5))
        carry_over(store)

        assert hearing.take() == [("accepted", 1, 1, 0), ("delivered", 1, 0, 0)]
