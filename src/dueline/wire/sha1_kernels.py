"""SHA-1 of many contents side by side, compiled; the plain twin is `hashlib.sha1`.

Each of `LANES` contents has a column, and every step is taken for all columns before the next one:
processors do that for eight and more columns at once. So many short contents take less time than
one after the other, even by the processor's own instructions for SHA-1. The work area is one array
of rows, of `LANES` words each::

    row   0 to  79   the words of a block: 16 as they are, and what the algorithm makes of them
    row  80 to  84   the state before the block, in the order e, d, c, b, a
    row  85 to 164   the values that a takes on, round by round

In round i, the values e, d, c, b and a are in the rows from 80 + i on: each was a once, and those
of c, d and e have to be rotated by 30 still, which is why a state is put there rotated back.

Loops are written out with numbers that the compiler knows: only then does it see that it may do
many columns at once. Thirty-two columns are as many as make it want to.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.compiled import kernel

__all__ = ["LANES", "STATE_SIZE", "WORK_SIZE", "add_block", "begin"]

Words = npt.NDArray[np.uint32]

LANES: Final = 32
STATE_SIZE: Final = 5 * LANES
WORK_SIZE: Final = 165 * LANES
_STATE: Final = 80 * LANES
_END: Final = 160 * LANES
"""Where the state stands after the last round."""
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


@kernel("uint32(uint32, uint32)")
def _rotated(word: int, count: int) -> int:
    return _U(_U(word << count) | _U(word >> _U(_U(32) - count)))


@kernel("uint32(uint32, uint32, uint32, uint32)")
def _next(a: int, e: int, word: int, value: int) -> int:
    """The next a; `value`: of the round's function and constant."""
    return _U(_rotated(a, _U(5)) + _rotated(e, _U(30)) + word + value)


@kernel("void(uint32[::1])")
def _rounds(work: Words) -> None:
    for row in range(20):
        for lane in range(LANES):
            at = row * LANES + lane
            b = _U(work[_STATE + 3 * LANES + at])
            c = _rotated(_U(work[_STATE + 2 * LANES + at]), _U(30))
            d = _rotated(_U(work[_STATE + LANES + at]), _U(30))
            value = _U(_U(d ^ _U(b & _U(c ^ d))) + _U(0x5A827999))
            a, e = _U(work[_STATE + 4 * LANES + at]), _U(work[_STATE + at])
            work[_STATE + 5 * LANES + at] = _next(a, e, _U(work[at]), value)
    for row in range(20, 40):
        for lane in range(LANES):
            at = row * LANES + lane
            b = _U(work[_STATE + 3 * LANES + at])
            c = _rotated(_U(work[_STATE + 2 * LANES + at]), _U(30))
            d = _rotated(_U(work[_STATE + LANES + at]), _U(30))
            value = _U(_U(b ^ c ^ d) + _U(0x6ED9EBA1))
            a, e = _U(work[_STATE + 4 * LANES + at]), _U(work[_STATE + at])
            work[_STATE + 5 * LANES + at] = _next(a, e, _U(work[at]), value)
    for row in range(40, 60):
        for lane in range(LANES):
            at = row * LANES + lane
            b = _U(work[_STATE + 3 * LANES + at])
            c = _rotated(_U(work[_STATE + 2 * LANES + at]), _U(30))
            d = _rotated(_U(work[_STATE + LANES + at]), _U(30))
            value = _U(_U(_U(b & c) | _U(d & _U(b | c))) + _U(0x8F1BBCDC))
            a, e = _U(work[_STATE + 4 * LANES + at]), _U(work[_STATE + at])
            work[_STATE + 5 * LANES + at] = _next(a, e, _U(work[at]), value)
    for row in range(60, 80):
        for lane in range(LANES):
            at = row * LANES + lane
            b = _U(work[_STATE + 3 * LANES + at])
            c = _rotated(_U(work[_STATE + 2 * LANES + at]), _U(30))
            d = _rotated(_U(work[_STATE + LANES + at]), _U(30))
            value = _U(_U(b ^ c ^ d) + _U(0xCA62C1D6))
            a, e = _U(work[_STATE + 4 * LANES + at]), _U(work[_STATE + at])
            work[_STATE + 5 * LANES + at] = _next(a, e, _U(work[at]), value)


@kernel("void(uint32[::1], uint32[::1], uint32[::1])")
def add_block(work: Words, state: Words, masks: Words) -> None:
    """Add the block in the first 16 rows of `work` to the state of the lanes whose mask is set.

    Args:
        work: `WORK_SIZE` words; state: `STATE_SIZE` words, rows a to e.
        masks: for each lane 0, or 0xFFFFFFFF to set it.
    """
    for row in range(16, 80):
        for lane in range(LANES):
            at = row * LANES + lane
            word = _U(work[at - 3 * LANES]) ^ _U(work[at - 8 * LANES])
            word ^= _U(work[at - 14 * LANES]) ^ _U(work[at - 16 * LANES])
            work[at] = _rotated(_U(word), _U(1))
    for lane in range(LANES):
        work[_STATE + 4 * LANES + lane] = state[lane]
        work[_STATE + 3 * LANES + lane] = state[LANES + lane]
        work[_STATE + 2 * LANES + lane] = _rotated(_U(state[2 * LANES + lane]), _U(2))
        work[_STATE + LANES + lane] = _rotated(_U(state[3 * LANES + lane]), _U(2))
        work[_STATE + lane] = _rotated(_U(state[4 * LANES + lane]), _U(2))
    _rounds(work)
    for lane in range(LANES):
        mask = _U(masks[lane])
        a, b = _U(work[_END + 4 * LANES + lane]), _U(work[_END + 3 * LANES + lane])
        c = _rotated(_U(work[_END + 2 * LANES + lane]), _U(30))
        d = _rotated(_U(work[_END + LANES + lane]), _U(30))
        e = _rotated(_U(work[_END + lane]), _U(30))
        state[lane] = _U(_U(state[lane]) + _U(a & mask))
        state[LANES + lane] = _U(_U(state[LANES + lane]) + _U(b & mask))
        state[2 * LANES + lane] = _U(_U(state[2 * LANES + lane]) + _U(c & mask))
        state[3 * LANES + lane] = _U(_U(state[3 * LANES + lane]) + _U(d & mask))
        state[4 * LANES + lane] = _U(_U(state[4 * LANES + lane]) + _U(e & mask))
