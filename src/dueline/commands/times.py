"""Times on the command line: read what people write, show what people read.

Times without a zone are local; what is shown always says its zone.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

from dueline.errors import InvalidRequest
from dueline.schedule import parse_duration_ms

__all__ = [
    "add_due_arguments",
    "due_properties",
    "local",
    "parse_at_ms",
    "show_clock",
    "show_span",
    "show_time",
]

_UNITS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))


def parse_at_ms(text: str) -> int:
    """A date, or a date and time, as milliseconds since 1970.

    >>> parse_at_ms("2027-01-01T10:00:00Z")
    1798797600000

    Raises:
        InvalidRequest: anything else.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidRequest(
            f"time: expected a date and time such as 2027-01-01T10:00 (local) or "
            f"2027-01-01T10:00+01:00, found {text!r}"
        ) from error
    return round(moment.astimezone(UTC).timestamp() * 1000)


def local(time_ms: int) -> datetime:
    """A moment in the local zone."""
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC).astimezone()


def show_time(time_ms: int) -> str:
    """Date, time and zone: `2027-01-01 10:00:00.000 CET`."""
    moment = local(time_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{time_ms % 1000:03d} {moment:%Z}"


def show_clock(time_ms: int) -> str:
    """Time of day and zone: `10:00:00.000 CET`."""
    moment = local(time_ms)
    return f"{moment:%H:%M:%S}.{time_ms % 1000:03d} {moment:%Z}"


def show_span(span_ms: int) -> str:
    """A span in its two largest units.

    >>> [show_span(ms) for ms in (0, 12, 1_500, 90_000, 7_500_000, -40)]
    ['0 ms', '12 ms', '1.5 s', '1 m 30 s', '2 h 5 m', '-40 ms']
    """
    if span_ms < 0:
        return f"-{show_span(-span_ms)}"
    if span_ms < 1_000:
        return f"{span_ms} ms"
    if span_ms < 60_000:
        return f"{span_ms / 1000:.3g} s"
    for (unit, unit_ms), (lesser, lesser_ms) in pairwise(_UNITS):
        if span_ms >= unit_ms:
            rest = span_ms % unit_ms // lesser_ms
            return f"{span_ms // unit_ms} {unit}" + (f" {rest} {lesser}" if rest else "")
    raise AssertionError(span_ms)


def add_due_arguments(parser: argparse.ArgumentParser, *, is_required: bool) -> None:
    """`--delay` and `--at`, and `--level` where neither is required."""
    group = parser.add_mutually_exclusive_group(required=is_required)
    group.add_argument("--delay", metavar="DURATION", help="such as 30s, 1m30s, 2h, 60d, 500ms")
    group.add_argument(
        "--at", metavar="TIME", help="such as 2027-01-01T10:00 (local), or with a zone"
    )
    if not is_required:
        group.add_argument("--level", type=int, metavar="N", help="RocketMQ's delay level, from 1")


def due_properties(args: argparse.Namespace) -> dict[str, str]:
    """The message properties that say what the arguments say."""
    if args.delay is not None:
        return {"TIMER_DELAY_MS": str(parse_duration_ms(args.delay))}
    if args.at is not None:
        return {"TIMER_DELIVER_MS": str(parse_at_ms(args.at))}
    if args.level is not None:
        if args.level < 1:
            raise InvalidRequest(f"level: expected 1 or more, found {args.level}")
        return {"DELAY": str(args.level)}
    return {}
