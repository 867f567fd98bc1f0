"""A message that has come, and how late it is.

A delay or a time comes back with the message as `TIMER_OUT_MS`, to the millisecond. A level does
not: it is counted from when the message was sent, so the way to the broker is part of its lateness.
"""

from __future__ import annotations

from dataclasses import dataclass

from dueline.client import Received
from dueline.schedule import DelayLevels

__all__ = ["Arrival", "arrival"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message and when it came: when we saw it, or before, if it was there when we began.

    `due_ms` is None for a message that was not delayed.
    """

    message: Received
    came_ms: int
    due_ms: int | None

    @property
    def late_ms(self) -> int | None:
        return None if self.due_ms is None else self.came_ms - self.due_ms

    @property
    def body(self) -> str:
        return self.message.body.decode("utf-8", "backslashreplace")


def arrival(
    message: Received, *, now_ms: int, started_ms: int, levels: DelayLevels | None
) -> Arrival:
    """What came now to a reader that began at `started_ms`."""
    due_ms = message.due_ms
    if due_ms is None and message.level is not None and levels is not None:
        due_ms = message.born_ms + levels.delay_ms(levels.clamp(message.level))
    was_there = message.store_ms < started_ms
    return Arrival(
        message=message, came_ms=message.store_ms if was_there else now_ms, due_ms=due_ms
    )
