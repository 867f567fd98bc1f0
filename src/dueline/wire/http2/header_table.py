"""The tables that header fields are named from by number (RFC 7541, 2.3 and appendix A).

1 … 61      the static table, the same for everybody
62 …        what this connection's peer has added, the newest first; bounded in bytes
"""

from __future__ import annotations

from collections import deque
from typing import Final

from dueline.wire.http2.faults import ErrorCode, Fault

__all__ = ["Field", "HeaderTable", "size_of"]

Field = tuple[str, str]
"""A name and a value."""

_ENTRY_OVERHEAD: Final = 32

_NAMES: Final = (
    "accept-language accept-ranges accept access-control-allow-origin age allow "
    "authorization cache-control content-disposition content-encoding content-language "
    "content-length content-location content-range content-type cookie date etag expect "
    "expires from host if-match if-modified-since if-none-match if-range "
    "if-unmodified-since last-modified link location max-forwards proxy-authenticate "
    "proxy-authorization range referer refresh retry-after server set-cookie "
    "strict-transport-security transfer-encoding user-agent vary via www-authenticate"
)
_STATIC: Final[tuple[Field, ...]] = (
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    *((":status", each) for each in ("200", "204", "206", "304", "400", "404", "500")),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    *((name, "") for name in _NAMES.split()),
)
_DYNAMIC_START: Final = len(_STATIC) + 1
assert _DYNAMIC_START == 62


def size_of(field: Field) -> int:
    """What a field counts for, in a table and in a list of headers."""
    return len(field[0]) + len(field[1]) + _ENTRY_OVERHEAD


class HeaderTable:
    """Both tables of one direction of a connection."""

    def __init__(self, size_max: int) -> None:
        """None is added yet.

        Args:
            size_max: what the peer was allowed to use.
        """
        self.change_count = 0
        """Goes up when a number may mean another field than before."""
        self._allowed: Final = size_max
        self._size_max = size_max
        self._size = 0
        self._dynamic: deque[Field] = deque()

    def get(self, index: int) -> Field:
        """The field with a number.

        Raises:
            Fault: there is none.
        """
        if 0 < index < _DYNAMIC_START:
            return _STATIC[index - 1]
        if 0 < index < _DYNAMIC_START + len(self._dynamic):
            return self._dynamic[index - _DYNAMIC_START]
        raise Fault(
            ErrorCode.COMPRESSION_ERROR,
            f"header table: expected a number from 1 to {len(self._dynamic) + len(_STATIC)}, "
            f"found {index}",
        )

    def add(self, field: Field) -> None:
        """A new field; old ones go to make room, and it is not kept if there is too little."""
        self.change_count += 1
        size = size_of(field)
        self._shrink(self._size_max - size)
        if size <= self._size_max:
            self._dynamic.appendleft(field)
            self._size += size

    def resize(self, size_max: int) -> None:
        """The peer uses another size from now on.

        Raises:
            Fault: larger than it may be.
        """
        if size_max > self._allowed:
            raise Fault(
                ErrorCode.COMPRESSION_ERROR,
                f"header table: expected at most {self._allowed} bytes, found {size_max}",
            )
        self.change_count += 1
        self._size_max = size_max
        self._shrink(size_max)

    def _shrink(self, size_max: int) -> None:
        while self._dynamic and self._size > size_max:
            self._size -= size_of(self._dynamic.pop())
