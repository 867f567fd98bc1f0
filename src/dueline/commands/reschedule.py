"""`dueline reschedule ID_OR_KEY …`: let delayed messages be due at another time."""

from __future__ import annotations

import argparse

from dueline.commands.cancel import MEANINGS
from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.terminal import add_json_argument, say, say_json
from dueline.commands.times import add_due_arguments, future_ms
from dueline.flight.protocol import Answers, Move, Reschedule
from dueline.times import parse_duration_ms, show_time

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "keys", nargs="+", metavar="ID_OR_KEY", help="message id or key; a key may name several"
    )
    add_due_arguments(parser, is_required=True)
    add_json_argument(parser)
    add_broker_argument(parser)
    show_examples(
        parser,
        """
        dueline reschedule order-17 --delay 1h
        dueline reschedule order-17 order-18 --at 2027-01-01T10:00
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Move them; 1 if any could not be."""
    with connect(args) as client:
        now_ms = client.describe().now_ms  # the broker's clock is the one that counts
        if args.at is not None:
            due_ms = future_ms(args.at, now_ms)
        else:
            due_ms = now_ms + parse_duration_ms(args.delay)
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
