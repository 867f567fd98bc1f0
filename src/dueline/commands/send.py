"""`dueline send TOPIC BODY`: send a message, now or for later."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Iterator

from dueline.clock import Clock
from dueline.commands.connection import add_broker_argument, connect
from dueline.commands.examples import show_examples
from dueline.commands.times import add_due_arguments, due_properties, show_span, show_time
from dueline.errors import InvalidRequest
from dueline.flight.control import SEND_COUNT_MAX, Outgoing, Send, SendResult, Sent

__all__ = ["configure", "run"]

_SHOWN_MAX = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument("body", metavar="BODY", help="text; - reads standard input")
    add_due_arguments(parser, is_required=False)
    parser.add_argument("--key", action="append", default=[], help="to find it again; repeatable")
    parser.add_argument("--tag", help="for consumers that filter")
    parser.add_argument(
        "--property", action="append", default=[], metavar="NAME=VALUE", help="repeatable"
    )
    parser.add_argument("--queue", type=int, default=0, metavar="N", help="queue id (default: 0)")
    parser.add_argument(
        "--count",
        type=int,
        default=1,
        metavar="N",
        help="send it N times; {n} in BODY and keys is its number",
    )
    add_broker_argument(parser)
    show_examples(
        parser,
        """
        dueline send orders 'close order 17' --delay 30m --key order-17
        dueline send mail 'happy new year' --at 2027-01-01T00:00
        dueline send retries 'once more' --level 3
        dueline send load 'message {n}' --delay 10s --count 1000
        """,
    )


def run(args: argparse.Namespace) -> int:
    """Send; 1 if the broker refused any of them."""
    if args.count < 1:
        raise InvalidRequest(f"count: expected 1 or more, found {args.count}")
    body = sys.stdin.read() if args.body == "-" else args.body
    messages = list(_messages(args, body))
    refused_count = 0
    with connect(args) as client:
        for start in range(0, len(messages), SEND_COUNT_MAX):
            part = tuple(messages[start : start + SEND_COUNT_MAX])
            results = client.ask(Send(messages=part), Sent).results
            refused_count += _show(results, start)
    if args.count > _SHOWN_MAX:
        print(f"{args.count - refused_count} of {args.count} messages accepted")
    return 1 if refused_count else 0


def _messages(args: argparse.Namespace, body: str) -> Iterator[Outgoing]:
    properties = due_properties(args)
    for text in args.property:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidRequest(f"--property: expected name=value, found {text!r}")
        properties[name] = value
    if args.tag:
        properties["TAGS"] = args.tag
    is_numbered = args.count > 1
    for number in range(1, args.count + 1):
        own = dict(properties)
        if args.key:
            keys = " ".join(args.key)
            own["KEYS"] = keys.replace("{n}", str(number)) if is_numbered else keys
        text = body.replace("{n}", str(number)) if is_numbered else body
        yield Outgoing(
            topic=args.topic,
            body=base64.b64encode(text.encode("utf-8", "surrogateescape")).decode(),
            queue_id=args.queue,
            properties=own,
        )


def _show(results: tuple[SendResult, ...], start: int) -> int:
    """Print what became of the messages; returns how many were refused."""
    now_ms = Clock().now_ms()
    refused_count = 0
    for number, result in enumerate(results, start=start):
        if result.error is not None:
            refused_count += 1
            if refused_count <= _SHOWN_MAX:
                print(f"message {number + 1} refused: {result.error}", file=sys.stderr)
        elif number < _SHOWN_MAX:
            print(f"{result.unique_id}  {_due(result.due_ms, now_ms)}")
    return refused_count


def _due(due_ms: int | None, now_ms: int) -> str:
    if due_ms is None:
        return "visible now"
    return f"due {show_time(due_ms)} (in {show_span(max(due_ms - now_ms, 0))})"
