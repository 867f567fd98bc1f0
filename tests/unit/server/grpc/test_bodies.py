"""Bodies that producers of either protocol have compressed."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace

import pyarrow as pa
import pytest

from dueline.message import HOST_UNKNOWN
from dueline.server.grpc import bodies
from dueline.server.grpc.bodies import body_of, stored_body
from dueline.server.grpc.codes import Refused
from dueline.store import Record

PLAIN = b"the order is not paid yet; " * 400
COMPRESSED = 0x1
LZ4, ZSTD, ZLIB = 0x101, 0x201, 0x301
IDENTITY, GZIP = 1, 2


def record(body: bytes, sys_flag: int) -> Record:
    return Record(
        topic=b"t",
        body=body,
        queue_id=0,
        queue_offset=0,
        position=0,
        flag=0,
        sys_flag=sys_flag,
        born_ms=0,
        born_host=HOST_UNKNOWN,
        store_ms=0,
        store_host=HOST_UNKNOWN,
        reconsume_times=0,
        mark=0,
        properties=b"",
    )


def arrow(method: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, method) as stream:
        stream.write(data)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("body", "sys_flag"),
    [
        (PLAIN, 0),
        (zlib.compress(PLAIN), COMPRESSED),
        (zlib.compress(PLAIN), ZLIB),
        (arrow("lz4", PLAIN), LZ4),
        (arrow("zstd", PLAIN), ZSTD),
    ],
)
def test_5x_client_gets_the_body_that_a_4x_producer_meant(body: bytes, sys_flag: int) -> None:
    assert body_of(record(body, sys_flag)) == PLAIN


@pytest.mark.parametrize("sys_flag", [COMPRESSED, LZ4, ZSTD, ZLIB, 0x701])
@pytest.mark.parametrize("body", [b"", b"not compressed", zlib.compress(PLAIN)[:-9]])
def test_body_that_cannot_be_unpacked_comes_as_it_is(body: bytes, sys_flag: int) -> None:
    assert body_of(record(body, sys_flag)) == body


@pytest.mark.parametrize(
    ("pack", "sys_flag"),
    [
        (zlib.compress, ZLIB),
        (lambda data: arrow("zstd", data), ZSTD),
        (lambda data: arrow("lz4", data), LZ4),
    ],
)
def test_small_body_does_not_unpack_to_a_huge_one(pack: object, sys_flag: int) -> None:
    assert callable(pack)
    packed = pack(bytes(bodies.UNPACKED_SIZE_MAX + 1))

    assert body_of(record(packed, sys_flag)) == packed


def test_gzip_of_a_5x_client_is_stored_unpacked() -> None:
    assert stored_body(gzip.compress(PLAIN), GZIP, len(PLAIN)) == PLAIN
    assert stored_body(PLAIN, IDENTITY, len(PLAIN)) == PLAIN


@pytest.mark.parametrize(
    ("body", "encoding", "code"),
    [
        (b"", IDENTITY, 41302),
        (b"", GZIP, 41302),
        (gzip.compress(b"", mtime=0), GZIP, 41302),
        (PLAIN + b"x", IDENTITY, 41301),
        (gzip.compress(PLAIN + b"x", mtime=0), GZIP, 41301),
        (b"no gzip", GZIP, 40016),
        (gzip.compress(PLAIN, mtime=0)[:-1], GZIP, 40016),
        (PLAIN, 3, 50100),
        (PLAIN, -1, 50100),
    ],
)
def test_body_that_breaks_a_rule_is_refused(body: bytes, encoding: int, code: int) -> None:
    with pytest.raises(Refused) as caught:
        stored_body(body, encoding, len(PLAIN))

    assert caught.value.code == code


def test_heavy_is_what_is_large_or_compressed() -> None:
    small = record(b"x", 0)

    assert not bodies.is_heavy(small)
    assert bodies.is_heavy(replace(small, sys_flag=COMPRESSED))
    assert bodies.is_heavy(replace(small, body=b"x" * 100_000))
