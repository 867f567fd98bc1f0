"""A set of offsets in a range, one bit each: millions of them in a few hundred kilobytes."""

from __future__ import annotations

import sys

__all__ = ["Offsets"]


class Offsets:
    """Some of the offsets from `start` to `end`; others are passed over.

    >>> some = Offsets(100, 110)
    >>> some.add(103)
    >>> some.add(1 << 60)
    >>> 103 in some, 104 in some, 1 << 60 in some
    (True, False, False)
    >>> some.gap(100), some.gap(103) == (104, sys.maxsize)
    ((100, 103), True)
    """

    def __init__(self, start: int, end: int) -> None:
        self._start = start
        self._end = end
        self._bits = bytearray((end - start + 7) // 8)

    def add(self, offset: int) -> None:
        if self._start <= offset < self._end:
            place = offset - self._start
            self._bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, offset: int) -> bool:
        if not self._start <= offset < self._end:
            return False
        place = offset - self._start
        return bool(self._bits[place >> 3] >> (place & 7) & 1)

    def gap(self, offset: int) -> tuple[int, int]:
        """The next stretch of offsets, from this one on, that are not in the set."""
        start = self._next(offset, is_in=False)
        end = self._next(max(start, self._start), is_in=True)
        return start, end if end < self._end else sys.maxsize

    def _next(self, offset: int, *, is_in: bool) -> int:
        """The first offset from this one on that is in the set, or is not; at most the end."""
        alike = 0x00 if is_in else 0xFF
        while offset < self._end and (offset in self) is not is_in:
            place = offset - self._start
            offset += 8 if not place & 7 and self._bits[place >> 3] == alike else 1
        return offset
