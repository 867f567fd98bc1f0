"""The requests that are measured, as bytes: 200-byte bodies, each message with its own id."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from dueline.credentials import Credentials
from dueline.message import encode_properties
from dueline.wire import Command, RequestCode
from dueline.wire.batch import BatchMessage, encode_batch
from dueline.wire.headers import PullRequest, SendRequest
from dueline.wire.signature import signed

__all__ = ["LEVELS", "ROWS", "USER", "Row", "frames"]

LEVELS: Final = "1s 5s 1h"
"""Level 3 is far away: what is measured is accepting, and nobody delivers in between."""

TOPIC: Final = "bench"
BODY: Final = b"x" * 200
FRAME_COUNT: Final = 256
BATCH_COUNT: Final = 64
PULL_COUNT: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    name: str
    kind: str
    connections: int
    in_flight: int = 1
    messages_each: int = 1


ROWS: Final = (
    Row(name="send, 1 connection", kind="send", connections=1),
    Row(name="send, 8 connections", kind="send", connections=8),
    Row(name="send, 64 connections", kind="send", connections=64),
    Row(name="send, 256 in flight on one", kind="send", connections=1, in_flight=256),
    Row(name="delayed, 64 connections", kind="delayed", connections=64),
    Row(name="delayed, 256 in flight on one", kind="delayed", connections=1, in_flight=256),
    Row(
        name=f"batches of {BATCH_COUNT}, 8 connections",
        kind="batch",
        connections=8,
        messages_each=BATCH_COUNT,
    ),
    Row(
        name=f"pulls of {PULL_COUNT}, 8 connections",
        kind="pull",
        connections=8,
        messages_each=PULL_COUNT,
    ),
)


USER: Final = Credentials(name="bench", secret="a secret of bench")
"""Who sends where access control is on."""


@cache
def frames(kind: str, *, is_signed: bool = False) -> list[bytes]:
    """Requests of one kind, all different."""
    make = {"send": _send, "delayed": _delayed, "batch": _batch, "pull": _pull}[kind]
    made = [make(number) for number in range(FRAME_COUNT)]
    if is_signed:
        made = [replace(each, ext=signed(each.ext, each.body, USER)) for each in made]
    return [each.encode() for each in made]


def _properties(number: int) -> dict[str, str]:
    return {"KEYS": f"order-{number}", "UNIQ_KEY": f"7F00000113E05FFD2B274C33A79D{number:04X}"}


def _header(number: int, properties: dict[str, str], *, is_batch: bool = False) -> dict[str, str]:
    return SendRequest(
        producer_group="bench",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=number % 4,
        sys_flag=0,
        born_timestamp=1_700_000_000_000 + number,
        flag=0,
        properties=encode_properties(properties).decode(),
        reconsume_times=0,
        unit_mode=False,
        batch=is_batch,
    ).encode_short()


def _send(number: int) -> Command:
    ext = _header(number, _properties(number))
    return Command(code=RequestCode.SEND_MESSAGE_V2, opaque=number, ext=ext, body=BODY)


def _delayed(number: int) -> Command:
    ext = _header(number, {**_properties(number), "DELAY": "3"})
    return Command(code=RequestCode.SEND_MESSAGE_V2, opaque=number, ext=ext, body=BODY)


def _batch(number: int) -> Command:
    body = encode_batch(
        [
            BatchMessage(body=BODY, properties=encode_properties(_properties(number + each)))
            for each in range(BATCH_COUNT)
        ]
    )
    ext = _header(number, {}, is_batch=True)
    return Command(code=RequestCode.SEND_BATCH_MESSAGE, opaque=number, ext=ext, body=body)


def _pull(number: int) -> Command:
    header = PullRequest(
        consumer_group="bench",
        topic=TOPIC,
        queue_id=number % 4,
        queue_offset=number // 4 * PULL_COUNT % 512,
        max_msg_nums=PULL_COUNT,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
        expression_type="TAG",
    )
    return Command(code=RequestCode.PULL_MESSAGE, opaque=number, ext=header.encode())
