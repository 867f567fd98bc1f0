"""Messages within a call's data."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueline.server.grpc.framing import GrpcStatus, MessageReader, Unreadable, framed


def packed(message: bytes) -> bytes:
    data = gzip.compress(message)
    return b"\x01" + len(data).to_bytes(4, "big") + data


@given(st.lists(st.tuples(st.binary(max_size=50), st.booleans()), max_size=6), st.integers(1, 60))
def test_messages_come_out_however_they_are_cut(
    messages: list[tuple[bytes, bool]], step: int
) -> None:
    data = b"".join(packed(each) if zipped else framed(each) for each, zipped in messages)
    reader = MessageReader(size_max=1_000, encoding="gzip")

    found = [
        message for at in range(0, len(data), step) for message in reader.feed(data[at : at + step])
    ]

    assert found == [each for each, _ in messages]
    assert reader.buffered_bytes == 0


def test_half_a_message_is_kept_and_counted() -> None:
    reader = MessageReader(size_max=1_000, encoding="identity")
    assert reader.feed(framed(b"abc") + framed(b"def")[:6]) == [b"abc"]
    assert reader.buffered_bytes == 6
    assert reader.feed(b"ef") == [b"def"]


def test_deflate_is_known_too() -> None:
    data = zlib.compress(b"again and again")
    whole = b"\x01" + len(data).to_bytes(4, "big") + data
    assert MessageReader(size_max=99, encoding="deflate").feed(whole) == [b"again and again"]


BAD = {
    "too large": (framed(bytes(101)), "gzip", GrpcStatus.RESOURCE_EXHAUSTED),
    "too large before it is there": (framed(bytes(101))[:9], "gzip", GrpcStatus.RESOURCE_EXHAUSTED),
    "a bomb": (
        packed(bytes(1 << 20))[:5] and packed(bytes(9_000)),
        "gzip",
        GrpcStatus.RESOURCE_EXHAUSTED,
    ),
    "compressed without a word": (packed(b"x"), "identity", GrpcStatus.UNIMPLEMENTED),
    "compressed in another way": (packed(b"x"), "zstd", GrpcStatus.UNIMPLEMENTED),
    "not what it says": (b"\x01\0\0\0\x03abc", "gzip", GrpcStatus.INTERNAL),
    "a part of what it says": (
        b"\x01\0\0\0\x08" + gzip.compress(b"x" * 40)[:8],
        "gzip",
        GrpcStatus.INTERNAL,
    ),
    "a flag of 2": (b"\x02\0\0\0\x03abc", "gzip", GrpcStatus.INTERNAL),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_message_is_refused(name: str) -> None:
    data, encoding, status = BAD[name]

    with pytest.raises(Unreadable) as caught:
        MessageReader(size_max=100, encoding=encoding).feed(data)

    assert caught.value.status is status
