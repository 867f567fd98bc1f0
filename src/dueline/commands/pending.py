"""`dueline pending`: what waits, as a chart by due time or as a list; or one message's state."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping
from datetime import datetime

from dueline.clock import Clock
from dueline.commands.browsing import show_waiting, waiting
from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.terminal import add_limit_argument, say, to_json
from dueline.errors import InvalidRequest
from dueline.flight.operators import (
    CountPending,
    Found,
    LookUp,
    OperatorClient,
    PendingCounts,
)
from dueline.times import local, show_distance, show_time

__all__ = ["configure", "run"]

_FORMATS = {"minute": "%Y-%m-%d %H:%M", "hour": "%Y-%m-%d %H:00", "day": "%Y-%m-%d"}
_BUCKETS_MS = {"minute": 60_000, "hour": 3_600_000, "day": 3_600_000}
_QUARTER_MS = 900_000
"""Zones differ from UTC by quarters of an hour: what is put together as a day or hour."""

_BAR_MIN = 10
_ROWS_MAX = 60
_MINUTES_MAX = 30
_HOURS_MAX = 48
_LIMIT = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--by", choices=tuple(_FORMATS), help="size of the steps (default: what fits the screen)"
    )
    parser.add_argument("--topic", help="of this topic only")
    parser.add_argument(
        "--list", action="store_true", help="the messages themselves, the next due first"
    )
    add_limit_argument(parser, _LIMIT, "list at most N")
    parser.add_argument("--key", help="the state of the messages with this id or key")
    parser.add_argument("--json", action="store_true", help="for programs; times in ms since 1970")
    add_broker_argument(parser)
    show_examples(
        parser,
        """
        dueline pending
        dueline pending --by hour --topic orders
        dueline pending --key order-17
        dueline pending --list --topic orders --limit 100
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Print; 1 if no message has the key."""
    if args.limit < 1:
        raise InvalidRequest(f"--limit: expected 1 or more, found {args.limit}")
    with connect(args) as client:
        if args.list:
            found = waiting(client, topic=args.topic, key=args.key, limit=args.limit)
            show_waiting(found, as_json=args.json)
            return 0 if found or args.key is None else 1
        if args.key is not None:
            return _show_found(client, args)
        return _show_counts(client, args)


def _show_found(client: OperatorClient, args: argparse.Namespace) -> int:
    found = client.ask(LookUp(key=args.key), Found).messages
    if args.topic is not None:
        found = tuple(message for message in found if message.topic == args.topic)
    if args.json:
        say(*to_json([message.to_json() for message in found], indent=1))
    elif not found:
        say(f"{args.key}: unknown: no delayed message has this id or key")
    else:
        for message in found:
            words = (
                message.unique_id,
                f"{message.topic}/{message.queue_id}",
                f"due {show_time(message.due_ms)}",
                message.state,
                f"keys={message.keys}" if message.keys else "",
            )
            say("  ".join(word for word in words if word))
    return 0 if found else 1


def _show_counts(client: OperatorClient, args: argparse.Namespace) -> int:
    step = args.by or "minute"
    counts = _ask(client, step, args.topic)
    if args.by is None and not args.json and len(counts.buckets) > _MINUTES_MAX:
        steps = {_label(int(start_ms), "hour") for start_ms in counts.buckets}
        step = "hour" if len(steps) <= _HOURS_MAX else "day"
    if args.json:
        say(*to_json({"by": step, **counts.to_json()}, indent=1))
        return 0
    now_ms = Clock().now_ms()
    where = f" for {args.topic}" if args.topic else ""
    say(f"waiting{where}: {counts.count:,}")
    if counts.next_due_ms is not None and args.topic is None:
        distance = show_distance(counts.next_due_ms, now_ms)
        say(f"next due {show_time(counts.next_due_ms)} ({distance})")
    if counts.count:
        _show_topics(counts, args.topic)
        _show_chart(_by_label(counts.buckets, step), local(now_ms), is_cut=counts.is_cut)
    return 0


def _ask(client: OperatorClient, step: str, topic: str | None) -> PendingCounts:
    bucket_ms = _BUCKETS_MS[step]
    if step != "minute" and _is_odd_zone():
        bucket_ms = _QUARTER_MS
    return client.ask(CountPending(bucket_ms=bucket_ms, topic=topic), PendingCounts)


def _is_odd_zone() -> bool:
    offset = local(0).utcoffset()
    return offset is not None and offset.total_seconds() % 3600 != 0


def _label(start_ms: int, step: str) -> str:
    return f"{local(start_ms):{_FORMATS[step]}}"


def _by_label(buckets: Mapping[str, int], step: str) -> dict[str, int]:
    """Counts by local minute, hour or day, in order."""
    rows: dict[str, int] = {}
    for start_ms, count in buckets.items():
        label = _label(int(start_ms), step)
        rows[label] = rows.get(label, 0) + count
    return rows


def _show_topics(counts: PendingCounts, topic: str | None) -> None:
    if topic is not None or len(counts.topics) < 2:
        return
    largest = sorted(counts.topics.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {count:,}" for name, count in largest[:5])
    rest = len(largest) - 5
    say(f"topics: {shown}" + (f" and {rest} more" if rest > 0 else ""))


def _show_chart(rows: dict[str, int], now: datetime, *, is_cut: bool) -> None:
    shown = list(rows.items())[:_ROWS_MAX]
    number_width = max(len(f"{count:,}") for _, count in shown)
    label_width = max(len(label) for label, _ in shown)
    bar_width = max(shutil.get_terminal_size().columns - number_width - label_width - 4, _BAR_MIN)
    largest = max(count for _, count in shown)
    say("", f"due ({now:%Z})")
    for label, count in shown:
        bar = "█" * max(round(bar_width * count / largest), 1)
        say(f"{label:<{label_width}}  {count:>{number_width},}  {bar}")
    rest = len(rows) - len(shown)
    if rest or is_cut:
        more = sum(list(rows.values())[_ROWS_MAX:])
        say(f"… and {more:,}{' or more' if is_cut else ''} in {rest} later steps; try --by day")
