"""`dueline audit`: who was refused what, and who has changed what."""

from __future__ import annotations

import argparse
from time import sleep
from typing import TYPE_CHECKING, Final

from dueline.clock import Clock
from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.terminal import add_json_argument, add_limit_argument, say, say_json
from dueline.errors import InvalidRequest
from dueline.times import parse_duration_ms, parse_time_ms, show_time

if TYPE_CHECKING:
    from dueline.flight.users import AuditLine

__all__ = ["configure", "run"]

_LOOK_AGAIN_S: Final = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_json_argument(parser)
    add_broker_argument(parser)
    parser.add_argument("--user", help="only of this user")
    parser.add_argument("--what", metavar="TEXT", help="only requests with this in their name")
    parser.add_argument("--event", choices=("refused", "change", "lost"), help="only these")
    parser.add_argument(
        "--since", metavar="TIME", help="only from this time on; or so long ago, 2h"
    )
    parser.add_argument("--until", metavar="TIME", help="only before this time, likewise")
    add_limit_argument(parser, 100, "the newest so many")
    parser.add_argument("--follow", action="store_true", help="go on as lines come")
    show_examples(
        parser,
        """
        dueline audit
        dueline audit --event refused --user billing
        dueline audit --what cancel --since 2h
        dueline audit --follow --json
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Print lines, the oldest first."""
    from dueline.flight.users import AuditPage, ReadAudit

    wanted = ReadAudit(
        user=args.user,
        what=args.what,
        event=args.event,
        start_ms=_time_ms(args.since),
        end_ms=_time_ms(args.until),
        count_max=args.limit,
    )
    with connect(args) as client:
        page = client.ask(wanted, AuditPage)
        _print(page.lines, args)
        while args.follow:
            sleep(_LOOK_AGAIN_S)
            page = client.ask(wanted.changed(after=page.last, count_max=10_000), AuditPage)
            _print(page.lines, args)
    return 0


def _time_ms(text: str | None) -> int | None:
    """A time, or how long ago."""
    if text is None:
        return None
    try:
        return Clock().now_ms() - parse_duration_ms(text)
    except InvalidRequest:
        return parse_time_ms(text)


def _print(lines: tuple[AuditLine, ...], args: argparse.Namespace) -> None:
    for line in lines:
        if args.json:
            say_json(line.to_json())
            continue
        count = "" if line.count is None else f" x{line.count}"
        on = f" on {', '.join(line.on)}" if line.on else ""
        reason = f": {line.reason}" if line.reason else ""
        who = line.user or "nobody"
        say(
            f"{show_time(line.time_ms)}  {line.event:7}  {who} from {line.address or '?'}  "
            f"{line.door} {line.what}{on}{count}{reason}"
        )
