"""`dueline topics`: list topics with what they hold; create or delete one; rules of the road."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict
from typing import Final

from dueline.client.admin import AsyncAdmin, TopicFigures
from dueline.commands import topic_rules
from dueline.commands.actions import Actions
from dueline.commands.connection import add_name_server_argument, name_server
from dueline.commands.examples import show_examples
from dueline.commands.table import show_table
from dueline.commands.terminal import add_json_argument, say, say_json
from dueline.errors import InvalidRequest
from dueline.message import check_topic
from dueline.times import show_time

__all__ = ["configure", "run"]

_QUEUE_COUNT: Final = 4


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--all", action="store_true", help="also the broker's own, retries and dead letters"
    )
    actions = Actions(parser, add_json_argument, add_name_server_argument)
    create = actions.add(
        "create",
        "make a topic, or change how many queues it has",
        "dueline topics create orders --queues 8",
    )
    create.add_argument("topic", metavar="TOPIC")
    create.add_argument(
        "--queues", type=int, default=_QUEUE_COUNT, metavar="N", help="(default: %(default)s)"
    )
    delete = actions.add(
        "delete",
        "forget a topic; its messages go when their retention ends",
        "dueline topics delete orders",
    )
    delete.add_argument("topic", metavar="TOPIC")
    topic_rules.add_rule_actions(actions)
    show_examples(
        parser,
        """
        dueline topics
        dueline topics create orders --queues 8
        dueline topics delete orders
        dueline topics pause reminders
        dueline topics rate reminders 500
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Do it."""
    if args.action in topic_rules.ACTIONS:
        return topic_rules.run(args)
    if args.action is not None:
        check_topic(args.topic)
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    async with AsyncAdmin(name_server(args)) as admin:
        if args.action == "create":
            await _create(admin, args)
        elif args.action == "delete":
            await _delete(admin, args)
        else:
            found = await admin.topics()
            _show([each for each in found if args.all or not each.is_internal], args)
    return 0


async def _create(admin: AsyncAdmin, args: argparse.Namespace) -> None:
    if args.queues < 1:
        raise InvalidRequest(f"--queues: expected 1 or more, found {args.queues}")
    await admin.create_topic(args.topic, queue_count=args.queues)
    if args.json:
        say_json({"topic": args.topic, "queue_count": args.queues})
    else:
        say(f"topic {args.topic} has {args.queues} queues on each broker")


async def _delete(admin: AsyncAdmin, args: argparse.Namespace) -> None:
    await admin.delete_topic(args.topic)
    if args.json:
        say_json({"topic": args.topic, "is_deleted": True})
    else:
        say(f"topic {args.topic} is deleted")


def _show(found: list[TopicFigures], args: argparse.Namespace) -> None:
    if args.json:
        for each in found:
            say_json(asdict(each))
        return
    rows = [
        (
            each.topic,
            each.queue_count,
            each.message_count,
            each.pending_count,
            show_time(each.last_ms) if each.last_ms else "",
        )
        for each in found
    ]
    show_table(("TOPIC", "QUEUES", "MESSAGES", "PENDING", "LAST MESSAGE"), rows)
