"""Clients of HTTP/2 for tests: one that follows the rules (h2's), and frames written by hand."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import h2.config
import h2.connection
import h2.events

from dueline.wire.http2 import Data, Event, Limits, Request, ServerConnection, literal

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD = struct.Struct(">BHBBL")
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 0x20

CALL = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/service/Method"),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    size = len(payload)
    return HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, stream) + payload


def word(number: int) -> bytes:
    return struct.pack(">L", number)


def setting(number: int, value: int) -> bytes:
    return struct.pack(">HL", number, value)


def block(fields: list[tuple[str, str]] | None = None) -> bytes:
    return b"".join(literal(*each) for each in fields or CALL)


def call(stream: int = 1, *, flags: int = END_HEADERS | END_STREAM) -> bytes:
    """The headers of a request."""
    return frame(HEADERS, flags, stream, block())


def frames_of(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    at = 0
    while at < len(data):
        high, low, kind, flags, stream = HEAD.unpack_from(data, at)
        end = at + 9 + (high << 16 | low)
        yield kind, flags, stream, data[at + 9 : end]
        at = end


def greeted(limits: Limits | None = None) -> ServerConnection:
    """A connection behind its first words, of which nothing is left to send."""
    connection = ServerConnection(limits or Limits())
    assert connection.receive(PREFACE + frame(SETTINGS, 0, 0)) == []
    connection.output()
    return connection


class Rules:
    """A client that follows the rules, and a server that answers as it is told."""

    def __init__(self, answer: Callable[[bytes], bytes], *, limits: Limits | None = None) -> None:
        self.server = ServerConnection(limits or Limits())
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.client.initiate_connection()
        self.answers: dict[int, bytes] = {}
        self.trailers: dict[int, dict[bytes, bytes]] = {}
        self.resets: dict[int, int] = {}
        self._answer = answer
        self._bodies: dict[int, bytes] = {}

    def turn(self, cuts: Callable[[bytes], Iterator[bytes]] = lambda data: iter([data])) -> bool:
        """Everything that each has for the other; was there anything?"""
        out = self.client.data_to_send()
        for piece in cuts(out) if out else ():
            for event in self.server.receive(piece):
                self._on_server(event)
        assert self.server.fault is None, self.server.fault
        back = self.server.output()
        for each in self.client.receive_data(back) if back else ():
            self._on_client(each)
        return bool(out or back)

    def _on_server(self, event: Event) -> None:
        if isinstance(event, Request):
            self._bodies[event.stream_id] = b""
        if isinstance(event, Data):
            self._bodies[event.stream_id] += event.data
            self.server.credit(event.stream_id, len(event.data))
        if isinstance(event, Request | Data) and event.is_end:
            body = self._answer(self._bodies.pop(event.stream_id))
            self.server.send_headers(event.stream_id, b"\x88" + literal("content-type", "x"))
            self.server.send_data(event.stream_id, body)
            self.server.end(event.stream_id, literal("grpc-status", "0"))

    def _on_client(self, event: Any) -> None:
        match event:
            case h2.events.ResponseReceived():
                assert (b":status", b"200") in event.headers
                self.answers[event.stream_id] = b""
            case h2.events.DataReceived():
                self.answers[event.stream_id] += event.data
                self.client.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.TrailersReceived():
                self.trailers[event.stream_id] = dict(event.headers)
            case h2.events.StreamReset():
                self.resets[event.stream_id] = event.error_code
