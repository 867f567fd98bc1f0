"""`dueline reschedule ID_OR_KEY …`, `--where …`: let messages be due at another time."""

from __future__ import annotations

import argparse

from dueline.commands.cancel import MEANINGS
from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.matching import add_where_arguments, change_matching, check_names
from dueline.commands.terminal import add_json_argument, say, say_json
from dueline.commands.times import add_due_arguments
from dueline.errors import InvalidRequest
from dueline.flight.protocol import Answers, Move, Reschedule
from dueline.times import future_ms, parse_duration_ms, show_time

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "keys", nargs="*", metavar="ID_OR_KEY", help="message id or key; a key may name several"
    )
    group = add_due_arguments(parser, is_required=True)
    group.add_argument("--now", action="store_true", help="at once; with --where")
    group.add_argument(
        "--shift", metavar="DURATION", help="later by so much, or =-1h: earlier; with --where"
    )
    add_where_arguments(parser)
    add_json_argument(parser)
    add_broker_argument(parser)
    show_examples(
        parser,
        """
        dueline reschedule order-17 --delay 1h
        dueline reschedule order-17 order-18 --at 2027-01-01T10:00
        dueline reschedule --where "topic = 'mail'" --shift 2h
        dueline reschedule --where "key = 'order-17'" --now --yes
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Move them; 1 if any could not be."""
    check_names(args)
    if args.where is None and (args.now or args.shift is not None):
        raise InvalidRequest("--now and --shift: expected --where with them, found ids or keys")
    with connect(args) as client:
        if args.now:
            return change_matching(args, client, action="deliver")
        if args.shift is not None:
            return change_matching(args, client, action="shift", shift_ms=_shift_ms(args.shift))
        now_ms = client.describe().now_ms  # the broker's clock is the one that counts
        if args.at is not None:
            due_ms = future_ms(args.at, now_ms)
        else:
            due_ms = now_ms + parse_duration_ms(args.delay)
        if args.where is not None:
            return change_matching(args, client, action="reschedule", due_ms=due_ms)
        moves = tuple(Move(key=key, due_ms=due_ms) for key in args.keys)
        found = client.call(Reschedule(moves=moves), Answers)
    for key, answer, count in zip(args.keys, found.answers, found.counts, strict=True):
        if args.json:
            say_json({"key": key, "answer": answer, "count": count, "due_ms": due_ms})
            continue
        several = f"{count} messages are " if count > 1 else ""
        is_moved = answer == "rescheduled"
        say(f"{key}: {f'{several}now due {show_time(due_ms)}' if is_moved else MEANINGS[answer]}")
    return 0 if set(found.answers) == {"rescheduled"} else 1


def _shift_ms(text: str) -> int:
    """Later, or earlier with a minus."""
    is_earlier = text.startswith("-")
    span_ms = parse_duration_ms(text[is_earlier:])
    return -span_ms if is_earlier else span_ms
