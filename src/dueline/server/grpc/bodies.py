"""Bodies as they are meant, however they were compressed.

Producers of the two protocols compress differently, and say so in different places:

    5.x    the message's `body_encoding`: gzip
    4.x    the record's flags, see `dueline.wire.packing`

What 5.x clients send is stored unpacked, since 4.x clients know no gzip. What 4.x clients send is
stored as it came, since their consumers unpack it themselves, and unpacked here for 5.x clients.

A small body may be made to unpack to gigabytes: unpacking stops at a bound.
"""

from __future__ import annotations

import zlib
from typing import Final

from dueline.broker.values import Record
from dueline.message import SYS_COMPRESSED
from dueline.server.grpc.codes import Code, Refused
from dueline.wire.packing import unpacked

__all__ = ["UNPACKED_SIZE_MAX", "body_of", "is_heavy", "stored_body"]

UNPACKED_SIZE_MAX: Final = 16 << 20
"""A compressed body that is larger than this is handed out as it came."""

HEAVY_SIZE: Final = 64 << 10

ENCODING_UNSPECIFIED: Final = 0
ENCODING_IDENTITY: Final = 1
ENCODING_GZIP: Final = 2

_GZIP_BITS: Final = 31


def stored_body(body: bytes, encoding: int, size_max: int) -> bytes:
    """The body to store of one that a 5.x client sent.

    Raises:
        Refused: empty, too large, not as announced, or encoded in another way.
    """
    if encoding == ENCODING_GZIP and body:
        body = _gunzip(body, size_max)
    elif encoding not in (ENCODING_UNSPECIFIED, ENCODING_IDENTITY, ENCODING_GZIP):
        raise Refused(
            Code.NOT_IMPLEMENTED, f"body encoding: expected IDENTITY or GZIP, found {encoding}"
        )
    if not body:
        raise Refused(Code.MESSAGE_BODY_EMPTY, "body: expected at least one byte, found none")
    if len(body) > size_max:
        raise Refused(
            Code.MESSAGE_BODY_TOO_LARGE, f"body: expected at most {size_max} bytes, found more"
        )
    return body


def _gunzip(body: bytes, size_max: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=_GZIP_BITS)
    try:
        plain = unpacker.decompress(body, size_max + 1)
    except zlib.error as error:
        raise Refused(
            Code.MESSAGE_CORRUPTED, f"body: expected gzip as announced, found: {error}"
        ) from error
    if len(plain) <= size_max and not unpacker.eof:
        raise Refused(Code.MESSAGE_CORRUPTED, "body: expected whole gzip data, found a part")
    return plain


def body_of(record: Record, *, size_max: int = UNPACKED_SIZE_MAX) -> bytes:
    """A stored body for 5.x clients: unpacked, or as it came if it cannot be."""
    return unpacked(record.body, record.sys_flag, size_max)


def is_heavy(record: Record) -> bool:
    """Does it take long to unpack this body and to sum it up?"""
    return bool(record.sys_flag & SYS_COMPRESSED) or len(record.body) > HEAVY_SIZE
