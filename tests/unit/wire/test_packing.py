"""Compressed bodies: every method, damage, and bombs."""

import zlib

import pyarrow as pa
import pytest

from dueline.wire.packing import unpacked

PLAIN = b"an order, " * 500
LZ4, ZSTD, ZLIB, OLD_ZLIB = 0x101, 0x201, 0x301, 0x001


def packed(name: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, name) as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def pack(data: bytes, sys_flag: int) -> bytes:
    return (
        packed({LZ4: "lz4", ZSTD: "zstd"}[sys_flag], data)
        if sys_flag in (LZ4, ZSTD)
        else (zlib.compress(data))
    )


@pytest.mark.parametrize("sys_flag", [LZ4, ZSTD, ZLIB, OLD_ZLIB])
def test_each_method_is_unpacked(sys_flag: int) -> None:
    body = pack(PLAIN, sys_flag)
    assert body != PLAIN

    assert unpacked(body, sys_flag, 1 << 20) == PLAIN


def test_what_is_not_compressed_stays_as_it_is() -> None:
    assert unpacked(zlib.compress(PLAIN), 0x300, 1 << 20) == zlib.compress(PLAIN)


@pytest.mark.parametrize("sys_flag", [LZ4, ZSTD, ZLIB, OLD_ZLIB, 0x401, 0x701])
@pytest.mark.parametrize("body", [b"not compressed", zlib.compress(PLAIN)[:-9]])
def test_what_cannot_be_unpacked_comes_as_it_is(body: bytes, sys_flag: int) -> None:
    assert unpacked(body, sys_flag, 1 << 20) == body


@pytest.mark.parametrize("sys_flag", [LZ4, ZSTD, ZLIB])
def test_size_has_a_bound(sys_flag: int) -> None:
    body = pack(bytes(100_001), sys_flag)

    assert unpacked(body, sys_flag, 100_000) == body
    assert unpacked(body, sys_flag, 100_001) == bytes(100_001)
