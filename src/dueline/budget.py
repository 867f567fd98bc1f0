"""Bytes of a table that peers can grow: names, texts and counts are theirs, the memory is ours.

A table takes from its budget before it grows and gives back when it shrinks. Sizes are estimates,
on the high side: what the texts have, and a constant for what Python needs around them. What comes
from disk counts too but is never refused (`add`).

Any thread may call.
"""

from __future__ import annotations

import threading
from typing import Final

from dueline.errors import InvalidRequest, LimitExceeded

__all__ = ["Budget", "check_size"]


class Budget:
    """So many bytes, and no more.

    >>> budget = Budget("locks", 100)
    >>> budget.take(60)
    >>> budget.take(60)
    Traceback (most recent call last):
    dueline.errors.LimitExceeded: locks: expected at most 100 bytes, found 120; remove some first
    """

    __slots__ = ("_lock", "size_bytes", "size_bytes_max", "what")

    def __init__(self, what: str, size_bytes_max: int) -> None:
        self.what: Final = what
        self.size_bytes_max: Final = size_bytes_max
        self.size_bytes = 0
        self._lock = threading.Lock()

    def has_room(self, size_bytes: int) -> bool:
        return self.size_bytes + size_bytes <= self.size_bytes_max

    def take(self, size_bytes: int) -> None:
        """The table is about to grow by this; less than 0: to shrink.

        Raises:
            LimitExceeded: it may not; nothing was taken.
        """
        with self._lock:
            if size_bytes > 0 and not self.has_room(size_bytes):
                raise self.error(size_bytes)
            self.size_bytes += size_bytes

    def error(self, size_bytes: int) -> LimitExceeded:
        """What to raise when there is no room for this."""
        found = self.size_bytes + size_bytes
        return LimitExceeded(
            f"{self.what}: expected at most {self.size_bytes_max} bytes, found {found}; remove "
            "some first",
            limit=self.size_bytes_max,
            found=found,
        )

    def add(self, size_bytes: int) -> None:
        """The table has grown by this, whether it may or not."""
        with self._lock:
            self.size_bytes += size_bytes

    def give(self, size_bytes: int) -> None:
        """The table has shrunk by this."""
        self.add(-size_bytes)


def check_size(what: str, text: str, size_max: int) -> None:
    """Refuse a text that is longer than any real one.

    Raises:
        InvalidRequest: says what it is, and how long it may be.
    """
    if len(text) > size_max:
        raise InvalidRequest(
            f"{what}: expected at most {size_max} characters, found {len(text)}",
            limit=size_max,
            found=len(text),
        )
