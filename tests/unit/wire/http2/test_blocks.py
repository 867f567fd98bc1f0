"""Header blocks from their frames; what may not be is in test_connection's table."""

from __future__ import annotations

import pytest

from dueline.wire.http2.blocks import FRAME_COUNT_MAX, Block, BlockReader
from dueline.wire.http2.faults import Fault
from dueline.wire.http2.frames import Flag


def test_a_block_is_whole_with_its_last_frame() -> None:
    reader = BlockReader(100)
    assert reader.on_headers(Flag.END_HEADERS, 1, b"abc") == Block(1, False, b"abc")

    assert reader.on_headers(Flag.END_STREAM, 3, b"abc") is None
    assert reader.is_open
    assert reader.on_continuation(0, 3, b"def") is None
    assert reader.on_continuation(Flag.END_HEADERS, 3, b"g") == Block(3, True, b"abcdefg")
    assert not reader.is_open


@pytest.mark.parametrize("part", [b"", b"x" * 60])
def test_a_block_has_an_end(part: bytes) -> None:
    reader = BlockReader(100)
    reader.on_headers(0, 1, part)

    def go_on() -> None:
        for _ in range(FRAME_COUNT_MAX):
            reader.on_continuation(0, 1, part)

    with pytest.raises(Fault, match="at most 100 bytes in 16 frames"):
        go_on()
