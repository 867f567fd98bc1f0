"""The Huffman code of headers, against another's."""

from __future__ import annotations

import pytest
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given
from hypothesis import strategies as st

from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.huffman import decode

ENCODER = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)


@given(st.binary(max_size=200))
def test_every_string_is_read_as_it_was_written(text: bytes) -> None:
    assert decode(ENCODER.encode(text)) == text


def test_the_example_of_the_standard() -> None:
    # RFC 7541, C.4.1
    assert decode(bytes.fromhex("f1e3c2e5f23a6ba0ab90f4ff")) == b"www.example.com"


@pytest.mark.parametrize("data", [b"\x1a", b"\x1f\xff", b"\xff", b"\xff\xff\xff\xff", b"\x00"])
def test_what_is_no_padding_is_refused(data: bytes) -> None:
    with pytest.raises(Fault) as caught:
        decode(data)
    assert caught.value.code is ErrorCode.COMPRESSION_ERROR
