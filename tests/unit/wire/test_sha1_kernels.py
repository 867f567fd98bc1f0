"""SHA-1 in lanes is that of the standard library, block by block."""

from __future__ import annotations

import hashlib
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dueline import compiled
from dueline.wire.turn_signatures import SIGNATURE_KERNELS

pytest.importorskip("numba")


def hashed(contents: list[bytes]) -> list[bytes]:
    """Contents of as many blocks as they have, each in a lane; what SHA-1 appends is in them."""
    assert compiled.load([SIGNATURE_KERNELS])
    from dueline.wire import sha1_kernels as kernels

    work = np.zeros((kernels.WORK_SIZE // kernels.LANES, kernels.LANES), dtype=np.uint32)
    state = np.empty((5, kernels.LANES), dtype=np.uint32)
    kernels.begin(state.reshape(-1))
    for start in range(0, max(map(len, contents)), 64):
        masks = np.zeros(kernels.LANES, dtype=np.uint32)
        for lane, content in enumerate(contents):
            block = content[start : start + 64]
            if block:
                masks[lane] = 0xFFFFFFFF
                work[:16, lane] = np.frombuffer(block, dtype=">u4")
        kernels.add_block(work.reshape(-1), state.reshape(-1), masks, len(contents))
    return [state[:, lane].astype(">u4").tobytes() for lane in range(len(contents))]


def padded(content: bytes) -> bytes:
    """With a bit, zeros and the length, as the standard says."""
    zeros = b"\0" * (-(len(content) + 9) % 64)
    return content + b"\x80" + zeros + (8 * len(content)).to_bytes(8, "big")


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=32))
def test_each_lane_has_the_hash_of_its_own_content(contents: list[bytes]) -> None:
    expected = [hashlib.sha1(content).digest() for content in contents]

    assert hashed([padded(content) for content in contents]) == expected


def test_the_standards_own_examples() -> None:
    examples: dict[bytes, Any] = {
        b"abc": "a9993e364706816aba3e25717850c26c9cd0d89d",
        b"": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": (
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1"
        ),
    }

    found = hashed([padded(content) for content in examples])

    assert [each.hex() for each in found] == list(examples.values())


def test_contents_of_two_pieces_are_put_into_lanes_block_by_block() -> None:
    """Of every length up to 300, cut everywhere in turn; a block has come before, as with HMAC."""
    assert compiled.load([SIGNATURE_KERNELS])
    from dueline.wire import sha1_kernels as kernels

    first = bytes(range(64))
    content = bytes(range(7, 251)) * 2
    work = np.zeros(kernels.WORK_SIZE, dtype=np.uint32)
    state = np.empty(kernels.STATE_SIZE, dtype=np.uint32)
    masks = np.zeros(kernels.LANES, dtype=np.uint32)
    room = np.empty(64, dtype=np.uint8)
    lane = 0
    for size in range(301):
        lane = (lane + 1) % kernels.LANES
        cut = 37 * size % (size + 1)
        text = np.frombuffer(content[:cut], dtype=np.uint8)
        body = np.frombuffer(content[cut:size], dtype=np.uint8)
        kernels.begin(state)
        masks[:] = 0
        masks[lane] = 0xFFFFFFFF
        kernels.put_words(np.frombuffer(first, dtype=np.uint8), 0, work, lane)
        kernels.add_block(work, state, masks, lane + 1)
        count = (size + 8) // 64 + 1
        for block in range(count):
            kernels.put_block(text, body, block, block + 1 == count, room, work, lane)
            kernels.add_block(work, state, masks, lane + 1)

        found = state.reshape(5, -1)[:, lane].astype(">u4").tobytes()
        assert found == hashlib.sha1(first + content[:size]).digest(), size
