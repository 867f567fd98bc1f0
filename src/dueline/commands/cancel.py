"""`dueline cancel ID_OR_KEY …`, `--where …`: take delayed messages back before they are due."""

from __future__ import annotations

import argparse

from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.matching import add_where_arguments, change_matching, check_names
from dueline.commands.terminal import add_json_argument, say, say_json
from dueline.flight.protocol import Answers, Cancel

__all__ = ["configure", "run"]

MEANINGS = {
    "cancelled": "cancelled; it will not be delivered",
    "rescheduled": "rescheduled",
    "delivered": "too late: it was delivered already",
    "unknown": "unknown: no delayed message has this id or key",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "keys", nargs="*", metavar="ID_OR_KEY", help="message id or key; a key may name several"
    )
    add_where_arguments(parser)
    add_json_argument(parser)
    add_broker_argument(parser)
    show_examples(
        parser,
        """
        dueline cancel order-17
        dueline cancel 7F0000015C9387E71CDBE1455A6D0001
        dueline cancel --where "topic = 'mail' and key like 'order-%'" --dry-run
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Cancel; 1 if any could not be."""
    check_names(args)
    with connect(args) as client:
        if args.where is not None:
            return change_matching(args, client, action="cancel")
        found = client.call(Cancel(keys=tuple(args.keys)), Answers)
    for key, answer, count in zip(args.keys, found.answers, found.counts, strict=True):
        if args.json:
            say_json({"key": key, "answer": answer, "count": count})
        else:
            say(f"{key}: {_meaning(answer, count)}")
    return 0 if set(found.answers) == {"cancelled"} else 1


def _meaning(answer: str, count: int) -> str:
    if answer != "cancelled" or count == 1:
        return MEANINGS[answer]
    if count:
        return f"cancelled {count} messages; they will not be delivered"
    return "cancelled before; it will not be delivered"
