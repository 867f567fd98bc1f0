"""`dueline groups`: list consumer groups with their lag and clients; let one read again."""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict
from itertools import groupby
from typing import Final

from dueline.client.admin import AsyncAdmin, GroupFigures
from dueline.commands.actions import Actions
from dueline.commands.connection import add_name_server_argument, name_server
from dueline.commands.examples import show_examples
from dueline.commands.table import Cell, show_table
from dueline.commands.terminal import add_json_argument, say, say_json
from dueline.errors import InvalidRequest, NotFound
from dueline.message import check_topic
from dueline.times import parse_time_ms, show_time

__all__ = ["configure", "run"]

_TIMES_MS: Final = {"start": 0, "end": -1}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--group", help="this group only")
    parser.add_argument("--queues", action="store_true", help="a line for each queue")
    actions = Actions(parser, add_json_argument, add_name_server_argument)
    reset = actions.add(
        "reset",
        "let a group go on from another place in a topic; clients that run are told",
        """
        dueline groups reset billing orders --to start
        dueline groups reset billing orders --to 2027-01-01T10:00
        dueline groups reset billing orders --to 1200 --queue 3
        """,
    )
    reset.add_argument("group", metavar="GROUP")
    reset.add_argument("topic", metavar="TOPIC")
    reset.add_argument(
        "--to", required=True, metavar="PLACE", help="start, end, a time, or an offset"
    )
    reset.add_argument("--queue", type=int, metavar="N", default=None, help="this queue only")
    show_examples(
        parser,
        """
        dueline groups
        dueline groups --group billing --queues
        dueline groups reset billing orders --to start
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Do it."""
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    async with AsyncAdmin(name_server(args)) as admin:
        if args.action == "reset":
            await _reset(admin, args)
            return 0
        found = await admin.groups()
    if args.group is not None:
        found = [each for each in found if each.group == args.group]
        if not found:
            raise NotFound(f"consumer group {args.group}: expected one that exists, found none")
    _show(found, args)
    return 0


async def _reset(admin: AsyncAdmin, args: argparse.Namespace) -> None:
    check_topic(args.topic)
    is_offset = args.to.isascii() and args.to.isdigit()
    if is_offset and args.queue is None:
        raise InvalidRequest("--to: expected --queue with an offset, since each queue has its own")
    timestamp_ms = _TIMES_MS.get(args.to, -1)
    if not is_offset and args.to not in _TIMES_MS:
        timestamp_ms = parse_time_ms(args.to)
    places = await admin.reset(
        args.group,
        args.topic,
        timestamp_ms=timestamp_ms,
        queue_id=args.queue,
        offset=int(args.to) if is_offset else None,
    )
    for queue, offset in places:
        if args.json:
            say_json({"group": args.group, **asdict(queue), "offset": offset})
        else:
            say(f"{args.group}: goes on at {args.topic}/{queue.queue_id}@{offset}")


def _show(found: list[GroupFigures], args: argparse.Namespace) -> None:
    if args.json:
        for each in found:
            places = [{**asdict(place), "lag": place.lag} for place in each.places]
            say_json({"group": each.group, "clients": list(each.clients), "places": places})
        return
    if args.queues:
        rows = [row for each in found for row in _queue_rows(each)]
        show_table(("GROUP", "TOPIC", "BROKER", "QUEUE", "OFFSET", "END", "LAG"), rows)
        return
    rows = [row for each in found for row in _rows(each)]
    show_table(("GROUP", "TOPIC", "LAG", "CLIENTS", "LAST CONSUMED"), rows)


def _queue_rows(each: GroupFigures) -> list[tuple[Cell, ...]]:
    return [
        (each.group, place.topic, place.broker, place.queue_id, place.offset, place.end, place.lag)
        for place in each.places
    ]


def _rows(each: GroupFigures) -> list[tuple[Cell, ...]]:
    if not each.places:
        return [(each.group, "", None, len(each.clients), "")]
    rows: list[tuple[Cell, ...]] = []
    for topic, some in groupby(each.places, key=lambda place: place.topic):
        places = list(some)
        lag = sum(place.lag for place in places)
        last_ms = max(place.consumed_ms or 0 for place in places)
        rows.append(
            (each.group, topic, lag, len(each.clients), show_time(last_ms) if last_ms else "")
        )
    return rows
