"""Messages within a call's data: a flag, a length, and so many bytes.

    +----------------+----------------+--------------+
    | compressed (8) | length (32)    | message …    |
    +----------------+----------------+--------------+

Data comes in pieces that have nothing to do with messages. A message has a bound, also when it is
unpacked: a small one may be made to unpack to gigabytes.
"""

from __future__ import annotations

import enum
import struct
import zlib
from typing import Final

from dueline.errors import RemoteProtocolError

__all__ = ["GrpcStatus", "MessageReader", "Unreadable", "framed"]

HEAD: Final = struct.Struct(">BL")
assert HEAD.size == 5
_WINDOW_BITS: Final = {"gzip": 31, "deflate": 15}


class GrpcStatus(enum.IntEnum):
    """How a call ended, for gRPC itself; errors of the protocol above are answers."""

    OK = 0
    CANCELLED = 1
    DEADLINE_EXCEEDED = 4
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class Unreadable(RemoteProtocolError):
    """What came is no message; the call ends with a status of gRPC's own."""

    def __init__(self, message: str, *, status: GrpcStatus = GrpcStatus.INTERNAL) -> None:
        super().__init__(message, status=status)


def framed(message: bytes) -> bytes:
    """A message as it is sent: never compressed.

    >>> framed(b"abc")
    b'\\x00\\x00\\x00\\x00\\x03abc'
    """
    return HEAD.pack(0, len(message)) + message


class MessageReader:
    """The messages of one call."""

    __slots__ = ("_buffer", "_encoding", "_size_max")

    def __init__(self, *, size_max: int, encoding: str) -> None:
        """Begin.

        Args:
            encoding: how compressed ones are, as the call's metadata say.
        """
        self._size_max = size_max
        self._encoding = encoding
        self._buffer = bytearray()

    @property
    def buffered_bytes(self) -> int:
        """Of a message that is not whole yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """The messages that are whole now.

        Raises:
            Unreadable: one is too large, or compressed in a way that we do not know.
        """
        if not self._buffer and len(data) >= HEAD.size:  # nearly always: one message, all of it
            flag, size = HEAD.unpack_from(data)
            if not flag and size == len(data) - HEAD.size and size <= self._size_max:
                return [data[HEAD.size :]]
        self._buffer += data
        found = []
        while (message := self._next()) is not None:
            found.append(message)
        return found

    def _next(self) -> bytes | None:
        buffer = self._buffer
        if len(buffer) < HEAD.size:
            return None
        flag, size = HEAD.unpack_from(buffer)
        if size > self._size_max:
            raise Unreadable(
                f"message: expected at most {self._size_max} bytes, found {size}",
                status=GrpcStatus.RESOURCE_EXHAUSTED,
            )
        end = HEAD.size + size
        if len(buffer) < end:
            return None
        message = bytes(memoryview(buffer)[HEAD.size : end])
        del buffer[:end]
        if flag > 1:
            raise Unreadable(f"message: expected a flag 0 or 1, found {flag}")
        return self._unpacked(message) if flag else message

    def _unpacked(self, message: bytes) -> bytes:
        bits = _WINDOW_BITS.get(self._encoding)
        if bits is None:
            raise Unreadable(
                f"grpc-encoding: expected gzip, deflate or identity, found {self._encoding[:80]!r}",
                status=GrpcStatus.UNIMPLEMENTED,
            )
        unpacker = zlib.decompressobj(wbits=bits)
        try:
            plain = unpacker.decompress(message, self._size_max + 1)
        except zlib.error as error:
            raise Unreadable(f"message: expected {self._encoding}, found: {error}") from error
        if len(plain) > self._size_max:
            raise Unreadable(
                f"message: expected at most {self._size_max} bytes, found more, unpacked",
                status=GrpcStatus.RESOURCE_EXHAUSTED,
            )
        if not unpacker.eof:
            raise Unreadable(f"message: expected whole {self._encoding} data, found a part")
        return plain
