"""MD5, compiled: the plain twin is `hashlib.md5`. The 5.x protocol has it of every body.

Numbers of 32 bits are kept in wider ones, which cannot overflow, and cut where that matters.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import four
from dueline.compiled import BYTES, kernel

__all__ = ["put_md5"]

Bytes8 = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]

_TEXT_SIZE: Final = 32
_BLOCK: Final = 64
_U: Final = np.uint64
_LOW: Final = _U(0xFFFFFFFF)
_ADDED: Final = np.array([int(abs(math.sin(step + 1)) * 2**32) for step in range(64)], np.uint64)
_TURNS: Final = np.array(
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]], dtype=np.uint64
)
_HEX: Final = np.frombuffer(b"0123456789ABCDEF", dtype=np.uint8)


@kernel(f"void({BYTES}, int64, int64, int64, uint64[::1])")
def _take_block(data: Bytes8, start: int, end: int, block: int, words: Words) -> None:
    """The 16 words of a block, which count from the least significant byte; the last one ends with
    the size in bits."""
    part = data[start:end]
    first = block * _BLOCK
    if first + _BLOCK <= len(part):
        for word in range(16):
            words[word] = four(part, first + 4 * word)
        return
    for word in range(16):
        words[word] = _U(0)
    for place in range(first, min(len(part) + 1, first + _BLOCK)):
        byte = _U(part[place]) if place < len(part) else _U(0x80)
        words[(place - first) // 4] |= byte << _U(8 * (place % 4))
    if len(part) + 8 < first + _BLOCK:
        words[14] = _U(8 * len(part)) & _LOW
        words[15] = _U(8 * len(part)) >> _U(32)


@kernel("uint64(uint64, uint64, uint64)", is_inlined=True)
def _next(b: Any, added: Any, count: Any) -> Any:
    """`b` after a step: what is added, turned by so many bits, and this `b`."""
    low = added & _LOW
    return b + (low << count | low >> _U(32) - count) & _LOW


@kernel("void(uint64[::1], uint64[::1])")
def _add_block(words: Words, state: Words) -> None:
    a, b, c, d = state[0], state[1], state[2], state[3]
    for step in range(16):
        added = a + (b & c | ~b & d) + _ADDED[step] + words[step]
        a, d, c, b = d, c, b, _next(b, added, _TURNS[0, step & 3])
    for step in range(16, 32):
        added = a + (d & b | ~d & c) + _ADDED[step] + words[5 * step + 1 & 15]
        a, d, c, b = d, c, b, _next(b, added, _TURNS[1, step & 3])
    for step in range(32, 48):
        added = a + (b ^ c ^ d) + _ADDED[step] + words[3 * step + 5 & 15]
        a, d, c, b = d, c, b, _next(b, added, _TURNS[2, step & 3])
    for step in range(48, 64):
        added = a + (c ^ (b | ~d & _LOW)) + _ADDED[step] + words[7 * step & 15]
        a, d, c, b = d, c, b, _next(b, added, _TURNS[3, step & 3])
    state[0] = state[0] + a & _LOW
    state[1] = state[1] + b & _LOW
    state[2] = state[2] + c & _LOW
    state[3] = state[3] + d & _LOW


@kernel(f"int64(uint8[::1], int64, {BYTES}, int64, int64, uint64[::1])")
def put_md5(out: Bytes8, at: int, data: Bytes8, start: int, end: int, work: Words) -> int:
    """Write the digest of data[start:end] as hexadecimal digits; returns where they end.

    Args:
        work: 20 numbers.
    """
    words, state = work[0:16], work[16:20]
    state[0] = _U(0x67452301)
    state[1] = _U(0xEFCDAB89)
    state[2] = _U(0x98BADCFE)
    state[3] = _U(0x10325476)
    for block in range((end - start + 8) // _BLOCK + 1):
        _take_block(data, start, end, block, words)
        _add_block(words, state)
    for place in range(_TEXT_SIZE):
        byte = state[place // 8] >> _U(8 * (place // 2 % 4))
        out[at + place] = _HEX[byte >> _U(4) & _U(15) if place % 2 == 0 else byte & _U(15)]
    return at + _TEXT_SIZE
