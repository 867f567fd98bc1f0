"""`dueline tail TOPIC`: print messages as they become visible, and how late each came."""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.times import show_clock, show_span
from dueline.errors import InvalidRequest
from dueline.flight.control import (
    PULL_WAIT_MS_MAX,
    Acknowledge,
    ControlClient,
    Positions,
    Pull,
    Pulled,
    PulledMessage,
    StartPositions,
)
from dueline.schedule import parse_duration_ms

__all__ = ["Arrival", "Reader", "configure", "run"]

_PULL_COUNT = 256


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("--group", help="go on where this group left off, and remember")
    parser.add_argument(
        "--from",
        dest="start",
        choices=("start", "end"),
        default="end",
        help="where to begin (default: end, so only what comes)",
    )
    parser.add_argument("--count", type=int, metavar="N", help="stop after N messages")
    parser.add_argument(
        "--timeout", metavar="DURATION", help="give up after this time; exit code 1"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    add_broker_argument(parser)
    show_examples(
        parser,
        """
        dueline tail orders
        dueline tail orders --from start --count 10
        dueline tail orders --group billing --json | jq .body
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Print until the count is reached or the user has seen enough; 1 if the time was up."""
    if args.count is not None and args.count < 1:
        raise InvalidRequest(f"count: expected 1 or more, found {args.count}")
    timeout_s = parse_duration_ms(args.timeout) / 1000 if args.timeout else None
    show = _as_json if args.json else _as_line
    seen_count = 0
    with connect(args) as client:
        reader = Reader(client, args.topic, start=args.start, group=args.group)
        for arrivals in reader.pulls(timeout_s=timeout_s, count_max=args.count):
            for arrival in arrivals:
                print(show(args.topic, arrival), flush=True)
            seen_count += len(arrivals)
            reader.acknowledge()
    return 0 if args.count is None or seen_count == args.count else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A message and when it came: when we saw it, or before, if it was there when we began."""

    message: PulledMessage
    came_ms: int

    @property
    def late_ms(self) -> int | None:
        """None for a message that was not delayed."""
        due_ms = self.message.due_ms
        return None if due_ms is None else self.came_ms - due_ms

    @property
    def body(self) -> str:
        return base64.b64decode(self.message.body).decode("utf-8", "backslashreplace")


class Reader:
    """Reads a topic's queues together, from where it starts on."""

    def __init__(
        self, client: ControlClient, topic: str, *, start: str = "end", group: str | None = None
    ) -> None:
        self._client = client
        self._topic = topic
        self._group = group
        request = StartPositions(topic=topic, at=start, group=group)
        positions = client.ask(request, Positions)
        self._offsets = positions.offsets
        self._started_ms = positions.now_ms

    def pulls(
        self, *, timeout_s: float | None = None, count_max: int | None = None
    ) -> Iterator[list[Arrival]]:
        """Messages as they come, by the broker's clock; ends with the count or the time."""
        end_s = None if timeout_s is None else monotonic() + timeout_s
        seen_count = 0
        while count_max is None or seen_count < count_max:
            wait_ms = PULL_WAIT_MS_MAX
            if end_s is not None:
                wait_ms = min(wait_ms, int(1000 * (end_s - monotonic())))
                if wait_ms <= 0:
                    return
            count = _PULL_COUNT if count_max is None else min(_PULL_COUNT, count_max - seen_count)
            request = Pull(
                topic=self._topic, offsets=self._offsets, count_max=count, wait_ms=wait_ms
            )
            pulled = self._client.ask(request, Pulled)
            self._offsets = pulled.offsets
            seen_count += len(pulled.messages)
            yield [
                Arrival(message=message, came_ms=self._came_ms(message, pulled.now_ms))
                for message in pulled.messages
            ]

    def _came_ms(self, message: PulledMessage, now_ms: int) -> int:
        return now_ms if message.store_ms >= self._started_ms else message.store_ms

    def acknowledge(self) -> None:
        """Remember for the group how far it has come."""
        if self._group is not None:
            request = Acknowledge(group=self._group, topic=self._topic, offsets=self._offsets)
            self._client.ask(request, Positions)


def _as_line(topic: str, arrival: Arrival) -> str:
    message, late_ms = arrival.message, arrival.late_ms
    lateness = "not delayed" if late_ms is None else f"late by {show_span(late_ms)}"
    names = {"KEYS": "key", "TAGS": "tag"}
    labels = [
        f"{label}={message.properties[name]}"
        for name, label in names.items()
        if name in message.properties
    ]
    place = f"{topic}/{message.queue_id}@{message.offset}"
    return "  ".join([show_clock(arrival.came_ms), place, lateness, *labels, arrival.body])


def _as_json(topic: str, arrival: Arrival) -> str:
    message = arrival.message
    return json.dumps(
        {
            "topic": topic,
            "queue_id": message.queue_id,
            "offset": message.offset,
            "body": arrival.body,
            "properties": message.properties,
            "born_ms": message.born_ms,
            "visible_ms": message.store_ms,
            "due_ms": message.due_ms,
            "came_ms": arrival.came_ms,
            "late_ms": arrival.late_ms,
        },
        ensure_ascii=False,
    )
