"""What is fuzzed: every decoder that reads what a peer sent, as a function of bytes.

A target may return, and nothing else: it catches the errors that the decoder documents, and
compares where a second way to the same value exists (cut differently; written and read again).
Whatever it raises is a finding. Inputs that choose among classes do so by their first byte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import hpack
from tests.fuzz import doors, seeds

from dueline.broker.filters import filter_of
from dueline.broker.inflight.receipt import Receipt
from dueline.broker.sql92 import compile_condition
from dueline.client.values import received
from dueline.errors import (
    BrokerError,
    CorruptRecord,
    InvalidRequest,
    LimitExceeded,
    ProtocolError,
    RemoteProtocolError,
    Unauthenticated,
)
from dueline.message import decode_properties, encode_properties, parse_message_id
from dueline.recall_handle import RecallHandle
from dueline.schedule import DelayLevels, due_of
from dueline.server.grpc import guard
from dueline.server.grpc.framing import MessageReader, Unreadable
from dueline.store import record
from dueline.web.security import user_of
from dueline.wire import Command, Frame, FrameDecoder, Serialization
from dueline.wire.batch import decode_batch, encode_batch
from dueline.wire.bodies import AckEntry, Heartbeat
from dueline.wire.fastjson import dumps, loads
from dueline.wire.http2 import (
    Data,
    Event,
    Fault,
    Limits,
    Request,
    Reset,
    ServerConnection,
    frames,
    literal,
)
from dueline.wire.http2.frames import PREFACE
from dueline.wire.http2.header_block import HeaderDecoder
from dueline.wire.signature import carried_signature, content_of

__all__ = ["TARGETS", "Target"]

NOW_MS = 1_800_000_000_000
LEVELS = DelayLevels.parse("1s 5s 10s 30s 1m")
PROPERTIES: tuple[dict[str, str], ...] = (
    {},
    {"a": "1", "b": "x", "TAGS": "t"},
    {"a": "-2.5e3", "b": "NULL"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One decoder: what to call and what to begin with."""

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterable[bytes]]


def frame(data: bytes) -> None:
    """The first byte says where the stream is cut; cuts change nothing."""
    if not data:
        return
    step, stream = data[0] + 1, data[1:]
    whole = _frames([stream])
    cut = _frames([stream[at : at + step] for at in range(0, len(stream), step)])
    assert whole == cut, (whole, cut)
    for found in whole[0]:
        _command(found)


def _frames(pieces: Iterable[bytes]) -> tuple[list[Frame], str | None]:
    decoder = FrameDecoder(frame_size_bytes_max=1 << 16)
    found: list[Frame] = []
    try:
        for piece in pieces:
            found.extend(decoder.feed(piece))
            assert decoder.held_bytes <= 1 << 16
    except RemoteProtocolError as error:
        return found, error.message
    return found, None


def json_header(data: bytes) -> None:
    _command(Frame(Serialization.JSON, data, b"body"))


def binary_header(data: bytes) -> None:
    _command(Frame(Serialization.BINARY, data, b"body"))


def _command(found: Frame) -> None:
    try:
        command = Command.decode(found)
    except ProtocolError:
        return
    (again,) = FrameDecoder().feed(command.encode())
    assert Command.decode(again) == command, command


def header(data: bytes) -> None:
    """The typed header of each request code, from `name=value` lines."""
    if not data:
        return
    kind = seeds.HEADERS[data[0] % len(seeds.HEADERS)]
    ext = seeds.decode_ext(data[1:])
    try:
        found = kind.decode(ext)
    except InvalidRequest:
        return
    assert kind.decode(found.encode()) == found, found


def body(data: bytes) -> None:
    """The JSON bodies of requests and answers."""
    if not data:
        return
    kind = seeds.BODIES[data[0] % len(seeds.BODIES)]
    try:
        found = kind.decode(data[1:])
        if isinstance(found, AckEntry):
            assert len(found.places()) <= 8 * 128
    except InvalidRequest:
        return
    assert kind.decode(found.encode()) == found, found


def heartbeat(data: bytes) -> None:
    """A heartbeat and the filters of its subscriptions."""
    try:
        found = Heartbeat.decode(data)
        for consumer in found.consumer_data_set:
            for subscription in consumer.subscription_data_set:
                filter_of(subscription.sub_string, subscription.expression_type)
    except InvalidRequest:
        return
    assert Heartbeat.decode(found.encode()) == found, found


def json(data: bytes) -> None:
    """JSON as fastjson writes it, with objects as keys."""
    try:
        found = loads(data)
    except InvalidRequest:
        return
    try:
        text = dumps(found)
    except ProtocolError:
        return  # such as half a character: can be read, is never written
    assert loads(text) == found, found


def batch(data: bytes) -> None:
    try:
        found = decode_batch(data)
    except InvalidRequest:
        return
    assert decode_batch(encode_batch(found)) == found, found


def properties(data: bytes) -> None:
    """The properties of a message, and when they say that it is due."""
    found = decode_properties(data)
    try:
        assert decode_properties(encode_properties(found)) == found, found
        due = due_of(found, now_ms=NOW_MS, levels=LEVELS, delay_max_ms=1 << 40)
    except (InvalidRequest, LimitExceeded):
        return
    assert due is None or due.due_ms > NOW_MS, due


def sql92(data: bytes) -> None:
    try:
        matches = compile_condition(data.decode("utf-8", "replace")).matches
    except InvalidRequest:
        return
    for each in PROPERTIES:
        assert matches(each) in (True, False)


def receipt(data: bytes) -> None:
    """What clients show again: receipts of POP, recall handles, offset ids."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        found = Receipt.decode(text)
        assert Receipt.decode(found.encode()) == found, found
    except InvalidRequest:
        pass
    with contextlib.suppress(BrokerError):
        RecallHandle.decode(text)
    try:
        host, position = parse_message_id(text)
        assert (host + position.to_bytes(8, "big")).hex() == text.lower()
    except InvalidRequest:
        pass


def records(data: bytes) -> None:
    """A record of the commit log, as the store and the client read it."""
    try:
        found = record.decode(data)
        message = received(found)
    except (CorruptRecord, InvalidRequest):
        return
    assert len(message.body) <= 64 << 20


def http2(data: bytes) -> None:
    """A connection behind its first words; the first byte says where it is cut. That changes
    nothing, as long as nobody answers; and calls can be answered at any moment."""
    if not data:
        return
    step, stream = data[0] + 1, data[1:]
    pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
    whole, cut = _heard([stream]), _heard(pieces)
    assert whole == cut, (whole, cut)
    _heard(pieces, answer=_answer)


def _heard(
    pieces: Iterable[bytes],
    answer: Callable[[ServerConnection, Event], None] = lambda connection, event: None,
) -> tuple[list[Event], str | None]:
    connection = ServerConnection(Limits(stream_count_max=5))
    connection.receive(PREFACE + frames.settings([]))
    found: list[Event] = []
    for piece in pieces:
        events = connection.receive(piece)
        found += events
        for event in events:
            answer(connection, event)
        assert len(connection._streams) <= 5
        connection.output()
    return found, str(connection.fault) if connection.fault is not None else None


def _answer(connection: ServerConnection, event: Event) -> None:
    """With what came."""
    if isinstance(event, Request):
        assert event.headers is None or dict(event.headers)[":path"]
        connection.send_headers(event.stream_id, b"\x88")
    elif isinstance(event, Data):
        connection.send_data(event.stream_id, event.data)
        connection.credit(event.stream_id, len(event.data))
    if not isinstance(event, Reset) and event.is_end:
        connection.end(event.stream_id, literal("grpc-status", "0"))


def header_block(data: bytes) -> None:
    """Two blocks one after the other, against another's decoder; the first byte is the cut."""
    if not data:
        return
    blocks = data[1 : 1 + data[0]], data[1 + data[0] :]
    ours = HeaderDecoder(list_size_max=1 << 20)
    theirs = hpack.Decoder(max_header_list_size=1 << 20)
    for block in blocks:
        try:
            found = ours.decode(block)
        except Fault:
            return
        if found is None:
            return
        expected = theirs.decode(block, raw=True)
        shown = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in found]
        assert shown == list(map(tuple, expected)), (found, expected)


def grpc_message(data: bytes) -> None:
    """The first byte says how it is compressed, and where it is cut."""
    if not data:
        return
    encoding = ("identity", "gzip", "deflate", "zstd")[data[0] % 4]
    step, stream = data[0] + 1, data[1:]
    whole = _messages(encoding, [stream])
    cut = _messages(encoding, [stream[at : at + step] for at in range(0, len(stream), step)])
    assert whole == cut, (whole, cut)


def _messages(encoding: str, pieces: Iterable[bytes]) -> tuple[list[bytes], str | None]:
    reader, found = MessageReader(size_max=1 << 16, encoding=encoding), list[bytes]()
    try:
        for piece in pieces:
            messages = reader.feed(piece)
            assert all(len(each) <= 1 << 16 for each in messages)
            assert reader.buffered_bytes <= (1 << 16) + 5
            found += messages
    except Unreadable as error:
        return [], error.message
    return found, None


def authorization(data: bytes) -> None:
    """Who a header says that it is, at the 5.x port and at the HTTP port."""
    text = data.decode("utf-8", "surrogateescape")
    with contextlib.suppress(Unauthenticated):
        name, digest = guard._signature(text)
        assert name
        assert digest
    with contextlib.suppress(Unauthenticated):
        user_of(text)


def signature(data: bytes) -> None:
    """What a 4.x request has signed: its own signature changes nothing of it."""
    ext = seeds.decode_ext(data)
    for version in (0, 500):
        content = content_of(Command(code=310, opaque=1, ext=ext, body=b"body", version=version))
        other = {**ext, "Signature": "x"}
        changed = Command(code=310, opaque=1, ext=other, body=b"body", version=version)
        assert content_of(changed) == content
        assert content.endswith(b"body")
    assert len(carried_signature(ext)) <= len(ext.get("Signature", "").encode("utf-8", "replace"))


TARGETS = {
    each.name: each
    for each in (
        Target(name="frame", run=frame, seeds=seeds.frames),
        Target(name="json_header", run=json_header, seeds=seeds.json_headers),
        Target(name="binary_header", run=binary_header, seeds=seeds.binary_headers),
        Target(name="header", run=header, seeds=seeds.typed_headers),
        Target(name="body", run=body, seeds=seeds.typed_bodies),
        Target(name="heartbeat", run=heartbeat, seeds=seeds.heartbeats),
        Target(name="json", run=json, seeds=seeds.json_bodies),
        Target(name="batch", run=batch, seeds=seeds.batches),
        Target(name="properties", run=properties, seeds=seeds.properties),
        Target(name="sql92", run=sql92, seeds=seeds.conditions),
        Target(name="receipt", run=receipt, seeds=seeds.receipts),
        Target(name="record", run=records, seeds=seeds.records),
        Target(name="http2", run=http2, seeds=seeds.http2_frames),
        Target(name="authorization", run=authorization, seeds=seeds.authorizations),
        Target(name="signature", run=signature, seeds=seeds.signatures),
        Target(name="header_block", run=header_block, seeds=seeds.header_blocks),
        Target(name="grpc_message", run=grpc_message, seeds=seeds.grpc_messages),
        Target(name="plain_acl", run=doors.plain_acl, seeds=seeds.plain_acls),
        Target(name="subject", run=doors.subject, seeds=seeds.subjects),
        Target(name="certificate", run=doors.certificate, seeds=seeds.certificates),
        Target(name="entrance", run=doors.entrance, seeds=seeds.first_bytes),
    )
}
