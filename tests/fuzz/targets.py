"""What is fuzzed: every decoder that reads what a peer sent, as a function of bytes.

A target may return, and nothing else: it catches the errors that the decoder documents, and
compares where a second way to the same value exists (cut differently; written and read again).
Whatever it raises is a finding. Inputs that choose among classes do so by their first byte.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.fuzz import seeds

from dueline.broker.filters import filter_of
from dueline.broker.inflight.receipt import Receipt
from dueline.broker.recall_handle import RecallHandle
from dueline.broker.sql92 import compile_condition
from dueline.client.values import received
from dueline.errors import (
    BrokerError,
    CorruptRecord,
    InvalidRequest,
    LimitExceeded,
    ProtocolError,
    RemoteProtocolError,
)
from dueline.message import decode_properties, encode_properties, parse_message_id
from dueline.schedule import DelayLevels, due_of
from dueline.store import record
from dueline.wire import Command, Frame, FrameDecoder, Serialization
from dueline.wire.batch import decode_batch, encode_batch
from dueline.wire.bodies import AckEntry, Heartbeat
from dueline.wire.fastjson import dumps, loads

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
    )
}
