"""A file of named columns: sorted runs, written once, mapped for reading.

    | column | pad | column | pad | …
    | footer (JSON) | footer size (4) | footer CRC (4) | "DUECOLS1" |

Columns are little-endian arrays, each at a multiple of 64 bytes. The footer names them with dtype,
count, place and CRC-32, and carries the owner's `meta`. Opening a file checks every byte: a run
with a flipped bit is reported and rebuilt from its log, never believed.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
import numpy.typing as npt

from dueline.errors import CorruptRecord
from dueline.store.files import Bytes, File, Files

__all__ = ["ColumnFile", "write_columns"]

_MAGIC: Final = b"DUECOLS1"
_TRAILER: Final = struct.Struct(">II8s")
_ALIGN: Final = 64

Array = npt.NDArray[Any]


def write_columns(
    files: Files, path: Path, columns: Iterable[tuple[str, Callable[[], Array]]], meta: Any
) -> None:
    """Write a file in one go; each column is made when its turn comes, so only one is in memory."""
    files.replace(path, _chunks(columns, meta))


def _chunks(columns: Iterable[tuple[str, Callable[[], Array]]], meta: Any) -> Iterator[Bytes]:
    described = []
    at = 0
    for name, make in columns:
        array = np.ascontiguousarray(make())
        data = array.view(np.uint8)
        described.append([name, array.dtype.str, len(array), at, crc32(data.data)])
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
        self._columns: dict[str, Array] = {}
        view = self._file.view()
        for name, dtype, count, at, crc in footer["columns"]:
            data = view[at : at + count * np.dtype(dtype).itemsize]
            found = crc32(data.data)
            if found != crc:
                raise self._corrupt(f"column {name}: expected CRC {crc:#x}, found {found:#x}")
            self._columns[name] = data.view(dtype)
        self.forget_pages()

    def __getitem__(self, name: str) -> Array:
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
