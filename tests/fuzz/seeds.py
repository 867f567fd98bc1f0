"""What fuzzing begins with: captured frames and what is in them, and one value of each kind."""

from __future__ import annotations

import base64
import contextlib
import gzip
import ssl
from collections.abc import Iterator
from pathlib import Path

import hpack
from tests.unit.wire.capture import ALL_FRAMES, BINARY_FRAMES, JSON_FRAMES
from tests.unit.wire.http2.peers import CALL, call, frame, setting
from tests.unit.wire.http2.test_connection import OF_THE_CONNECTION, OF_THE_STREAM

from dueline.broker.inflight.receipt import Receipt
from dueline.message import encode_properties
from dueline.server.grpc.framing import framed
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


def http2_frames() -> Iterator[bytes]:
    """Every breach of the rules, and calls that follow them."""
    for data, _ in (*OF_THE_CONNECTION.values(), *OF_THE_STREAM.values()):
        if len(data) < 1_000:
            yield b"\x05" + data
    body = framed(b"a request")
    for stream in (1, 3):
        yield b"\x10" + call(stream, flags=4) + frame(0, 0, stream, body) + frame(0, 1, stream)
    yield b"\x40" + call(1, flags=4) + frame(4, 0, 0, setting(4, 3)) + frame(0, 1, 1, body)


def header_blocks() -> Iterator[bytes]:
    encoder = hpack.Encoder()
    for is_compressed in (True, False):
        first = encoder.encode(CALL, huffman=is_compressed)
        yield bytes([len(first)]) + first + encoder.encode(CALL, huffman=is_compressed)
    yield b"\x00\x3f\xe1\x1f\x40\x01a\x01b\xbe"


def grpc_messages() -> Iterator[bytes]:
    packed = gzip.compress(b"a message of some length, of some length", mtime=0)
    for first in range(4):
        yield bytes([first]) + framed(b"a message") + framed(b"")
        yield bytes([first]) + b"\x01" + len(packed).to_bytes(4, "big") + packed
    yield b"\x01\x00\x7f\xff\xff\xff"


def authorizations() -> Iterator[bytes]:
    fields = "Credential=clerk/mq, SignedHeaders=x-mq-date-time, Signature="
    yield f"MQv2-HMAC-SHA1 {fields}{'0a' * 20}".encode()
    yield b"Bearer clerk:secret"
    yield b"Basic " + base64.b64encode(b"clerk:secret")


def signatures() -> Iterator[bytes]:
    signed = {"AccessKey": "clerk", "Signature": base64.b64encode(b"x" * 20).decode()}
    yield _encode_ext({**signed, "a": "group", "b": "orders", "i": "KEYS\x01k"})
    yield _encode_ext({**signed, "SecurityToken": "t", "_UNIQUE_KEY_QUERY": "true"})


def plain_acls() -> Iterator[bytes]:
    yield b"""globalWhiteRemoteAddresses: [10.0.0.1]
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [topicA=DENY, topicB=PUB|SUB]
  groupPerms:
  - groupA=DENY
- {accessKey: "a", secretKey: 0x10, admin: true}
"""
    yield b"accounts: [{accessKey: &a [b, b], secretKey: *a, topicPerms: [*a, *a]}]"


def subjects() -> Iterator[bytes]:
    yield b"countryName=XK\ncommonName=billing"
    yield b"commonName=billing\ncommonName=admin"
    yield b"commonName=@pipeline"


def certificates() -> Iterator[bytes]:
    for first in (b"\x00", b"\xff"):
        yield first + b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
        yield first + b"-----BEGIN X509 CRL-----\nMIIB\n-----END X509 CRL-----\n"


def first_bytes() -> Iterator[bytes]:
    """Of a frame, of HTTP, and a greeting of TLS that another library has made."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    for mode in range(3):
        for first in (ALL_FRAMES[0].frame, b"GET / HTTP/1.1\r\n\r\n", hello, hello[:7]):
            yield bytes([mode + 30]) + first
