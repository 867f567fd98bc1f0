"""Many usual records checked in one step without numpy, for clients, which import nothing large.

The header of a usual record is eleven words of eight bytes. The same word of all records together
is one whole number of Python's, in which each record has a lane of 64 bits: a shift, an AND or an
XOR of such numbers does for hundreds of records what `dueline.store.record.usual` does for one.
Lanes do not touch each other: nothing is added, and what a shift carries over is masked away.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from operator import itemgetter
from typing import Final, NamedTuple
from zlib import crc32

from dueline.message import SYS_BORN_HOST_V6, SYS_COMPRESSED, SYS_STORE_HOST_V6
from dueline.store.layout import HEADER_SIZE, RECORD_SIZE_MIN
from dueline.store.record import MAGIC, MARK_CHECK_MASK, MARK_PRESENT

__all__ = ["LANES_MAX", "Cut", "are_plain", "cut"]

LANES_MAX: Final = 256
"""More would not be faster: the numbers would outgrow the nearest cache."""

_WORD_COUNT: Final = HEADER_SIZE // 8
_SIZES: Final = struct.Struct(">I80xI")  # of the record, and of its body
_ONES: Final = int.from_bytes(bytes(7).join([b"", *[b"\1"] * LANES_MAX]), "big")
_LOW: Final = 0xFFFF_FFFF
_HIGH: Final = _LOW << 32
_POSITIVE: Final = 0x7FFF_FFFF
_TAIL_REST_SIZE: Final = 3
"""Of topic and properties, their sizes."""
_ODD_FLAGS: Final = 1 << 31 | SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6 | SYS_COMPRESSED
_CHECK: Final = MARK_CHECK_MASK >> 32  # in the mark's upper half
_CHECK_SHIFT: Final = (_CHECK & -_CHECK).bit_length() - 1
_PRESENT: Final = MARK_PRESENT >> 32
assert _SIZES.size == HEADER_SIZE == _WORD_COUNT * 8


class Cut(NamedTuple):
    """Consecutive records in their parts, as the sizes in them say, and where the last one ends."""

    heads: list[bytes]
    bodies: list[bytes]
    tails: list[bytes]
    end: int


def cut(data: bytes, start: int) -> Cut:
    """The first records from `start`, up to `LANES_MAX` or to one that does not fit its sizes."""
    heads, bodies, tails = list[bytes](), list[bytes](), list[bytes]()
    at, last = start, len(data) - RECORD_SIZE_MIN
    while at <= last and len(heads) < LANES_MAX:
        size, body_size = _SIZES.unpack_from(data, at)
        body_at, end = at + HEADER_SIZE, at + size
        tail_at = body_at + body_size
        if end > len(data) or tail_at + _TAIL_REST_SIZE > end:
            break
        heads.append(data[at:body_at])
        bodies.append(data[body_at:tail_at])
        tails.append(data[tail_at:end])
        at = end
    return Cut(heads, bodies, tails, at)


def are_plain(records: Cut) -> bool:
    """Is each of them usual, passes all its checks, and has a body that is not compressed?

    False may also be said of such records whose topics differ in length.
    """
    count = len(records.heads)
    if not count or not _are_whole(records.tails):
        return False
    ones = _ONES & (1 << 64 * count) - 1
    (size, crc, flag, _, sys_flag, born, born_host, store, store_host, times, mark) = _words(
        records.heads
    )
    odd = (size & ones * _LOW) ^ ones * MAGIC
    odd |= (_lanes(map(crc32, records.bodies)) & ones * _POSITIVE) ^ (crc >> 32 & ones * _LOW)
    odd |= (crc | times >> 32) & ones * (1 << 31)  # the queue's id and the attempts
    odd |= (born | store) & ones << 63
    odd |= sys_flag & ones * _ODD_FLAGS
    odd |= (times & ones * _PRESENT) ^ ones * _PRESENT
    if odd:
        return False
    words = size ^ crc ^ (flag & ones * _HIGH) ^ (sys_flag & ones * _LOW) ^ born ^ born_host
    words ^= store ^ store_host ^ times ^ mark ^ (times & ones * _CHECK)
    words ^= words >> 32
    words ^= words >> 16
    tail = _lanes(map(crc32, records.tails))
    check = words ^ tail ^ tail >> 5 ^ tail >> 8 ^ times >> _CHECK_SHIFT
    return not check & ones * 0xFFFF


def _words(heads: list[bytes]) -> list[int]:
    """Each word of the headers, of all of them."""
    words = memoryview(b"".join(heads)).cast("Q")
    return [
        int.from_bytes(words[each::_WORD_COUNT].tobytes(), "big") for each in range(_WORD_COUNT)
    ]


def _lanes(values: Iterable[int]) -> int:
    found = tuple(values)
    return int.from_bytes(struct.pack(f">{len(found)}Q", *found), "big")


def _are_whole(tails: list[bytes]) -> bool:
    """Do topics and properties fill their tails? The topics are expected to be of one length."""
    topic_size = tails[0][0]
    rest_size = topic_size + _TAIL_REST_SIZE
    sizes = [len(tail) - rest_size for tail in tails]
    if min(sizes) < 0 or max(sizes) > 0xFFFF:
        return False
    if bytes(map(itemgetter(0), tails)) != bytes([topic_size]) * len(tails):
        return False
    said = b"".join(map(itemgetter(slice(topic_size + 1, rest_size)), tails))
    return said == struct.pack(f">{len(sizes)}H", *sizes)
