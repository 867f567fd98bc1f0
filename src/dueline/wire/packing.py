"""Bodies that a 4.x producer has compressed.

A record's flags say so: bit 0, and in bits 8 to 10 with which method: 1 LZ4, 2 Zstandard, 3 zlib.
Old clients name none, and mean zlib. Brokers keep such bodies as they came; consumers unpack them.

A small body may be made to unpack to gigabytes: unpacking stops at a bound.
"""

from __future__ import annotations

import zlib
from typing import Final

from dueline.message import SYS_COMPRESSED

__all__ = ["unpacked"]

_METHOD_SHIFT: Final = 8
_METHOD_MASK: Final = 0x7
_ARROW_METHODS: Final = {1: "lz4", 2: "zstd"}
_ZLIB_METHODS: Final = (0, 3)


def unpacked(body: bytes, sys_flag: int, size_max: int) -> bytes:
    """The body as it was before it was compressed, or as it came if it was not, if it cannot be
    unpacked, or if it would be larger than `size_max`: one bad body must not hold up its queue."""
    if not sys_flag & SYS_COMPRESSED:
        return body
    try:
        plain = _unpack(body, (sys_flag >> _METHOD_SHIFT) & _METHOD_MASK, size_max)
    except (zlib.error, OSError):
        return body
    return plain if len(plain) <= size_max else body


def _unpack(body: bytes, method: int, size_max: int) -> bytes:
    """At most one byte more than allowed."""
    if method in _ARROW_METHODS:
        return _unpack_with_arrow(body, _ARROW_METHODS[method], size_max)
    if method not in _ZLIB_METHODS:
        return body
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(body, size_max + 1)
    if len(plain) <= size_max and not unpacker.eof:
        raise zlib.error("a part")
    return plain


def _unpack_with_arrow(body: bytes, codec: str, size_max: int) -> bytes:
    # Imported here: few bodies need it, and a client should not pay for it before one comes.
    import pyarrow as pa

    try:
        stream = pa.CompressedInputStream(pa.BufferReader(body), codec)
        return bytes(stream.read(size_max + 1))
    except pa.ArrowException as error:
        raise OSError(f"body: expected {codec}, found: {error}") from error
