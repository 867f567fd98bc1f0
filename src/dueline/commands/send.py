"""`dueline send TOPIC BODY`: send a message, now or for later, as every RocketMQ client does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from dueline.client import Outgoing, Producer, Sent
from dueline.clock import Clock
from dueline.commands.connection import add_name_server_argument, name_server
from dueline.commands.examples import show_examples
from dueline.commands.terminal import add_json_argument, drop_output, say, to_json
from dueline.commands.times import add_due_arguments, due_properties
from dueline.errors import BrokerError, InvalidRequest, OutcomeUnknown, Unavailable
from dueline.times import show_span, show_time

__all__ = ["configure", "run"]

_SHOWN_MAX = 10
_SENT_AT_ONCE = 1_000
_GROUP = "dueline_send"
_UNANSWERED: Final = (Unavailable, OutcomeUnknown)


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
    add_json_argument(parser)
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
    """Send; 1 if any was not accepted, 130 if it was interrupted."""
    if args.count < 1:
        raise InvalidRequest(f"count: expected 1 or more, found {args.count}")
    body = sys.stdin.read() if args.body == "-" else args.body
    messages = list(_messages(args, body))
    tally = _Tally(len(messages), as_json=args.json)
    try:
        with Producer(name_server(args), group=_GROUP) as producer:
            if args.level is not None:
                _check_level(producer, args.topic, args.level)
            _send(producer, messages, tally)
    except KeyboardInterrupt:
        tally.show(is_interrupted=True)
        return 130
    tally.show()
    return 0 if tally.accepted_count == len(messages) else 1


def _send(producer: Producer, messages: Sequence[Outgoing], tally: _Tally) -> None:
    """Send in parts; a part that ends without an answer is the last one."""
    for start in range(0, len(messages), _SENT_AT_ONCE):
        part = messages[start : start + _SENT_AT_ONCE]
        results = producer.send_each(part, on_result=partial(tally.note, start))
        if start == 0 and all(isinstance(result, Unavailable) for result in results):
            raise _nobody(results[0])
        tally.show_ids(results, start)
        if isinstance(results[-1], _UNANSWERED):
            return


def _check_level(producer: Producer, topic: str, level: int) -> None:
    """A broker takes a level that it does not have for its last: hardly what was meant."""
    try:
        levels = producer.levels(topic)
    except BrokerError:
        return  # then it is for the broker to say, when the message is sent
    if level > levels.level_max:
        raise InvalidRequest(
            f"level: expected 1 to {levels.level_max} (the broker has {levels}), found {level}; "
            "--delay takes any duration"
        )


class _Tally:
    """The outcomes of the messages, counted as the answers come."""

    def __init__(self, count: int, *, as_json: bool) -> None:
        self._count = count
        self._as_json = as_json
        self.accepted_count = 0
        self._refused: dict[str, tuple[int, int]] = {}
        self._unanswered: dict[int, BrokerError] = {}
        self._has_output = True

    def note(self, start: int, place: int, result: Sent | BrokerError) -> None:
        number = start + place + 1
        if not isinstance(result, BrokerError):
            self.accepted_count += 1
        elif isinstance(result, _UNANSWERED):
            self._unanswered[number] = result
        else:
            first, count = self._refused.get(result.message, (number, 0))
            self._refused[result.message] = (first, count + 1)

    def show_ids(self, results: Sequence[Sent | BrokerError], start: int) -> None:
        """Print the first few, to programs all; the reader (`| head`) may have seen enough."""
        if self._as_json:
            for number, result in enumerate(results, start + 1):
                (line,) = to_json(_plain(number, result))
                self._say(line)
            return
        now_ms = Clock().now_ms()
        for result in results[: max(_SHOWN_MAX - start, 0)]:
            if isinstance(result, Sent):
                self._say(f"{result.id}  {_due(result, now_ms)}")

    def show(self, *, is_interrupted: bool = False) -> None:
        """Say what was not accepted, each reason once, and how many were."""
        for reason, (first, count) in list(self._refused.items())[:_SHOWN_MAX]:
            what = f"message {first} refused" if count == 1 else f"{count} messages refused"
            say(f"{what}: {reason}", file=sys.stderr)
        if self._unanswered:
            # Without an answer nobody knows; what is sent again may then come twice.
            first = min(self._unanswered)
            one = f"message {first} not answered"
            many = f"{len(self._unanswered)} messages not answered, the first is number {first}"
            words = one if len(self._unanswered) == 1 else many
            say(f"{words}: {self._unanswered[first].message}", file=sys.stderr)
        total = f"{self.accepted_count} of {self._count} messages accepted"
        if is_interrupted:
            more = "; others that were under way may be there too" if self._is_open else ""
            say(f"interrupted: {total}{more}", file=sys.stderr)
        elif self._count > _SHOWN_MAX and not self._as_json:
            self._say(total)
            if not self._has_output:
                say(total, file=sys.stderr)

    @property
    def _is_open(self) -> bool:
        return self.accepted_count < self._count

    def _say(self, text: str) -> None:
        if self._has_output:
            try:
                say(text)
            except BrokenPipeError:
                self._has_output = False
                drop_output()


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


def _plain(number: int, result: Sent | BrokerError) -> dict[str, object]:
    if isinstance(result, BrokerError):
        return {"number": number, "error": result.message}
    return {
        "number": number,
        "id": result.id,
        "topic": result.topic,
        "queue_id": result.queue_id,
        "is_delayed": result.handle is not None,
        "due_ms": result.due_ms,
    }


def _due(sent: Sent, now_ms: int) -> str:
    if sent.handle is None:
        return "visible now"
    if sent.due_ms is None:
        return "delayed"
    return f"due {show_time(sent.due_ms)} (in {show_span(max(sent.due_ms - now_ms, 0))})"
