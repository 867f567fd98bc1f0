"""`dueline dead-letters GROUP`: list what a group could not handle, and send it again.

What is sent again goes to the group alone, as one more attempt, a second later; or, for consumers
that do not read retries, to its topic as a new message. It stays in the list: a topic is a log, and
what is resent twice is consumed twice.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import deque
from typing import Final

from dueline.client import AsyncProducer
from dueline.client.admin import AsyncAdmin, DeadLetter
from dueline.commands.bodies import body_fields, body_text
from dueline.commands.connection import add_name_server_argument, name_server
from dueline.commands.examples import show_examples
from dueline.commands.table import show_table
from dueline.commands.terminal import add_json_argument, add_limit_argument, say, say_json
from dueline.errors import InvalidRequest
from dueline.times import show_time

__all__ = ["configure", "run"]

_LIMIT: Final = 20
_SENDER: Final = "dueline_resend"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("group", metavar="GROUP")
    add_limit_argument(parser, _LIMIT, "list the newest N")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument(
        "--resend", nargs="+", metavar="ID_OR_KEY", help="let the group have these once more"
    )
    chosen.add_argument(
        "--resend-all", action="store_true", help="let the group have all of them once more"
    )
    parser.add_argument(
        "--to-topic",
        action="store_true",
        help="resend as new messages to their topic, which every group of it reads",
    )
    add_json_argument(parser)
    add_name_server_argument(parser)
    show_examples(
        parser,
        """
        dueline dead-letters billing
        dueline dead-letters billing --resend order-17
        dueline dead-letters billing --resend-all
        dueline dead-letters billing --resend-all --to-topic
        """,
    )


def run(args: argparse.Namespace) -> int:
    """List or resend; 1 if one that was named is not there."""
    if args.limit < 1:
        raise InvalidRequest(f"--limit: expected 1 or more, found {args.limit}")
    is_resending = args.resend or args.resend_all
    if args.to_topic and not is_resending:
        raise InvalidRequest("--to-topic: expected --resend or --resend-all with it, found neither")
    return asyncio.run(_resend(args) if is_resending else _list(args))


async def _list(args: argparse.Namespace) -> int:
    async with AsyncAdmin(name_server(args)) as admin:
        newest: deque[DeadLetter] = deque(maxlen=args.limit)
        async for each in admin.dead_letters(args.group, count_max=args.limit):
            newest.append(each)
    _show(list(newest), args)
    return 0


async def _resend(args: argparse.Namespace) -> int:
    missing = set(args.resend or ())
    count = 0
    address = name_server(args)
    async with AsyncAdmin(address) as admin, AsyncProducer(address, group=_SENDER) as producer:
        # Listed first: one that fails at once comes back to the end, and is not to be sent again.
        for each in [letter async for letter in admin.dead_letters(args.group)]:
            names = {each.message.id, *each.message.keys}
            if not args.resend_all and names.isdisjoint(args.resend):
                continue
            if args.to_topic:
                await producer.send_one(each.as_new())
            else:
                await admin.resend(args.group, each)
            missing -= names
            count += 1
            if args.json:
                say_json({"id": each.message.id, "is_resent": True})
    for name in sorted(missing):
        say(f"{name}: unknown: no dead letter of {args.group} has this id or key", file=sys.stderr)
    if not args.json:
        target = "topics" if args.to_topic else args.group
        say(f"sent again to {target}: {count} {'message' if count == 1 else 'messages'}")
    return 1 if missing else 0


def _show(letters: list[DeadLetter], args: argparse.Namespace) -> None:
    if args.json:
        for each in letters:
            say_json(_plain(each))
        return
    if not letters:
        say(f"{args.group}: no dead letters")
        return
    rows = [
        (
            show_time(each.message.store_ms),
            each.message.id,
            each.origin,
            each.message.attempt,
            " ".join(each.message.keys),
            body_text(each.message.body),
        )
        for each in letters
    ]
    show_table(("DIED", "ID", "TOPIC", "ATTEMPTS", "KEYS", "BODY"), rows)


def _plain(each: DeadLetter) -> dict[str, object]:
    message = each.message
    return {
        "id": message.id,
        "topic": each.origin,
        "offset": message.queue_offset,
        "attempts": message.attempt,
        "died_ms": message.store_ms,
        "born_ms": message.born_ms,
        "keys": list(message.keys),
        "properties": dict(message.properties),
        **body_fields(message.body),
    }
