"""A store with messages that wait, in the timeline's files, in memory and at the gate; and what a
plain loop says about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tests.unit.store.making import SMALL, START_MS, Wall, carry_over, open_store

from dueline.message import Message
from dueline.store import Store
from dueline.store.thresholds import Thresholds

FEW = replace(SMALL, open_units_max=8, thresholds=Thresholds(merge_run_count=4, run_units_max=64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message as its sender knows it."""

    number: int
    topic: str
    due_ms: int
    keys: str
    tags: str
    body: bytes
    region: str


class WaitingWorld:
    """Sixty messages of three topics, due within a minute; the first seconds are at the gate."""

    def __init__(self, folder: Path) -> None:
        self.wall = Wall()
        self.store: Store = open_store(folder, self.wall, FEW)
        self.sent: list[Sent] = []
        for number in range(60):
            self.put(number)
            if number % 9 == 0:
                self.store.maintain()
        carry_over(self.store, ahead_ms=4_000)

    def put(self, number: int) -> None:
        topic, tags = ("orders", "mail", "bills")[number % 3], "ab"[number % 2]
        delay_ms = 1_000 * (1 + number * 7 % 60)
        keys = f"order-{number} all" if number % 4 else ""
        body, region = f"number {number} äö".encode(), ("eu", "us", "")[number % 3]
        properties = {"TIMER_DELAY_MS": str(delay_ms), "TAGS": tags}
        if keys:
            properties["KEYS"] = keys
        if region:
            properties["region"] = region
        result = self.store.put(Message(topic=topic, body=body, properties=properties))
        assert result.seq is not None
        self.sent.append(
            Sent(
                number=result.seq,
                topic=topic,
                due_ms=self.wall.now_ms + delay_ms,
                keys=keys,
                tags=tags,
                body=body,
                region=region,
            )
        )

    def numbers(self, is_meant: Callable[[Sent], bool]) -> list[int]:
        """Of those that are meant, in due order."""
        ordered = sorted(self.sent, key=lambda each: (each.due_ms, each.number))
        return [each.number for each in ordered if is_meant(each)]


__all__ = ["START_MS", "Sent", "WaitingWorld"]
