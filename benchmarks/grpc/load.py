"""Callers of the 5.x protocol that cost next to nothing: requests are written as finished frames.

gRPC for Python needs more processor time for a call than the broker does, so it would measure
itself. Here a call is two frames, headers that never change and data, and an answer is looked at
only as far as it must be: is it complete, and which messages does it hold? Windows are opened once,
as far as they go.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Callable
from typing import Any, Final

from dueline.server.grpc.schema import SERVICE
from dueline.wire.http2 import literal

__all__ = ["Connection", "connect"]

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD: Final = struct.Struct(">BHBBL")
FRAME_MAX: Final = 16_384
WINDOW_MAX: Final = (1 << 31) - 1
DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4

Next = Callable[[], tuple[str, bytes] | None]
"""The next call: its method and its request; None: no more."""
Done = Callable[[str, list[bytes]], None]
"""A call's method and the messages of its answer."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return HEAD.pack(len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def block(method: str) -> bytes:
    """The headers of a call, as they are."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": f"/{SERVICE}/{method}",
        ":authority": "127.0.0.1",
        "te": "trailers",
        "grpc-timeout": "30S",
        "content-type": "application/grpc",
        "user-agent": "grpc-python-asyncio/1.85.1",
        "grpc-accept-encoding": "identity, deflate, gzip",
        "x-mq-client-id": "bench",
        "x-mq-language": "PYTHON",
        "x-mq-protocol": "v2",
    }
    return b"".join(literal(*each) for each in fields.items())


class Connection(asyncio.Protocol):
    """One connection with so many calls at a time."""

    def __init__(self) -> None:
        self.transport: Any = None
        self._buffer = b""
        self._stream = 1
        self._open: dict[int, tuple[str, list[bytes]]] = {}
        self._blocks: dict[str, bytes] = {}
        self._next: Next = lambda: None
        self._done: Done = lambda method, messages: None
        self._idle: asyncio.Future[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        settings = struct.pack(">HL", 4, WINDOW_MAX)
        widest = struct.pack(">L", WINDOW_MAX - 65_535)
        transport.write(
            PREFACE + frame(SETTINGS, 0, 0, settings) + frame(WINDOW_UPDATE, 0, 0, widest)
        )

    async def run(self, count: int, next_call: Next, done: Done) -> None:
        """Keep so many calls under way until there is no next one."""
        self._next, self._done = next_call, done
        self._idle = asyncio.get_running_loop().create_future()
        self.transport.write(b"".join(self._call() for _ in range(count)))
        if self._open:
            await self._idle

    def tell(self, method: str, message: bytes) -> None:
        """Open a stream and say something on it; what is answered does not matter."""
        stream, self._stream = self._stream, self._stream + 2
        self.transport.write(
            frame(HEADERS, END_HEADERS, stream, block(method))
            + frame(DATA, 0, stream, struct.pack(">BL", 0, len(message)) + message)
        )

    def _call(self) -> bytes:
        asked = self._next()
        if asked is None:
            return b""
        method, request = asked
        stream, self._stream = self._stream, self._stream + 2
        self._open[stream] = (method, [])
        head = self._blocks.get(method) or self._blocks.setdefault(method, block(method))
        data = struct.pack(">BL", 0, len(request)) + request
        parts = [data[at : at + FRAME_MAX] for at in range(0, len(data), FRAME_MAX)]
        last = len(parts) - 1
        return frame(HEADERS, END_HEADERS, stream, head) + b"".join(
            frame(DATA, END_STREAM if number == last else 0, stream, part)
            for number, part in enumerate(parts)
        )

    def data_received(self, data: bytes) -> None:
        data = self._buffer + data
        at, out = 0, []
        while len(data) - at >= 9:
            high, low, kind, flags, stream = HEAD.unpack_from(data, at)
            end = at + 9 + (high << 16 | low)
            if end > len(data):
                break
            if stream and stream not in self._open:
                at = end
                continue
            if kind == DATA:
                self._open[stream][1].append(data[at + 9 : end])
            elif kind == HEADERS and flags & END_STREAM:
                method, parts = self._open.pop(stream)
                self._done(method, messages_of(b"".join(parts)))
                out.append(self._call())
            elif kind in (SETTINGS, PING) and not flags & ACK:
                out.append(frame(kind, ACK, 0, data[at + 9 : end] if kind == PING else b""))
            elif kind in (RESET, GOAWAY):
                raise RuntimeError(f"the broker gave up: {data[at:end]!r}")
            at = end
        self._buffer = data[at:]
        if out:
            self.transport.write(b"".join(out))
        if not self._open and self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_exception(error or ConnectionError("the broker closed"))


def messages_of(data: bytes) -> list[bytes]:
    """The gRPC messages within an answer's data."""
    found, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from(">L", data, at + 1)
        found.append(data[at + 5 : at + 5 + size])
        at += 5 + size
    return found


async def connect(port: int, *, is_tls: bool) -> Connection:
    context = None
    if is_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(Connection, "127.0.0.1", port, ssl=context)
    return connection
