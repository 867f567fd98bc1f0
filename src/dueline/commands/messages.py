"""`dueline messages TOPIC`: browse a topic with the bodies, without consuming anything."""

from __future__ import annotations

import argparse
from typing import Final

from dueline.commands.browsing import Span, delivered, show_delivered, show_waiting, waiting
from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.terminal import add_json_argument, add_limit_argument
from dueline.errors import InvalidRequest
from dueline.message import check_topic
from dueline.times import parse_time_ms

__all__ = ["configure", "run"]

_LIMIT: Final = 20


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "--pending", action="store_true", help="those that wait, the next due first"
    )
    parser.add_argument("--queue", type=int, metavar="N", help="of this queue only")
    parser.add_argument("--offset", type=int, metavar="N", help="from this offset of the queue on")
    parser.add_argument("--since", metavar="TIME", help="visible at this time or after it")
    parser.add_argument("--until", metavar="TIME", help="visible before this time")
    add_limit_argument(
        parser, _LIMIT, "at most N: the first since --offset or --since, else the last"
    )
    add_json_argument(parser)
    add_broker_argument(parser)
    show_examples(
        parser,
        """
        dueline messages orders
        dueline messages orders --since 2027-01-01T10:00 --limit 100
        dueline messages orders --queue 3 --offset 1200
        dueline messages orders --pending --json | jq .body
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Print them."""
    check_topic(args.topic)
    span = _span(args)
    with connect(args) as client:
        if args.pending:
            found = waiting(client, topic=args.topic, key=None, limit=args.limit)
            show_waiting(found, as_json=args.json)
        else:
            show_delivered(delivered(client, args.topic, span, limit=args.limit), as_json=args.json)
    return 0


def _span(args: argparse.Namespace) -> Span:
    if args.limit < 1:
        raise InvalidRequest(f"--limit: expected 1 or more, found {args.limit}")
    if args.offset is not None and args.queue is None:
        raise InvalidRequest("--offset: expected --queue with it, since each queue has its own")
    span = Span(
        queue_id=args.queue,
        offset=args.offset,
        start_ms=None if args.since is None else parse_time_ms(args.since),
        end_ms=None if args.until is None else parse_time_ms(args.until),
    )
    if args.pending and span != Span():
        raise InvalidRequest(
            "--pending: expected none of --queue, --offset, --since and --until, which are about "
            "what was delivered; `dueline pending --list` looks for keys"
        )
    return span
