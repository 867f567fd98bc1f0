"""The state of every delayed message: one byte per acceptance number.

    0 pending     waits in the delay log
    1 delivered   appended to the commit log (perhaps still waiting at the gate)
    2 cancelled   by its producer or an operator
    3 dropped     the user's transform let it go
    5 moved       to another due time, under another number
    6 expired     it was so late that nobody was to get it any more

A state leaves 0 once and only then may turn from delivered into cancelled, moved or expired, while
the record waits at the gate. So applying the same log twice gives the same states, and recovery may
start from any older snapshot. A prefix in which nothing is pending and nothing waits at the gate is
forgotten.

The snapshot file holds a line of JSON and the bytes, zlib-compressed, with a CRC; it is written
twice, since what retention has deleted from the logs cannot be derived again.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from dueline.errors import CorruptRecord
from dueline.store.files import Files
from dueline.store.kernels import Int64s

__all__ = [
    "CANCELLED",
    "DELIVERED",
    "DROPPED",
    "EXPIRED",
    "FORGOTTEN",
    "MOVED",
    "NAMES",
    "PENDING",
    "TAKEN_BACK",
    "States",
]

PENDING: Final = 0
DELIVERED: Final = 1
CANCELLED: Final = 2
DROPPED: Final = 3
FORGOTTEN: Final = 4  # the answer for numbers before the kept range: done, how is not known
MOVED: Final = 5
EXPIRED: Final = 6
TAKEN_BACK: Final = (CANCELLED, MOVED, EXPIRED)
"""Nobody is to see the record of such a number, also if it has been carried over."""

NAMES: Final = {
    PENDING: "pending",
    DELIVERED: "delivered",
    CANCELLED: "cancelled",
    DROPPED: "dropped",
    FORGOTTEN: "done",
    MOVED: "moved",
    EXPIRED: "expired",
}

_CAPACITY_MIN: Final = 1 << 16
_STEP: Final = 1 << 16

Codes = npt.NDArray[np.uint8]


class States:
    """States of the numbers [base, end). Not thread-safe: its owner holds the store's lock."""

    def __init__(
        self, base: int = 0, codes: Codes | None = None, *, capacity: int = _CAPACITY_MIN
    ) -> None:
        self.base = base
        self.end = base if codes is None else base + len(codes)
        if codes is None or not len(codes):  # never of length 0, so that any row can be looked up
            codes = np.zeros(capacity, dtype=np.uint8)
        self._codes: Codes = codes

    def extend(self, end: int) -> None:
        """Make room up to `end`; new numbers are pending."""
        needed = end - self.base
        if needed > len(self._codes):
            codes = np.zeros(max(needed, 2 * len(self._codes)), dtype=np.uint8)
            used = self.end - self.base
            codes[:used] = self._codes[:used]
            self._codes = codes
        self.end = max(self.end, end)

    def of(self, seqs: Int64s) -> Codes:
        """The state of each number; FORGOTTEN before the kept range, PENDING after it."""
        at = seqs - self.base
        if len(at) and (int(at.min()) < 0 or int(at.max()) >= len(self._codes)):
            inside = (at >= 0) & (at < len(self._codes))
            codes = np.where(at < 0, FORGOTTEN, PENDING).astype(np.uint8)
            codes[inside] = self._codes[at[inside]]
            return codes
        return self._codes[at]

    def one(self, seq: int) -> int:
        at = seq - self.base
        if at < 0:
            return FORGOTTEN
        return int(self._codes[at]) if seq < self.end else PENDING

    def mark(self, seqs: Int64s, code: int) -> None:
        """Set the state of numbers; those that were forgotten stay so."""
        if not len(seqs):
            return
        self.extend(int(seqs.max()) + 1)
        at = seqs - self.base
        self._codes[at[at >= 0]] = code

    def pending_count(self, start: int, end: int) -> int:
        """How many numbers in [start, end) are pending."""
        codes = self._codes[max(start - self.base, 0) : max(end - self.base, 0)]
        return int(len(codes) - np.count_nonzero(codes))

    def trim(self, limit: int, *, least: int) -> None:
        """Forget the numbers before the first pending one, but none from `limit` on.

        Args:
            least: forget nothing if there are fewer.
        """
        keep_from = self._first_pending(min(max(limit, self.base), self.end) - self.base)
        if keep_from >= max(least, 1):
            self._codes = self._codes[keep_from:].copy()
            self.base += keep_from

    def _first_pending(self, stop: int) -> int:
        """The first row before `stop` that is pending, or that; in steps, since the store's lock is
        held and the first is mostly near."""
        for start in range(0, stop, _STEP):
            pending = np.flatnonzero(self._codes[start : min(start + _STEP, stop)] == PENDING)
            if len(pending):
                return start + int(pending[0])
        return stop

    def copy(self) -> States:
        """A snapshot that later marks do not change."""
        return States(self.base, self._codes[: self.end - self.base].copy())

    def save(self, files: Files, path: Path, meta: dict[str, Any]) -> None:
        """Write the snapshot, twice."""
        packed = zlib.compress(self._codes[: self.end - self.base].data, level=1)
        head = {"base": self.base, "end": self.end, "crc": zlib.crc32(packed), "meta": meta}
        line = json.dumps(head).encode()
        check = f"{zlib.crc32(line):08x}".encode()
        for target in (path, mirror_of(path)):
            files.replace(target, [check, b" ", line, b"\n", packed])


def mirror_of(path: Path) -> Path:
    """Where the second copy of a file is."""
    return path.with_name(path.name + ".mirror")


def load(files: Files, path: Path) -> tuple[States, dict[str, Any]]:
    """Read a snapshot back with its meta.

    Raises:
        FileNotFoundError: there is none.
        CorruptRecord: it is damaged.
    """
    data = files.read(path)
    line, _, packed = data.partition(b"\n")
    check, _, text = line.partition(b" ")
    reason = "CRC does not match"
    try:
        head = json.loads(text) if int(check, 16) == zlib.crc32(text) else None
        if head is not None and zlib.crc32(packed) == head["crc"]:
            codes = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).copy()
            return States(int(head["base"]), codes), dict(head["meta"])
    except (ValueError, KeyError, zlib.error) as error:
        reason = str(error)
    raise CorruptRecord(f"{path}: {reason}", path=str(path), position=0)
