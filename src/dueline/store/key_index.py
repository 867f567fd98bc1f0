"""Finding records by key or unique id: hashes to log positions, in sorted runs.

Each record of a log is entered under the 32-bit hash of its unique id and of every word of its
KEYS. New entries collect in memory (`open_keys.py`); sealed, they become a file sorted by hash
(`columns.py`), and neighbouring files are merged. A lookup is a binary search per file. Hashes
collide and old positions may be gone, so the caller reads the record and compares the real
key.

Derived data: whatever is missing or damaged is rebuilt from the log. The index covers log
positions below `position_end`; entering those again is ignored. Not thread-safe: its owner holds
the store's lock.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import numpy as np

from dueline.errors import CorruptRecord
from dueline.store.columns import ColumnFile, narrow, write_columns
from dueline.store.files import Files
from dueline.store.kernels import Int64s
from dueline.store.open_keys import Hashes, OpenKeys, in_order
from dueline.store.thresholds import USUAL, Thresholds

__all__ = ["KEYS_NAME", "KeyIndex"]

KEYS_NAME: Final = re.compile("[0-9]{20}-[0-9]{20}")


class KeyIndex:
    """The key index of one log."""

    def __init__(self, files: Files, folder: Path, thresholds: Thresholds = USUAL) -> None:
        self._files = files
        self._thresholds = thresholds
        self._folder = folder
        files.make_folder(folder)
        self._runs: list[ColumnFile] = []
        self._open = OpenKeys()
        self._aside = OpenKeys()
        self._aside_range = (0, 0)
        self._open_start = 0
        self.position_end = 0

    @property
    def open_count(self) -> int:
        """How many entries are in memory only."""
        return len(self._open)

    @property
    def names(self) -> list[str]:
        return [run.path.name for run in self._runs]

    def load(self, names: list[str], position_end: int) -> None:
        """Open the files of a checkpoint.

        Raises:
            CorruptRecord: a file that is damaged or missing.
        """
        for name in names:
            try:
                self._runs.append(ColumnFile(self._files, self._folder / name))
            except FileNotFoundError as error:
                path = str(self._folder / name)
                raise CorruptRecord(
                    f"{path}: expected a key index, found no file", path=path, position=0
                ) from error
        self.position_end = self._open_start = position_end

    def reset(self, position: int) -> None:
        """Forget everything; the log is entered again from `position` on."""
        self.close()
        self._runs = []
        self.position_end = self._open_start = position

    def add(self, hashes: Hashes, positions: Int64s, *, position_end: int) -> None:
        """Enter hash i for the record at positions[i]; all records before `position_end` are in."""
        if len(positions) and int(positions[0]) < self.position_end:
            fresh = positions >= self.position_end
            hashes, positions = hashes[fresh], positions[fresh]
        self._open.add(hashes, positions)
        self.position_end = max(self.position_end, position_end)

    def find(self, hash_value: int) -> list[int]:
        """Positions entered under a hash, the newest first."""
        found = self._open.find(hash_value) + self._aside.find(hash_value)
        for run in self._runs:
            column = run["hash"]
            start = int(np.searchsorted(column, np.uint32(hash_value), side="left"))
            stop = int(np.searchsorted(column, np.uint32(hash_value), side="right"))
            found.extend(run.column("position").take(slice(start, stop)).tolist())
        return sorted(set(found), reverse=True)

    def begin_seal(self) -> None:
        """Set what is in memory aside (lookups still see it)."""
        assert not len(self._aside), "one seal at a time"
        self._aside, self._open = self._open, OpenKeys()
        self._aside_range = (self._open_start, self.position_end)
        self._open_start = self.position_end

    def write_sealed(self) -> ColumnFile | None:
        """Write what was set aside; needs no lock."""
        if not len(self._aside):
            return None
        return self._write(*self._aside.sorted(), *self._aside_range)

    def end_seal(self, run: ColumnFile | None) -> None:
        """Let the written file take the place of what was set aside."""
        if run is not None:
            self._runs.append(run)
        self._aside = OpenKeys()

    def abort_seal(self) -> None:
        """What was set aside could not be written: it is in memory as before."""
        self._aside.take_over(self._open)
        self._open, self._aside = self._aside, OpenKeys()
        self._open_start = self._aside_range[0]

    def merge_candidates(self) -> list[ColumnFile]:
        """The newest files, if there are many of them and they are small; else none."""
        group: list[ColumnFile] = []
        entries = 0
        for run in reversed(self._runs):
            if entries + len(run["hash"]) > self._thresholds.key_file_entries_max:
                break
            group.insert(0, run)
            entries += len(run["hash"])
        return group if len(group) >= self._thresholds.merge_key_file_count else []

    def write_merged(self, group: list[ColumnFile]) -> ColumnFile:
        """Write one file in place of several neighbours; needs no lock."""
        all_rows = slice(None)
        entries = in_order([(run["hash"], run.column("position").take(all_rows)) for run in group])
        start, end = int(group[0].meta["start"]), int(group[-1].meta["end"])
        return self._write(*entries, start, end)

    def end_merge(self, group: list[ColumnFile], merged: ColumnFile) -> list[Path]:
        """Swap the merged file in; returns files to remove once no checkpoint names them."""
        at = self._runs.index(group[0])
        self._runs[at : at + len(group)] = [merged]
        return _close(group)

    def drop_before(self, position: int) -> list[Path]:
        """Forget files whose records are all before `position`; returns them."""
        gone = [run for run in self._runs if int(run.meta["end"]) <= position]
        self._runs = [run for run in self._runs if int(run.meta["end"]) > position]
        return _close(gone)

    def _write(self, hashes: Hashes, positions: Int64s, start: int, end: int) -> ColumnFile:
        path = self._folder / f"{start:020d}-{end:020d}"
        columns: list[Any] = [
            ("hash", lambda: hashes.astype("<u4")),
            ("position", lambda: narrow(positions)),
        ]
        write_columns(self._files, path, columns, {"start": start, "end": end})
        return ColumnFile(self._files, path)

    def close(self) -> None:
        _close(self._runs)


def _close(runs: list[ColumnFile]) -> list[Path]:
    for run in runs:
        run.close()
    return [run.path for run in runs]
