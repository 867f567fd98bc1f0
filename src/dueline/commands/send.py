"""`dueline send TOPIC BODY`: send a message, now or for later, as every RocketMQ client does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from dueline.client import Outgoing, Producer, Sent
from dueline.clock import Clock
from dueline.commands.connection import add_name_server_argument, name_server
from dueline.commands.examples import show_examples
from dueline.commands.terminal import say
from dueline.commands.times import add_due_arguments, due_properties
from dueline.errors import BrokerError, InvalidRequest, Unavailable
from dueline.times import show_span, show_time

__all__ = ["configure", "run"]

_SHOWN_MAX = 10
_SENT_AT_ONCE = 1_000
_GROUP = "dueline_send"


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
    add_name_server_argument(parser)
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
    with Producer(name_server(args), group=_GROUP) as producer:
        for start in range(0, len(messages), _SENT_AT_ONCE):
            results = producer.send_each(messages[start : start + _SENT_AT_ONCE])
            if start == 0 and all(isinstance(result, Unavailable) for result in results):
                raise _nobody(results[0])
            refused_count += _show(results, start)
    if args.count > _SHOWN_MAX:
        say(f"{args.count - refused_count} of {args.count} messages accepted")
    return 1 if refused_count else 0


def _nobody(result: Sent | BrokerError) -> BrokerError:
    assert isinstance(result, BrokerError)
    return Unavailable(
        f"{result.message}; is it running, with listen.name_server and listen.remoting not off?"
    )


def _messages(args: argparse.Namespace, body: str) -> Iterator[Outgoing]:
    properties = due_properties(args)
    for text in args.property:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise InvalidRequest(f"--property: expected name=value, found {text!r}")
        properties[name] = value
    is_numbered = args.count > 1
    for number in range(1, args.count + 1):
        keys = " ".join(args.key)
        yield Outgoing(
            topic=args.topic,
            body=_numbered(body, number, is_numbered).encode("utf-8", "surrogateescape"),
            queue_id=args.queue,
            tag=args.tag,
            keys=tuple(_numbered(keys, number, is_numbered).split()),
            properties=properties,
        )


def _numbered(text: str, number: int, is_numbered: bool) -> str:
    return text.replace("{n}", str(number)) if is_numbered else text


def _show(results: Sequence[Sent | BrokerError], start: int) -> int:
    """Print what became of the messages; returns how many were not acknowledged."""
    now_ms = Clock().now_ms()
    refused_count = 0
    for number, result in enumerate(results, start=start):
        if isinstance(result, BrokerError):
            refused_count += 1
            if refused_count <= _SHOWN_MAX:
                # Without an answer nobody knows; what is sent again may then come twice.
                what = "not answered" if isinstance(result, Unavailable) else "refused"
                say(f"message {number + 1} {what}: {result.message}", file=sys.stderr)
        elif number < _SHOWN_MAX:
            say(f"{result.id}  {_due(result, now_ms)}")
    return refused_count


def _due(sent: Sent, now_ms: int) -> str:
    if sent.handle is None:
        return "visible now"
    if sent.due_ms is None:
        return "delayed"
    return f"due {show_time(sent.due_ms)} (in {show_span(max(sent.due_ms - now_ms, 0))})"
