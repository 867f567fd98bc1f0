"""Frames: how the remoting protocol cuts a stream of bytes into commands.

     0        4        8                8 + header          4 + length
    ┌────────┬────────┬────────────────┬────────────────────┐
    │ length │ s│size │ header         │ body               │
    └────────┴────────┴────────────────┴────────────────────┘

`length` counts everything after itself. The top byte of the second word says how the header is
written (`Serialization`), its low 24 bits how long the header is. All integers are big-endian.

`FrameDecoder` takes bytes as they come, in pieces of any size, and gives the frames that are
complete; the same stream gives the same frames and the same error however it is cut. Half a frame
is kept until the rest comes, and no more than that: at most one frame of the allowed size, and the
last piece. A header of more than `READ_HEADER_SIZE_BYTES_MAX` is a violation. After a violation the
stream has no next boundary to look for, so the decoder stays broken and the connection has to be
closed.

Not promised: that the header inside a frame can be read (`dueline.wire.command`). A decoder
belongs to one connection and is not safe to use from two threads.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct
from typing import Final, NamedTuple

from dueline.errors import LocalProtocolError, RemoteProtocolError
from dueline.wire.codes import Serialization

__all__ = ["FRAME_SIZE_BYTES_MAX", "Frame", "FrameDecoder", "frame_prefix"]

FRAME_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
HEADER_SIZE_BYTES_MAX: Final = 0xFFFFFF
"""That a frame can say."""
READ_HEADER_SIZE_BYTES_MAX: Final = 256 * 1024
"""That is read: properties of 32 KiB fit, however they are escaped, and it takes some ms."""
LENGTH_SIZE_BYTES: Final = 4
PREFIX_SIZE_BYTES: Final = 8

_PREFIX: Final = Struct(">II")
_SERIALIZATIONS: Final = tuple(Serialization)

# What other protocols send first, read as a length: a person who dialled the wrong port is told so.
_FOREIGN_STARTS: Final = {
    b"\x16\x03": "a TLS handshake",
    b"GE": "an HTTP request",
    b"PO": "an HTTP request",
    b"PR": "an HTTP/2 or PROXY preamble",
}


class Frame(NamedTuple):
    """One frame, cut but not yet understood."""

    serialization: Serialization
    header: bytes
    body: bytes


def frame_prefix(header_size: int, body_size: int, serialization: Serialization) -> bytes:
    """What stands before a header of this size.

    Raises:
        LocalProtocolError: the frame would be too large.
    """
    length = LENGTH_SIZE_BYTES + header_size + body_size
    if length > FRAME_SIZE_BYTES_MAX - LENGTH_SIZE_BYTES or header_size > HEADER_SIZE_BYTES_MAX:
        raise LocalProtocolError(
            f"frame: expected at most {FRAME_SIZE_BYTES_MAX} bytes and a header of at most "
            f"{HEADER_SIZE_BYTES_MAX}, found {length + LENGTH_SIZE_BYTES} and {header_size}",
            field="length",
            limit=FRAME_SIZE_BYTES_MAX,
            found=length + LENGTH_SIZE_BYTES,
        )
    return _PREFIX.pack(length, serialization << 24 | header_size)


class FrameDecoder:
    """Cuts one connection's bytes into frames.

    >>> decoder = FrameDecoder()
    >>> stream = bytes.fromhex("00000008 00000002") + b"{}" + b"hi"
    >>> list(decoder.feed(stream[:5]))
    []
    >>> list(decoder.feed(stream[5:]))
    [Frame(serialization=<Serialization.JSON: 0>, header=b'{}', body=b'hi')]
    """

    __slots__ = ("_error", "_held", "_needed_bytes", "frame_size_bytes_max")

    def __init__(self, *, frame_size_bytes_max: int = FRAME_SIZE_BYTES_MAX) -> None:
        self.frame_size_bytes_max: Final = frame_size_bytes_max
        self._held = bytearray()
        self._needed_bytes = PREFIX_SIZE_BYTES
        self._error: RemoteProtocolError | None = None

    @property
    def held_bytes(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._held)

    def feed(self, data: bytes | bytearray | memoryview) -> Generator[Frame, None, None]:
        """Take what has arrived and give the frames that it completes.

        The frames before a violation are given first, then the violation is raised. Finish
        iterating before the next call, or close it: what was not given comes with the next call.

        Raises:
            RemoteProtocolError: the bytes are no frames; `field`, `limit` and `found` say why.
        """
        return self._frames(self.gather(data))

    def gather(self, data: bytes | bytearray | memoryview) -> bytes:
        """All that has come and was not given; nothing, and it is kept, if that is no frame yet.

        Raises:
            RemoteProtocolError: as `feed`, if it was raised before.
        """
        if self._error is not None:
            raise self._error
        if not self._held and type(data) is bytes:
            return data
        self._held += data
        if len(self._held) < self._needed_bytes:
            return b""
        # Nothing is copied before a frame is complete: a large one that comes in many pieces costs
        # as much as one that comes in one piece.
        whole = bytes(self._held)
        self._held.clear()
        return whole

    def keep(self, data: bytes) -> None:
        """Take what has arrived, for the next call of `feed`."""
        self._held += data

    def _frames(self, data: bytes) -> Generator[Frame, None, None]:
        # Frames are cut from immutable bytes, so that headers and bodies are one copy each.
        if not data:
            return
        self._needed_bytes = PREFIX_SIZE_BYTES
        position = 0
        try:
            while len(data) - position >= PREFIX_SIZE_BYTES:
                length, word = _PREFIX.unpack_from(data, position)
                if (
                    length > self.frame_size_bytes_max - LENGTH_SIZE_BYTES
                    or length < LENGTH_SIZE_BYTES + (word & HEADER_SIZE_BYTES_MAX)
                    or word & HEADER_SIZE_BYTES_MAX > READ_HEADER_SIZE_BYTES_MAX
                    or word >> 24 >= len(_SERIALIZATIONS)
                ):
                    self._error = self._violation(data, position, length, word)
                    raise self._error
                end = position + LENGTH_SIZE_BYTES + length
                if end > len(data):
                    self._needed_bytes = end - position
                    break
                start = position + PREFIX_SIZE_BYTES
                body_start = start + (word & HEADER_SIZE_BYTES_MAX)
                position = end
                yield Frame(
                    _SERIALIZATIONS[word >> 24], data[start:body_start], data[body_start:end]
                )
        finally:
            # Also when the caller stops early: what was given is gone, the rest is still here.
            self._held += data[position:]

    def _violation(self, data: bytes, position: int, length: int, word: int) -> RemoteProtocolError:
        """The error for a prefix that cannot begin a frame."""
        length_max = self.frame_size_bytes_max - LENGTH_SIZE_BYTES
        if length > length_max:
            foreign = _FOREIGN_STARTS.get(data[position : position + 2])
            hint = f"; this looks like {foreign} on the wrong port" if foreign else ""
            return RemoteProtocolError(
                f"frame length: expected at most {length_max}, found {length}{hint}",
                field="length",
                limit=length_max,
                found=length,
            )
        if length < LENGTH_SIZE_BYTES:
            return RemoteProtocolError(
                f"frame length: expected at least {LENGTH_SIZE_BYTES}, found {length}",
                field="length",
                limit=LENGTH_SIZE_BYTES,
                found=length,
            )
        if word >> 24 >= len(_SERIALIZATIONS):
            return RemoteProtocolError(
                f"header serialization: expected 0 (JSON) or 1 (binary), found {word >> 24}",
                field="serialization",
                found=word >> 24,
            )
        header_size = word & HEADER_SIZE_BYTES_MAX
        limit = min(length - LENGTH_SIZE_BYTES, READ_HEADER_SIZE_BYTES_MAX)
        return RemoteProtocolError(
            f"header length: expected at most {limit} and the rest of its frame, "
            f"found {header_size}",
            field="header_length",
            limit=limit,
            found=header_size,
        )
