"""Times on the command line: the arguments that say when. How they are read: `dueline.times`."""

from __future__ import annotations

import argparse

from dueline.clock import Clock
from dueline.errors import InvalidRequest
from dueline.times import future_ms, local, parse_duration_ms

__all__ = ["add_due_arguments", "due_properties", "show_clock"]


def show_clock(time_ms: int) -> str:
    """Time of day and zone: `10:00:00.000 CET`."""
    moment = local(time_ms)
    return f"{moment:%H:%M:%S}.{time_ms % 1000:03d} {moment:%Z}"


def add_due_arguments(
    parser: argparse.ArgumentParser, *, is_required: bool
) -> argparse._MutuallyExclusiveGroup:
    """`--delay` and `--at`, and `--level` where neither is required."""
    group = parser.add_mutually_exclusive_group(required=is_required)
    group.add_argument("--delay", metavar="DURATION", help="such as 30s, 1h 30m, 1.5h, 2w or PT30M")
    group.add_argument(
        "--at",
        metavar="TIME",
        help="such as 2027-01-01T10:00 (local), with a zone, or friday 10:00",
    )
    if not is_required:
        group.add_argument("--level", type=int, metavar="N", help="RocketMQ's delay level, from 1")
    return group


def due_properties(args: argparse.Namespace) -> dict[str, str]:
    """The message properties that say what the arguments say."""
    if args.delay is not None:
        return {"TIMER_DELAY_MS": str(parse_duration_ms(args.delay))}
    if args.at is not None:
        return {"TIMER_DELIVER_MS": str(future_ms(args.at, Clock().now_ms()))}
    if args.level is not None:
        if args.level < 1:
            raise InvalidRequest(f"level: expected 1 or more, found {args.level}")
        return {"DELAY": str(args.level)}
    return {}
