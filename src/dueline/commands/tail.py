"""`dueline tail TOPIC`: print messages as they become visible, and how late each came."""

from __future__ import annotations

import argparse
import base64
import json
from collections.abc import Iterator
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

__all__ = ["Reader", "configure", "run"]

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
        for messages, now_ms in reader.pulls(timeout_s=timeout_s, count_max=args.count):
            for message in messages:
                print(show(args.topic, message, now_ms), flush=True)
            seen_count += len(messages)
            reader.acknowledge()
    return 0 if args.count is None or seen_count == args.count else 1


class Reader:
    """Reads a topic's queues together, from where it starts on."""

    def __init__(
        self, client: ControlClient, topic: str, *, start: str = "end", group: str | None = None
    ) -> None:
        self._client = client
        self._topic = topic
        self._group = group
        request = StartPositions(topic=topic, at=start, group=group)
        self._offsets = client.ask(request, Positions).offsets

    def pulls(
        self, *, timeout_s: float | None = None, count_max: int | None = None
    ) -> Iterator[tuple[tuple[PulledMessage, ...], int]]:
        """Messages as they come, with the broker's time; ends with the count or the time."""
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
            yield pulled.messages, pulled.now_ms

    def acknowledge(self) -> None:
        """Remember for the group how far it has come."""
        if self._group is not None:
            request = Acknowledge(group=self._group, topic=self._topic, offsets=self._offsets)
            self._client.ask(request, Positions)


def _as_line(topic: str, message: PulledMessage, now_ms: int) -> str:
    if message.due_ms is None:
        lateness = "not delayed"
    else:
        lateness = f"late by {show_span(now_ms - message.due_ms)}"
    names = (("KEYS", "key"), ("TAGS", "tag"))
    labels = [
        f"{label}={message.properties[name]}" for name, label in names if name in message.properties
    ]
    body = base64.b64decode(message.body).decode("utf-8", "backslashreplace")
    place = f"{topic}/{message.queue_id}@{message.offset}"
    return "  ".join([show_clock(message.store_ms), place, lateness, *labels, body])


def _as_json(topic: str, message: PulledMessage, now_ms: int) -> str:
    return json.dumps(
        {
            "topic": topic,
            "queue_id": message.queue_id,
            "offset": message.offset,
            "body": base64.b64decode(message.body).decode("utf-8", "backslashreplace"),
            "properties": message.properties,
            "born_ms": message.born_ms,
            "visible_ms": message.store_ms,
            "due_ms": message.due_ms,
            "seen_ms": now_ms,
            "late_ms": None if message.due_ms is None else now_ms - message.due_ms,
        },
        ensure_ascii=False,
    )
