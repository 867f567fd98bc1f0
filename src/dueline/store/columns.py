"""A file of named columns: sorted runs, written once, mapped for reading.

    | column | pad | column | pad | …
    | footer (JSON) | footer size (4) | footer CRC (4) | "DUECOLS1" |

Columns are little-endian arrays, each at a multiple of 64 bytes. The footer names them with dtype,
count, place and CRC-32, and carries the owner's `meta`. A column of numbers that are near to one
another is stored as what each is more than the least of them, in as few bytes as they need
(`narrow`). Opening a file checks every byte: a run with a flipped bit is reported and rebuilt from
its log, never believed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dueline.errors import CorruptRecord
from dueline.store.files import Bytes, File, Files

__all__ = ["Array", "Column", "ColumnFile", "narrow", "write_columns"]

_MAGIC: Final = b"DUECOLS1"
_TRAILER: Final = struct.Struct(">II8s")
_ALIGN: Final = 64
_NARROW: Final = ("u1", "<u2", "<u4", "<u8")

Array = npt.NDArray[Any]
Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Column:
    """Numbers, stored as what each is more than a base."""

    stored: Array
    base: int = 0

    def __len__(self) -> int:
        return len(self.stored)

    def at(self, row: int) -> int:
        return int(self.stored[row]) + self.base

    def take(self, rows: Any) -> Int64s:
        """The numbers of some rows; a slice of what is stored as 64 bits copies nothing."""
        numbers: Int64s = self.stored[rows].astype(np.int64, copy=False)
        return numbers + self.base if self.base else numbers

    def rank(self, number: int, side: Literal["left", "right"] = "left") -> int:
        """Where a number belongs among sorted ones: before equal ones, or behind them."""
        limits = np.iinfo(self.stored.dtype)
        more = number - self.base
        if more < limits.min:
            return 0
        if more > limits.max:
            return len(self.stored)
        return int(np.searchsorted(self.stored, self.stored.dtype.type(more), side=side))


def narrow(numbers: Array) -> Column:
    """The same numbers in as few bytes each as they need.

    >>> narrow(np.array([1_700_000_000_250, 1_700_000_000_000]))
    Column(stored=array([250,   0], dtype=uint8), base=1700000000000)
    """
    if not len(numbers):
        return Column(np.empty(0, dtype="u1"))
    base, last = int(numbers.min()), int(numbers.max())
    dtype = next(each for each in _NARROW if last - base <= np.iinfo(each).max)
    return Column((numbers.astype(np.int64, copy=False) - base).astype(dtype), base)


def write_columns(
    files: Files, path: Path, columns: Iterable[tuple[str, Callable[[], Array | Column]]], meta: Any
) -> None:
    """Write a file in one go; each column is made when its turn comes, so only one is in memory."""
    files.replace(path, _chunks(columns, meta))


def _chunks(
    columns: Iterable[tuple[str, Callable[[], Array | Column]]], meta: Any
) -> Iterator[Bytes]:
    described = []
    at = 0
    for name, make in columns:
        made = make()
        column = made if isinstance(made, Column) else Column(made)
        array = np.ascontiguousarray(column.stored)
        data = array.view(np.uint8)
        described.append([name, array.dtype.str, len(array), at, crc32(data.data), column.base])
        yield data
        pad = -len(data) % _ALIGN
        yield bytes(pad)
        at += len(data) + pad
    footer = json.dumps({"columns": described, "meta": meta}).encode()
    yield footer
    yield _TRAILER.pack(len(footer), crc32(footer), _MAGIC)


class ColumnFile:
    """The columns of a written file as read-only mapped arrays.

    Raises:
        CorruptRecord: a byte that is not what was written.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self.path: Final = path
        self._file: File = files.open(path)
        size = self._file.size_bytes
        footer = self._footer(size)
        self.meta: Any = footer["meta"]
        self._columns: dict[str, Column] = {}
        view = self._file.view()
        for name, dtype, count, at, crc, *base in footer["columns"]:
            data = view[at : at + count * np.dtype(dtype).itemsize]
            found = crc32(data.data)
            if found != crc:
                raise self._corrupt(f"column {name}: expected CRC {crc:#x}, found {found:#x}")
            self._columns[name] = Column(data.view(dtype), *base)
        self.forget_pages()

    def __getitem__(self, name: str) -> Array:
        """A column's numbers: mapped if they are stored as they are, else made."""
        column = self._columns[name]
        return column.take(slice(None)) if column.base else column.stored

    def column(self, name: str) -> Column:
        return self._columns[name]

    def forget_pages(self) -> None:
        """Give back memory after a scan of whole columns."""
        self._file.forget_pages()

    def close(self) -> None:
        self._columns.clear()
        self._file.close()

    def _footer(self, size: int) -> Any:
        if size < _TRAILER.size:
            raise self._corrupt(f"expected at least {_TRAILER.size} bytes, found {size}")
        trailer = self._file.read_at(size - _TRAILER.size, _TRAILER.size)
        footer_size, footer_crc, magic = _TRAILER.unpack(trailer)
        if magic != _MAGIC or footer_size > size - _TRAILER.size:
            raise self._corrupt("expected a trailer, found other bytes")
        footer = self._file.read_at(size - _TRAILER.size - footer_size, footer_size)
        if crc32(footer) != footer_crc:
            raise self._corrupt("footer: CRC does not match")
        return json.loads(footer)

    def _corrupt(self, reason: str) -> CorruptRecord:
        self._file.close()
        return CorruptRecord(f"{self.path}: {reason}", path=str(self.path), position=0)
