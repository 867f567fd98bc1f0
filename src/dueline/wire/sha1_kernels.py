"""SHA-1 of many contents side by side, compiled; the plain twin is `hashlib.sha1`.

Each of `LANES` contents has a column. A column's block is taken in from beginning to end without a
loop, its words and state in variables: so the compiler takes the step of many columns, eight or
sixteen, with one instruction, and keeps what they work on in registers. Many short contents take
less time than one after the other, even by the processor's own instructions for SHA-1. A block is
16 rows of `LANES` words each, a state 5 rows, a to e.

Loops over columns are written out with numbers that the compiler knows, and what they call is
always inlined: only then does it see that it may do many columns at once.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import put_bytes
from dueline.compiled import BYTES, kernel

__all__ = [
    "BLOCK_SIZE",
    "LANES",
    "STATE_SIZE",
    "WORK_SIZE",
    "add_block",
    "begin",
    "put_block",
    "put_words",
]

Bytes8 = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
State = tuple[int, int, int, int, int]
"""a to e, of one column."""
Block = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int]

BLOCK_SIZE: Final = 64
LANES: Final = 32
GROUP: Final = 16
"""Of so many lanes the compiler makes one or two instructions for a step; of 8 it makes none."""
STATE_SIZE: Final = 5 * LANES
WORK_SIZE: Final = 16 * LANES
_STATE: Final = "UniTuple(uint32, 5)"
_BLOCK: Final = "UniTuple(uint32, 16)"
_U: Final = np.uint32


@kernel("void(uint32[::1])")
def begin(state: Words) -> None:
    """The state of every lane before its first block: rows a to e."""
    for lane in range(LANES):
        state[lane] = _U(0x67452301)
        state[LANES + lane] = _U(0xEFCDAB89)
        state[2 * LANES + lane] = _U(0x98BADCFE)
        state[3 * LANES + lane] = _U(0x10325476)
        state[4 * LANES + lane] = _U(0xC3D2E1F0)


@kernel(f"uint32({BYTES}, int64)", is_inlined=True)
def _word(part: Bytes8, at: int) -> int:
    """Four bytes, the most significant one first."""
    return (
        _U(part[at]) << _U(24)
        | _U(part[at + 1]) << _U(16)
        | _U(part[at + 2]) << _U(8)
        | _U(part[at + 3])
    )


@kernel(f"void({BYTES}, int64, uint32[::1], int64)", is_inlined=True)
def put_words(source: Bytes8, at: int, work: Words, lane: int) -> None:
    """64 bytes as the words of a lane."""
    # Of a slice, the compiler knows that no place is below 0.
    block = source[at : at + BLOCK_SIZE]
    column = work[lane:]
    for word in range(16):
        column[word * LANES] = _word(block, 4 * word)


@kernel(f"void({BYTES}, {BYTES}, int64, boolean, uint8[::1], uint32[::1], int64)", is_inlined=True)
def put_block(
    text: Bytes8, body: Bytes8, block: int, is_last: bool, room: Bytes8, work: Words, lane: int
) -> None:
    """A block of a text and a body behind it as the words of a lane.

    Args:
        is_last: it ends with how long they are, in bits, with a block that came before them.
        room: for `BLOCK_SIZE` bytes.
    """
    text_size = len(text)
    size = text_size + len(body)
    start = block * BLOCK_SIZE
    end = start + BLOCK_SIZE
    if end <= text_size:
        put_words(text, start, work, lane)
    elif start >= text_size and end <= size:
        put_words(body, start - text_size, work, lane)
    else:
        for place in range(BLOCK_SIZE):
            room[place] = 0
        at = 0
        if start < text_size:
            at = put_bytes(room, 0, text, start, text_size)
        if start < size:
            put_bytes(room, at, body, start + at - text_size, min(end, size) - text_size)
        if start <= size < end:
            room[size - start] = 0x80
        put_words(room, 0, work, lane)
        if is_last:
            work[15 * LANES + lane] = _U(8 * (BLOCK_SIZE + size))


@kernel("uint32(uint32, uint32)", is_inlined=True)
def _rotated(word: int, count: int) -> int:
    return _U(_U(word << count) | _U(word >> _U(_U(32) - count)))


@kernel(f"{_STATE}({_STATE}, uint32, uint32)", is_inlined=True)
def _next(s: State, word: int, value: int) -> State:
    """The state after a round; `value`: of the round's function and constant.

    What the round before has made, a, is added last: processors do the rest meanwhile.
    """
    a, b, c, d, e = s
    return _U(_U(_U(e + word) + value) + _rotated(a, _U(5))), a, _rotated(b, _U(30)), c, d


@kernel(f"{_STATE}({_STATE}, uint32)", is_inlined=True)
def _choose(s: State, word: int) -> State:
    """One of the rounds 0 to 19."""
    _, b, c, d, _ = s
    return _next(s, word, _U(_U(d ^ _U(b & _U(c ^ d))) + _U(0x5A827999)))


@kernel(f"{_STATE}({_STATE}, uint32)", is_inlined=True)
def _parity(s: State, word: int) -> State:
    """One of the rounds 20 to 39."""
    _, b, c, d, _ = s
    return _next(s, word, _U(_U(b ^ c ^ d) + _U(0x6ED9EBA1)))


@kernel(f"{_STATE}({_STATE}, uint32)", is_inlined=True)
def _majority(s: State, word: int) -> State:
    """One of the rounds 40 to 59."""
    _, b, c, d, _ = s
    return _next(s, word, _U(_U(_U(b & c) | _U(d & _U(b | c))) + _U(0x8F1BBCDC)))


@kernel(f"{_STATE}({_STATE}, uint32)", is_inlined=True)
def _last(s: State, word: int) -> State:
    """One of the rounds 60 to 79."""
    _, b, c, d, _ = s
    return _next(s, word, _U(_U(b ^ c ^ d) + _U(0xCA62C1D6)))


@kernel(f"{_STATE}({_STATE}, {_BLOCK})", is_inlined=True)
def _rounds_from_0(s: State, w: Block) -> State:
    s = _choose(s, w[0])
    s = _choose(s, w[1])
    s = _choose(s, w[2])
    s = _choose(s, w[3])
    s = _choose(s, w[4])
    s = _choose(s, w[5])
    s = _choose(s, w[6])
    s = _choose(s, w[7])
    s = _choose(s, w[8])
    s = _choose(s, w[9])
    s = _choose(s, w[10])
    s = _choose(s, w[11])
    s = _choose(s, w[12])
    s = _choose(s, w[13])
    s = _choose(s, w[14])
    return _choose(s, w[15])


@kernel(f"{_STATE}({_STATE}, {_BLOCK})", is_inlined=True)
def _rounds_from_16(s: State, w: Block) -> State:
    s = _choose(s, w[0])
    s = _choose(s, w[1])
    s = _choose(s, w[2])
    s = _choose(s, w[3])
    s = _parity(s, w[4])
    s = _parity(s, w[5])
    s = _parity(s, w[6])
    s = _parity(s, w[7])
    s = _parity(s, w[8])
    s = _parity(s, w[9])
    s = _parity(s, w[10])
    s = _parity(s, w[11])
    s = _parity(s, w[12])
    s = _parity(s, w[13])
    s = _parity(s, w[14])
    return _parity(s, w[15])


@kernel(f"{_STATE}({_STATE}, {_BLOCK})", is_inlined=True)
def _rounds_from_32(s: State, w: Block) -> State:
    s = _parity(s, w[0])
    s = _parity(s, w[1])
    s = _parity(s, w[2])
    s = _parity(s, w[3])
    s = _parity(s, w[4])
    s = _parity(s, w[5])
    s = _parity(s, w[6])
    s = _parity(s, w[7])
    s = _majority(s, w[8])
    s = _majority(s, w[9])
    s = _majority(s, w[10])
    s = _majority(s, w[11])
    s = _majority(s, w[12])
    s = _majority(s, w[13])
    s = _majority(s, w[14])
    return _majority(s, w[15])


@kernel(f"{_STATE}({_STATE}, {_BLOCK})", is_inlined=True)
def _rounds_from_48(s: State, w: Block) -> State:
    s = _majority(s, w[0])
    s = _majority(s, w[1])
    s = _majority(s, w[2])
    s = _majority(s, w[3])
    s = _majority(s, w[4])
    s = _majority(s, w[5])
    s = _majority(s, w[6])
    s = _majority(s, w[7])
    s = _majority(s, w[8])
    s = _majority(s, w[9])
    s = _majority(s, w[10])
    s = _majority(s, w[11])
    s = _last(s, w[12])
    s = _last(s, w[13])
    s = _last(s, w[14])
    return _last(s, w[15])


@kernel(f"{_STATE}({_STATE}, {_BLOCK})", is_inlined=True)
def _rounds_from_64(s: State, w: Block) -> State:
    s = _last(s, w[0])
    s = _last(s, w[1])
    s = _last(s, w[2])
    s = _last(s, w[3])
    s = _last(s, w[4])
    s = _last(s, w[5])
    s = _last(s, w[6])
    s = _last(s, w[7])
    s = _last(s, w[8])
    s = _last(s, w[9])
    s = _last(s, w[10])
    s = _last(s, w[11])
    s = _last(s, w[12])
    s = _last(s, w[13])
    s = _last(s, w[14])
    return _last(s, w[15])


@kernel("uint32(uint32, uint32, uint32, uint32)", is_inlined=True)
def _mixed(first: int, second: int, third: int, fourth: int) -> int:
    return _rotated(_U(_U(first ^ second) ^ _U(third ^ fourth)), _U(1))


@kernel(f"{_BLOCK}({_BLOCK})", is_inlined=True)
def _next_words(w: Block) -> Block:
    """The words of the next 16 rounds."""
    w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15 = w
    w0 = _mixed(w13, w8, w2, w0)
    w1 = _mixed(w14, w9, w3, w1)
    w2 = _mixed(w15, w10, w4, w2)
    w3 = _mixed(w0, w11, w5, w3)
    w4 = _mixed(w1, w12, w6, w4)
    w5 = _mixed(w2, w13, w7, w5)
    w6 = _mixed(w3, w14, w8, w6)
    w7 = _mixed(w4, w15, w9, w7)
    w8 = _mixed(w5, w0, w10, w8)
    w9 = _mixed(w6, w1, w11, w9)
    w10 = _mixed(w7, w2, w12, w10)
    w11 = _mixed(w8, w3, w13, w11)
    w12 = _mixed(w9, w4, w14, w12)
    w13 = _mixed(w10, w5, w15, w13)
    w14 = _mixed(w11, w6, w0, w14)
    w15 = _mixed(w12, w7, w1, w15)
    return w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15


@kernel(f"{_BLOCK}(uint32[::1], int64)", is_inlined=True)
def _words_of(work: Words, lane: int) -> Block:
    return (
        work[lane],
        work[LANES + lane],
        work[2 * LANES + lane],
        work[3 * LANES + lane],
        work[4 * LANES + lane],
        work[5 * LANES + lane],
        work[6 * LANES + lane],
        work[7 * LANES + lane],
        work[8 * LANES + lane],
        work[9 * LANES + lane],
        work[10 * LANES + lane],
        work[11 * LANES + lane],
        work[12 * LANES + lane],
        work[13 * LANES + lane],
        work[14 * LANES + lane],
        work[15 * LANES + lane],
    )


@kernel("void(uint32[::1], uint32[::1], uint32[::1])")
def _add_block(work: Words, state: Words, masks: Words) -> None:
    """`add_block` for the first `GROUP` lanes."""
    for lane in range(GROUP):
        words = _words_of(work, lane)
        a, b, c = state[lane], state[LANES + lane], state[2 * LANES + lane]
        d, e = state[3 * LANES + lane], state[4 * LANES + lane]
        values = _rounds_from_0((a, b, c, d, e), words)
        words = _next_words(words)
        values = _rounds_from_16(values, words)
        words = _next_words(words)
        values = _rounds_from_32(values, words)
        words = _next_words(words)
        values = _rounds_from_48(values, words)
        words = _next_words(words)
        values = _rounds_from_64(values, words)
        mask = _U(masks[lane])
        state[lane] = _U(a + _U(values[0] & mask))
        state[LANES + lane] = _U(b + _U(values[1] & mask))
        state[2 * LANES + lane] = _U(c + _U(values[2] & mask))
        state[3 * LANES + lane] = _U(d + _U(values[3] & mask))
        state[4 * LANES + lane] = _U(e + _U(values[4] & mask))


@kernel("void(uint32[::1], uint32[::1], uint32[::1], int64)")
def add_block(work: Words, state: Words, masks: Words, count: int) -> None:
    """Add the block in `work` to the state of the lanes whose mask is set.

    Args:
        work: `WORK_SIZE` words; state: `STATE_SIZE` words, rows a to e.
        masks: for each lane 0, or 0xFFFFFFFF to set it.
        count: of the lanes that are looked at, the first ones; `GROUP` or fewer take half as long.
    """
    for first in range(0, min(count, LANES), GROUP):
        _add_block(work[first:], state[first:], masks[first:])
