"""Reading a topic over the Flight port, for brokers that have no other one open."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

from dueline.flight.control import (
    PULL_WAIT_MS_MAX,
    ControlClient,
    Pull,
    Pulled,
    PulledMessage,
)

_PULL_COUNT = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message, and the broker's time when it was read."""

    message: PulledMessage
    came_ms: int

    @property
    def body(self) -> str:
        return base64.b64decode(self.message.body).decode()


def pulls(
    client: ControlClient, topic: str, *, timeout_s: float, count_max: int
) -> Iterator[Arrival]:
    """A topic's messages from the start; ends with the count or the time."""
    end_s = monotonic() + timeout_s
    offsets: dict[str, int] = {}
    left_count = count_max
    while left_count > 0 and (left_s := end_s - monotonic()) > 0:
        request = Pull(
            topic=topic,
            offsets=offsets,
            count_max=min(_PULL_COUNT, left_count),
            wait_ms=min(PULL_WAIT_MS_MAX, int(1000 * left_s)),
        )
        pulled = client.ask(request, Pulled)
        offsets = pulled.offsets
        left_count -= len(pulled.messages)
        for message in pulled.messages:
            yield Arrival(message=message, came_ms=pulled.now_ms)
