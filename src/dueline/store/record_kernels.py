"""What kernels know of a record: the usual one, our own with IPv4 hosts, its checks, its keys."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.byte_kernels import eight, four, u32
from dueline.compiled import BYTES, kernel
from dueline.store.crc_kernels import crc
from dueline.store.properties import HASH_PRIME
from dueline.store.record import MARK_CHECK_MASK

__all__ = ["HEADER_SIZE", "SIZE_MIN", "fold_header", "folded_crc", "is_usual", "key_hash"]

HEADER_SIZE: Final = 88
SIZE_MIN: Final = 91
_MAGIC: Final = 0xDAA320A7
_V6: Final = 0x30
_PRIME: Final = np.uint64(HASH_PRIME)
_LEFT: Final = np.uint64((1 << 32) % HASH_PRIME)
_LEFT_TWICE: Final = np.uint64((1 << 64) % HASH_PRIME)
_BUT_CHECK: Final = np.uint64(
    int.from_bytes((MARK_CHECK_MASK ^ (1 << 64) - 1).to_bytes(8, "big"), "little")
)
_LOW: Final = np.uint64(0xFFFFFFFF)

Bytes8 = npt.NDArray[np.uint8]


@kernel(f"int64({BYTES}, int64)")
def fold_header(data: Bytes8, start: int) -> Any:
    """XOR of the header's 16-bit words, but for queueOffset and position; the mark's check is 0.

    The words are read with their bytes the other way round, and turned at the end.
    """
    head = data[start : start + HEADER_SIZE]
    value = eight(head, 0) ^ eight(head, 8) ^ four(head, 16)
    for at in range(36, 76, 8):
        value ^= eight(head, at)
    value ^= eight(head, 76) & _BUT_CHECK ^ four(head, 84)
    value ^= value >> np.uint64(32)
    value ^= value >> np.uint64(16)
    low = np.int64(value & np.uint64(0xFFFF))
    return (low << 8 | low >> 8) & 0xFFFF


@kernel("int64(uint32)")
def folded_crc(value: np.uint32) -> Any:
    """A CRC over topic and properties as the check has it."""
    return np.int64((value ^ value >> np.uint32(5) ^ value >> np.uint32(8)) & np.uint32(0xFFFF))


@kernel(f"int64({BYTES}, int64)")
def check_of(data: Bytes8, start: int) -> Any:
    """The 16 bits of the check in a record's mark."""
    high = np.int64(data[start + 76]) << 8 | np.int64(data[start + 77])
    low = np.int64(data[start + 78]) >> 4
    return (high & 0x0FFF) << 4 | low


@kernel(f"boolean({BYTES}, int64, int64)")
def is_usual(data: Bytes8, start: int, end: int) -> bool:
    """Is data[start:end] a record of the usual kind that passes its checks? Any other may be sound
    or not."""
    if start < 0 or end > len(data) or end - start < SIZE_MIN:
        return False
    if u32(data, start) != end - start or u32(data, start + 4) != _MAGIC:
        return False
    if u32(data, start + 36) & _V6 or data[start + 76] & 0xC0 != 0x40:
        return False
    tail = start + HEADER_SIZE + u32(data, start + 84)
    if tail + 3 > end:
        return False
    text = tail + 1 + data[tail] + 2
    if text > end or np.int64(data[text - 2]) << 8 | np.int64(data[text - 1]) != end - text:
        return False
    body_crc = np.int64(crc(data, start + HEADER_SIZE, tail) & np.uint32(0x7FFFFFFF))
    if body_crc != u32(data, start + 8):
        return False
    return bool(
        fold_header(data, start) ^ folded_crc(crc(data, tail, end)) == check_of(data, start)
    )


@kernel(f"uint32({BYTES}, int64, int64)")
def key_hash(data: Bytes8, start: int, end: int) -> np.uint32:
    """`properties.key_hash` of a slice: a little-endian number, modulo a prime."""
    value = np.uint64(0)
    at = end
    while (at - start) % 4:
        at -= 1
        value = value << np.uint64(8) | np.uint64(data[at])
    while at > start:  # times 2^32, which leaves _LEFT; it stays below 2^62 without a division
        at -= 4
        word = (
            np.uint64(data[at + 3]) << np.uint64(24)
            | np.uint64(data[at + 2]) << np.uint64(16)
            | np.uint64(data[at + 1]) << np.uint64(8)
            | np.uint64(data[at])
        )
        value = (value & _LOW) * _LEFT + (value >> np.uint64(32)) * _LEFT_TWICE + word
    return np.uint32(value % _PRIME)
