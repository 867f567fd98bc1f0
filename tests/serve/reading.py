"""Reading a topic with the Python client, and when each message came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

from dueline.client import Reader, Received
from dueline.clock import system_time_ms

_READ_COUNT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message, and the time when it was here."""

    message: Received
    came_ms: int

    @property
    def body(self) -> str:
        return self.message.body.decode()


def arrivals(
    name_server: str, topic: str, *, timeout_s: float, count_max: int
) -> Iterator[Arrival]:
    """A topic's messages from the start; ends with the count or the time."""
    end_s = monotonic() + timeout_s
    left_count = count_max
    with Reader(name_server, topic) as reader:
        while left_count > 0 and (left_s := end_s - monotonic()) > 0:
            messages = reader.receive_many(min(_READ_COUNT, left_count), timeout_s=left_s)
            left_count -= len(messages)
            came_ms = system_time_ms()
            for message in messages:
                yield Arrival(message=message, came_ms=came_ms)
