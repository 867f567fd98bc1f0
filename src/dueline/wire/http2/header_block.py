"""Header blocks: bytes to fields, and the few blocks that a server sends (RFC 7541, 6).

    1xxxxxxx    a field by its number              001xxxxx    another size of the table
    01xxxxxx    a field that is added to the table  000xxxxx    a field that is not

Clients send the same block with call after call, once the table knows their headers: a block that
does not change the table means the same until another one does, so it is looked up. Strings are
looked up too. What is kept of either is bounded.

We send no numbers of our own table: nothing to keep in step, and a block is made by joining bytes.
"""

from __future__ import annotations

from typing import Final

from dueline.wire.http2 import huffman
from dueline.wire.http2.faults import ErrorCode, Fault
from dueline.wire.http2.header_table import Field, HeaderTable, size_of

__all__ = ["HeaderDecoder", "Headers", "literal"]

TABLE_SIZE_MAX: Final = 4_096
"""What HTTP/2 begins with, and what we leave it at."""
INTEGER_BYTES_MAX: Final = 4
_BLOCK_COUNT_MAX: Final = 64
_STRING_COUNT_MAX: Final = 256
_STRING_SIZE_MAX: Final = 256

Headers = tuple[Field, ...]


class HeaderDecoder:
    """The blocks of one connection, in the order they came."""

    def __init__(self, *, list_size_max: int) -> None:
        """Begin with an empty table.

        Args:
            list_size_max: bytes of the fields of one block, as HTTP/2 counts them.
        """
        self._list_size_max: Final = list_size_max
        self._table = HeaderTable(TABLE_SIZE_MAX)
        self._blocks: dict[bytes, Headers] = {}
        self._strings: dict[bytes, str] = {}
        self._known_count = 0

    def decode(self, block: bytes) -> Headers | None:
        """The fields of a block; None if they are larger than may be.

        Raises:
            Fault: it cannot be read; nor can any that follow.
        """
        table = self._table
        if self._known_count == table.change_count:
            known = self._blocks.get(block)
            if known is not None:
                return known
        before = table.change_count
        fields = self._read(block)
        if fields is not None and table.change_count == before:
            if self._known_count != before or len(self._blocks) >= _BLOCK_COUNT_MAX:
                self._blocks.clear()
                self._known_count = before
            self._blocks[block] = fields
        return fields

    def _read(self, block: bytes) -> Headers | None:
        table, at, end = self._table, 0, len(block)
        size, fields = 0, list[Field]()
        while at < end:
            first = block[at]
            if first & 0x80:
                index, at = _integer(block, at, 0x7F)
                field = table.get(index)
            elif first & 0x40:
                field, at = self._literal(block, at, 0x3F)
                table.add(field)
            elif first & 0x20:
                if fields:
                    raise _fault("expected a new size of the table before the first field")
                size_max, at = _integer(block, at, 0x1F)
                table.resize(size_max)
                continue
            else:
                field, at = self._literal(block, at, 0x0F)
            size += size_of(field)
            if size <= self._list_size_max:
                fields.append(field)
        return tuple(fields) if size <= self._list_size_max else None

    def _literal(self, block: bytes, at: int, mask: int) -> tuple[Field, int]:
        index, at = _integer(block, at, mask)
        if index:
            name = self._table.get(index)[0]
        else:
            name, at = self._string(block, at)
        value, at = self._string(block, at)
        return (name, value), at

    def _string(self, block: bytes, at: int) -> tuple[str, int]:
        if at >= len(block):
            raise _fault("expected a string, found the end of the block")
        first = block[at]
        length, start = _integer(block, at, 0x7F)
        end = start + length
        if end > len(block):
            raise _fault(f"expected a string of {length} bytes, found {len(block) - start}")
        if not first & 0x80:
            return block[start:end].decode("latin-1"), end
        coded = block[start:end]
        text = self._strings.get(coded)
        if text is None:
            text = huffman.decode(coded).decode("latin-1")
            if length <= _STRING_SIZE_MAX:
                if len(self._strings) >= _STRING_COUNT_MAX:
                    self._strings.clear()
                self._strings[coded] = text
        return text, end


def _integer(block: bytes, at: int, mask: int) -> tuple[int, int]:
    """A number whose first bits are in a byte with others, and where it ends."""
    value = block[at] & mask
    at += 1
    if value < mask:
        return value, at
    for shift in range(0, 7 * INTEGER_BYTES_MAX, 7):
        if at >= len(block):
            raise _fault("expected the rest of a number, found the end of the block")
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    raise _fault(f"expected a number of at most {INTEGER_BYTES_MAX + 1} bytes, found more")


def _fault(text: str) -> Fault:
    return Fault(ErrorCode.COMPRESSION_ERROR, f"header block: {text}")


def literal(name: str, value: str) -> bytes:
    """A field as it is: not added to a table, not compressed.

    >>> literal("a", "bc")
    b'\\x00\\x01a\\x02bc'
    """
    return b"\x00" + _string(name) + _string(value)


def _string(text: str) -> bytes:
    data = text.encode("latin-1")
    size = len(data)
    if size < 0x7F:
        return bytes([size]) + data
    head, rest = bytearray([0x7F]), size - 0x7F
    while rest >= 0x80:
        head.append(rest & 0x7F | 0x80)
        rest >>= 7
    head.append(rest)
    return bytes(head) + data
