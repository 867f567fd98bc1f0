"""Header blocks, against another's encoder and the examples of the standard."""

from __future__ import annotations

import hpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.header_block import HeaderDecoder, literal

TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=40)
FIELDS = st.lists(
    st.tuples(st.sampled_from(["a", "te", "cookie", ":path", "x-y"]), TEXT), max_size=12
)
BLOCKS = st.lists(
    st.tuples(FIELDS, st.booleans(), st.sampled_from([None, 0, 100, 4_096])), max_size=12
)


@given(BLOCKS)
def test_blocks_are_read_as_they_were_written(
    blocks: list[tuple[list[tuple[str, str]], bool, int | None]],
) -> None:
    """One after the other: each stands on the table that those before it have left."""
    encoder, decoder = hpack.Encoder(), HeaderDecoder(list_size_max=1 << 20)
    for fields, is_compressed, table_size in blocks:
        if table_size is not None:
            encoder.header_table_size = table_size
        for _ in range(2):  # the second time it may be known
            data = encoder.encode(fields, huffman=is_compressed)
            assert decoder.decode(data) == tuple(fields)


def test_the_examples_of_the_standard() -> None:
    # RFC 7541, C.4: three requests with Huffman code on one connection
    decoder = HeaderDecoder(list_size_max=1 << 20)
    first = (
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
    )

    assert decoder.decode(bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff")) == first
    assert decoder.decode(bytes.fromhex("828684be5886a8eb10649cbf")) == (
        *first,
        ("cache-control", "no-cache"),
    )
    third = bytes.fromhex("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf")
    assert decoder.decode(third) == (
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    )


def test_a_known_block_means_something_else_when_the_table_has_changed() -> None:
    decoder = HeaderDecoder(list_size_max=1 << 20)
    decoder.decode(b"\x40\x01a\x01b")
    assert decoder.decode(b"\xbe") == (("a", "b"),)
    assert decoder.decode(b"\xbe") == (("a", "b"),)

    decoder.decode(b"\x40\x01c\x01d")

    assert decoder.decode(b"\xbe") == (("c", "d"),)
    assert decoder.decode(b"\xbf") == (("a", "b"),)


def test_a_bomb_is_counted_and_not_unpacked() -> None:
    """A field of 4 KB, named 30,000 times by a byte each."""
    decoder = HeaderDecoder(list_size_max=16_384)
    decoder.decode(b"\x40\x01a" + b"\x7f\x81\x1e" + b"v" * 3_968)

    assert decoder.decode(b"\xbe" * 30_000) is None
    assert decoder.decode(b"\xbe") == (("a", "v" * 3_968),)


BROKEN = {
    "a number without its end": b"\x7f",
    "a number that goes on": b"\x7f\xff\xff\xff\xff\xff\x00",
    "a string without its length": b"\x00",
    "a string without its end": b"\x00\x05abc",
    "a name and no value": b"\x00\x01a",
    "a value and no name": b"\x7e",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_block_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(Fault) as caught:
        HeaderDecoder(list_size_max=1_000).decode(BROKEN[name])
    assert caught.value.code is ErrorCode.COMPRESSION_ERROR


@given(
    st.lists(
        st.tuples(TEXT, st.text(st.characters(max_codepoint=255), max_size=20_000)), max_size=3
    )
)
def test_what_we_write_is_read_by_others(fields: list[tuple[str, str]]) -> None:
    decoder = hpack.Decoder(max_header_list_size=1 << 20)

    found = decoder.decode(b"".join(literal(*each) for each in fields), raw=True)

    assert found == [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]
