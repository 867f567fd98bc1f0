"""Is every key of a log's records in the log's key index?

The files of an index cover ranges of the log, one after the other; while the log is walked, one of
them is in memory. Entries of records that are gone are no mistake: a look-up finds nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from dueline.audit.findings import Findings
from dueline.audit.numbers import Hashes, mix
from dueline.audit.walk import Batch
from dueline.errors import CorruptRecord
from dueline.store.columns import ColumnFile
from dueline.store.files import Files
from dueline.store.kernels import Int64s

__all__ = ["KeyCheck"]

_REBUILD: Final = "stop the broker and remove the file: opening makes it again from the log"


class KeyCheck:
    """Compares the key index of one log with its records, in the order of the log."""

    def __init__(self, folder: Path, names: list[str], files: Files, findings: Findings) -> None:
        self._folder = folder
        self._files = files
        self._findings = findings
        self._missing_count = 0
        self._name = ""
        self._start = self._end = 0
        self._entries = np.empty(0, dtype=np.uint64)
        self._names = sorted(name for name in names if self._is_readable(name))

    def _is_readable(self, name: str) -> bool:
        """Read a file once, whole; what is damaged or missing is made again from the log."""
        subject = f"index/{self._folder.name}/{name}"
        try:
            file = ColumnFile(self._files, self._folder / name)
        except FileNotFoundError:
            self._findings.repair("key index", subject, "missing; it is made again from the log")
            return False
        except (CorruptRecord, ValueError, KeyError, TypeError) as error:
            text = f"damaged ({error}); it is made again from the log"
            self._findings.repair("key index", subject, text)
            return False
        try:
            self._check_order(file, subject)
        finally:
            file.close()
        return True

    def _check_order(self, file: ColumnFile, subject: str) -> None:
        start, end = file.meta["start"], file.meta["end"]
        if file.path.name != f"{start:020d}-{end:020d}":
            text = f"holds the keys of positions {start} to {end}: another index's file"
            self._findings.loss("key index", subject, text, _REBUILD)
        if len(file["hash"]) > 1 and bool((np.diff(file["hash"].astype(np.int64)) < 0).any()):
            self._findings.loss(
                "key index",
                subject,
                "not sorted, though its checks match: keys in it are not found",
                _REBUILD,
            )

    def add(self, batch: Batch) -> None:
        """Look for the keys of a batch's records."""
        if not self._names and not self._name:
            return
        hashes, owners = batch.columns.key_hashes()
        positions = batch.positions[owners]
        while len(positions):
            if int(positions[0]) >= self._end and not self._next_file(int(positions[0])):
                return
            stop = int(np.searchsorted(positions, self._end))
            start = int(np.searchsorted(positions, self._start))
            wanted = mix(hashes[start:stop], positions[start:stop])
            self._note_missing(positions[start:stop], wanted)
            hashes, positions = hashes[stop:], positions[stop:]

    def _note_missing(self, positions: Int64s, wanted: Hashes) -> None:
        if not len(wanted):
            return
        at = np.searchsorted(self._entries, wanted)
        at = np.minimum(at, max(len(self._entries) - 1, 0))
        is_found = (
            self._entries[at] == wanted if len(self._entries) else np.zeros(len(wanted), bool)
        )
        if not bool(is_found.all()):
            first = int(positions[np.flatnonzero(~is_found)[0]])
            self._findings.loss(
                "key index",
                f"index/{self._folder.name}/{self._name}",
                f"{int((~is_found).sum())} keys of records from position {first} on are not in it, "
                "though its checks match: those messages are not found by key",
                _REBUILD,
            )

    def _next_file(self, position: int) -> bool:
        """Load the file that covers a position, or the next one behind it."""
        while self._names:
            self._name = self._names.pop(0)
            try:
                file = ColumnFile(self._files, self._folder / self._name)
            except (FileNotFoundError, CorruptRecord):
                continue  # gone since the first look
            try:
                self._start, self._end = int(file.meta["start"]), int(file.meta["end"])
                if self._end <= position:
                    continue
                self._entries = np.sort(mix(file["hash"], file["position"]))
                return True
            finally:
                file.close()
        self._name = ""
        return False
