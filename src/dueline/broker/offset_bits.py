"""A set of offsets in a range, one bit each: millions of them in a few hundred kilobytes."""

from __future__ import annotations

__all__ = ["Offsets"]


class Offsets:
    """Some of the offsets from `start` to `end`; others are passed over.

    >>> some = Offsets(100, 110)
    >>> some.add(103)
    >>> some.add(1 << 60)
    >>> 103 in some, 104 in some, 1 << 60 in some
    (True, False, False)
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
