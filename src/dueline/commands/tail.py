"""`dueline tail TOPIC`: print messages as they become visible, and how late each came.

It outlives the broker: when that goes away it says so, tries again every second and goes on where
it was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Final

from dueline.broker.consumer_offsets import check_group
from dueline.client import AsyncReader
from dueline.clock import Clock
from dueline.commands.arrival import Arrival, arrival
from dueline.commands.connection import add_name_server_argument, name_server
from dueline.commands.examples import show_examples
from dueline.commands.terminal import say, to_json
from dueline.commands.times import show_clock
from dueline.errors import BrokerError, InvalidRequest, Unavailable
from dueline.message import check_topic
from dueline.schedule import DelayLevels
from dueline.times import parse_duration_ms, show_span

__all__ = ["arrivals", "configure", "run"]

_READ_COUNT: Final = 256


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
    add_name_server_argument(parser)
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
    check_topic(args.topic)
    if args.group is not None:
        check_group(args.group)
    timeout_s = parse_duration_ms(args.timeout) / 1000 if args.timeout else None
    return asyncio.run(_tail(args, name_server(args), timeout_s))


async def _tail(args: argparse.Namespace, address: str, timeout_s: float | None) -> int:
    show = _as_json if args.json else _as_line
    reader = AsyncReader(
        address, args.topic, start=args.start, group=args.group, on_connection=_tell
    )
    seen_count = 0
    try:
        await reader.__aenter__()
    except Unavailable as error:
        raise Unavailable(
            f"{error.message}; is it running, with listen.name_server and listen.remoting not off?"
        ) from error
    try:
        if not reader.has_topic:
            _say(f"topic {args.topic} does not exist yet; waiting for its first message")
        async for some in arrivals(reader, timeout_s=timeout_s, count_max=args.count):
            for each in some:
                say(show(args.topic, each))
            seen_count += len(some)
            if args.group is not None:
                with contextlib.suppress(Unavailable):  # then with the next ones
                    await reader.commit()
    finally:
        await reader.__aexit__(None, None, None)
    # Without a count it is the time that has ended it.
    return 0 if seen_count == args.count else 1


async def arrivals(
    reader: AsyncReader, *, timeout_s: float | None = None, count_max: int | None = None
) -> AsyncIterator[list[Arrival]]:
    """Messages as they come; ends with the count or the time."""
    clock = Clock()
    started_ms = clock.now_ms()
    loop = asyncio.get_running_loop()
    end_s = None if timeout_s is None else loop.time() + timeout_s
    levels: DelayLevels | None = None
    left_count = count_max
    while left_count is None or left_count > 0:
        count = _READ_COUNT if left_count is None else min(_READ_COUNT, left_count)
        left_s = None if end_s is None else end_s - loop.time()
        messages = await reader.receive_many(count, timeout_s=left_s)
        if not messages:
            return
        now_ms = clock.now_ms()
        if levels is None and any(message.level is not None for message in messages):
            with contextlib.suppress(BrokerError):  # then they are shown as not delayed
                levels = await reader.levels()
        if left_count is not None:
            left_count -= len(messages)
        yield [
            arrival(message, now_ms=now_ms, started_ms=started_ms, levels=levels)
            for message in messages
        ]


def _tell(error: BrokerError | None) -> None:
    _say("connected again" if error is None else f"{error.message}; trying again")


def _say(text: str) -> None:
    """On the error output: what is printed stays what was received."""
    say(f"dueline tail: {text}", file=sys.stderr)


def _as_line(topic: str, each: Arrival) -> str:
    message, late_ms = each.message, each.late_ms
    lateness = "not delayed" if late_ms is None else f"late by {show_span(late_ms)}"
    names = {"KEYS": "key", "TAGS": "tag"}
    labels = [
        f"{label}={message.properties[name]}"
        for name, label in names.items()
        if name in message.properties
    ]
    place = f"{topic}/{message.queue_id}@{message.queue_offset}"
    return "  ".join([show_clock(each.came_ms), place, lateness, *labels, each.body])


def _as_json(topic: str, each: Arrival) -> str:
    message = each.message
    (line,) = to_json(
        {
            "topic": topic,
            "queue_id": message.queue_id,
            "offset": message.queue_offset,
            "body": each.body,
            "properties": dict(message.properties),
            "born_ms": message.born_ms,
            "visible_ms": message.store_ms,
            "due_ms": each.due_ms,
            "came_ms": each.came_ms,
            "late_ms": each.late_ms,
        }
    )
    return line
