"""What fuzzing begins with: captured frames and what is in them, and one value of each kind."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

from tests.unit.wire.capture import ALL_FRAMES, BINARY_FRAMES, JSON_FRAMES

from dueline.broker.inflight.receipt import Receipt
from dueline.message import encode_properties
from dueline.wire import Command, Frame, Serialization, admin_bodies, admin_headers, bodies, headers
from dueline.wire.batch import BatchMessage, encode_batch
from dueline.wire.body import Body
from dueline.wire.header import Header

HEADERS: list[type[Header]] = [
    getattr(module, name) for module in (headers, admin_headers) for name in module.__all__
]
BODIES: list[type[Body]] = [
    getattr(module, name) for module in (bodies, admin_bodies) for name in module.__all__
]
_ROCKETMQ_STORE = Path(__file__).parents[1] / "data" / "store-4.9.8"
_VALUES = ("0", "-1", "true", "x", "9223372036854775807", "")


def decode_ext(data: bytes) -> dict[str, str]:
    """`name=value` lines; bytes that are no text become characters that are none."""
    found = {}
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        name, equals, value = line.partition("=")
        if equals:
            found[name] = value
    return found


def _encode_ext(ext: dict[str, str]) -> bytes:
    return "\n".join(f"{name}={value}" for name, value in ext.items()).encode()


def frames() -> Iterator[bytes]:
    for each in ALL_FRAMES:
        yield b"\x07" + each.frame
    yield b"\x00" + ALL_FRAMES[0].frame + ALL_FRAMES[-1].frame


def json_headers() -> Iterator[bytes]:
    yield from (each.header for each in JSON_FRAMES)


def binary_headers() -> Iterator[bytes]:
    yield from (each.header for each in BINARY_FRAMES)


def typed_headers() -> Iterator[bytes]:
    """Captured fields under each class that has most of their names, and each class's own names."""
    captured = [
        dict(Command.decode(Frame(Serialization(each.serialization), each.header, each.body)).ext)
        for each in ALL_FRAMES
    ]
    for number, kind in enumerate(HEADERS):
        names = {field.wire_name for field in (*kind._fields, *kind._short_fields)}
        for value in _VALUES:
            yield bytes([number]) + _encode_ext(dict.fromkeys(sorted(names), value))
        for ext in captured:
            if ext and names >= ext.keys():
                yield bytes([number]) + _encode_ext(ext)


def json_bodies() -> Iterator[bytes]:
    yield from (each.body for each in ALL_FRAMES if each.body[:1] in (b"{", b"["))
    yield b'{"offsetTable":{{"topic":"t","queueId":0}:{"offset":1}}}'
    yield b'{"a":[1,-2.5e3,true,null,"\\u00e9"]}'


def typed_bodies() -> Iterator[bytes]:
    for number, _ in enumerate(BODIES):
        yield bytes([number]) + b"{}"
        for data in json_bodies():
            yield bytes([number]) + data
    ack = b'{"c":"g","t":"t","r":"0","so":7,"q":0,"rq":1,"pt":2,"it":3,"b":"BQ=="}'
    yield bytes([BODIES.index(bodies.AckEntry)]) + ack
    yield bytes([BODIES.index(bodies.AckEntry)]) + ack.replace(b'"BQ=="', b"[5,-128]")


def heartbeats() -> Iterator[bytes]:
    yield from (data for data in json_bodies() if b"consumerDataSet" in data)
    yield (
        b'{"clientID":"c","consumerDataSet":[{"groupName":"g","subscriptionDataSet":[{"topic":"t",'
        b'"subString":"a > 1","expressionType":"SQL92"},{"topic":"u","subString":"a || b"}]}]}'
    )


def batches() -> Iterator[bytes]:
    for count in (1, 3):
        yield encode_batch(
            BatchMessage(body=b"b%d" % number, properties=encode_properties({"KEYS": "k"}))
            for number in range(count)
        )


def properties() -> Iterator[bytes]:
    yield encode_properties({"KEYS": "k1 k2", "TAGS": "t", "UNIQ_KEY": "7F00000101F0"})
    for name in ("DELAY", "TIMER_DELAY_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS"):
        yield encode_properties({name: "3"})
        yield encode_properties({name: "1800000001000"})


def conditions() -> Iterator[bytes]:
    yield b"(a = 'x' OR b IS NULL) AND a BETWEEN 10 AND 99.5 AND NOT (b IN ('a', 'it''s'))"
    yield b"a CONTAINS 'x' AND b NOT STARTSWITH 'y' OR c ENDSWITH 'z' AND TRUE <> FALSE"
    yield b"a >= -1e3 and b <= .5 or NOT c != 9223372036854775807L"
    yield b"((((a is not null))))"


def receipts() -> Iterator[bytes]:
    yield Receipt(epoch=1, lane=2, offset=3, serial=4).encode().encode()
    yield base64.urlsafe_b64encode(b"v1 topic broker-a 1800000001000 7F00000101F0")
    yield b"7F00000100002A9F0000000000000063"
    yield b"0 1794770000000 60000 5 0 broker-a 0 17"


def records() -> Iterator[bytes]:
    """The first records of a commit log that Apache's broker has written."""
    for path in sorted((_ROCKETMQ_STORE / "store" / "commitlog").iterdir()):
        data = path.read_bytes()
        position = 0
        for _ in range(40):
            size = int.from_bytes(data[position : position + 4], "big")
            if not 0 < size <= len(data) - position:
                break
            yield data[position : position + size]
            position += size
