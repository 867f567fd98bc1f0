"""For tests of and on a store: a clock that is moved by hand, and a disk that fails on request.

    clock = ManualClock(1_700_000_000_000)
    files = FaultyFiles()
    store = Store.open(path, options, clock=clock, files=files)
    files.stop_at(files.operation_count + 3)        # the third operation from now
    with pytest.raises(PowerCut):
        store.put(message)
    files.power_cut(seed=7)                         # or files.restart(): only the process died
    store = Store.open(path, options, clock=clock)  # what was acknowledged must be there

`FaultyFiles` works on real files, so that readers which map them see what was written. Beside them
it remembers what a power cut could undo:

    bytes     each 512-byte sector that was written since the file's last sync, in every version: a
              power cut leaves any one of them, independently of its neighbours (torn, reordered)
    lengths   a length that was changed since the last sync may be undone
    names     files and folders made, moved or removed since their folder's last sync: for names
              that have to do with each other some first part of the changes stays

Nothing is really synced, which makes it fast; what it holds in memory is the size of what is not
synced and of the files that were removed. It is meant for small segments.

An operation is one of the single steps that `dueline.store.files` is made of. `replace`, for
example, counts as new, write, …, sync, move, sync_folder. Safe from several threads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt

from dueline.clock import Clock
from dueline.store.files import Bytes, File, Files, FolderLock, byte_view

__all__ = ["SECTOR_SIZE", "FaultyFiles", "ManualClock", "PowerCut"]

SECTOR_SIZE: Final = 512


class ManualClock(Clock):
    """A clock whose wall time stands still until a test moves it, forwards or backwards.

    >>> clock = ManualClock(1_000)
    >>> clock.advance(500)
    >>> clock.now_ms()
    1500
    >>> clock.wall_ms = 900  # somebody set the wall clock back: the answer stays
    >>> clock.now_ms()
    1500
    """

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        super().__init__(lambda: self.wall_ms)
        self.wall_ms = wall_ms

    def advance(self, delta_ms: int) -> None:
        self.wall_ms += delta_ms


class PowerCut(BaseException):
    """The machine stops here. Not an Exception: nothing may catch it and go on."""


@dataclass(slots=True)
class _Unsynced:
    """What was written to one file since its last sync; the durable version comes first."""

    sectors: dict[int, list[bytes]] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Change:
    """A change of names in a folder, and what it takes to undo it."""

    kind: str
    names: tuple[str, ...]
    removed: bytes | None = None
    unsynced: _Unsynced | None = None


@dataclass(slots=True)
class _Failure:
    """An error to be raised by operations of a kind on files whose path contains a text."""

    kind: str
    part: str
    error: int
    count: int


class FaultyFiles(Files):
    """Files that can be stopped at any operation, lose what was not synced, be full, or fail.

    Attributes:
        operation_count: operations begun so far, over all stores that used these files.
        trace: their names and paths, if `is_tracing` is set.
        is_full: while true, operations that need disk space raise ENOSPC.
    """

    def __init__(self) -> None:
        self.operation_count = 0
        self.trace: list[str] = []
        self.is_tracing = False
        self.is_full = False
        self._stop_at: int | None = None
        self._is_midway = False
        self._stop_kind: tuple[str, str] | None = None
        self._is_off = False
        self._failures: list[_Failure] = []
        self._fail_at = (0, 0)
        self._unsynced: dict[Path, _Unsynced] = {}
        self._changes: dict[Path, list[_Change]] = {}
        self._open_files: weakref.WeakSet[_FaultyFile] = weakref.WeakSet()
        self._folder_lock: FolderLock | None = None
        self._lock = threading.RLock()

    # What tests ask for

    def stop_at(self, number: int | None, *, midway: bool = False) -> None:
        """Raise PowerCut before operation `number` (counted from 1); None: no more.

        Args:
            midway: a write is done in part before the stop.
        """
        self._stop_at, self._is_midway = number, midway

    def stop_before(self, kind: str, *, path_part: str = "") -> None:
        """Raise PowerCut before the next operation of a kind on a path that contains a text."""
        self._stop_kind = (kind, path_part)

    def fail(self, kind: str, error: int, *, path_part: str = "", count: int = 1) -> None:
        """Raise OSError with an errno from the next `count` operations of a kind.

        Args:
            path_part: only on files whose path contains it.
        """
        self._failures.append(_Failure(kind, path_part, error, count))

    def fail_at(self, number: int, error: int) -> None:
        """Raise OSError with an errno from operation `number` (counted from 1)."""
        self._fail_at = (number, error)

    def restart(self) -> None:
        """The process died: everything written is there; what was not synced still is not."""
        for file in list(self._open_files):
            file.close()
        if self._folder_lock is not None:
            self._folder_lock.release()
        self._is_off = False
        self._stop_at = self._stop_kind = None

    def power_cut(self, seed: int) -> None:
        """Leave on disk what a power cut could leave. Seed 0 loses all that can be lost."""
        with self._lock:
            rng = random.Random(seed)
            for folder in sorted(self._changes):
                self._undo_names(folder, rng if seed else None)
            for path in sorted(self._unsynced):
                self._undo_bytes(path, rng if seed else None)
            self._changes.clear()
            self._unsynced.clear()
            self.restart()

    # The operations

    def new(self, path: Path) -> File:
        self.step("new", path)
        with self._lock:
            removed, unsynced = self._take(path)
            file = super().new(path)
            self._note(path, _Change("new", (path.name,), removed, unsynced))
            self._unsynced[path] = _Unsynced(sizes=[0])
            return file

    def open(self, path: Path, *, writable: bool = False) -> File:
        file = _FaultyFile(self, path, writable=writable)
        self._open_files.add(file)
        return file

    def lock(self, path: Path) -> FolderLock:
        self._folder_lock = super().lock(path)
        return self._folder_lock

    def move(self, source: Path, target: Path) -> None:
        assert source.parent == target.parent, "files change names within a folder only"
        self.step("move", target)
        with self._lock:
            removed, unsynced = self._take(target)
            super().move(source, target)
            if source in self._unsynced:
                self._unsynced[target] = self._unsynced.pop(source)
            self._note(target, _Change("move", (source.name, target.name), removed, unsynced))

    def remove(self, path: Path) -> None:
        if not path.exists():
            return
        self.step("remove", path)
        with self._lock:
            removed, unsynced = self._take(path)
            super().remove(path)
            self._note(path, _Change("remove", (path.name,), removed, unsynced))

    def make_one_folder(self, path: Path) -> None:
        self.step("make_folder", path)
        with self._lock:
            super().make_one_folder(path)
            self._note(path, _Change("make_folder", (path.name,)))

    def sync_folder(self, path: Path) -> None:
        self.step("sync_folder", path)
        with self._lock:
            self._changes.pop(path, None)

    def sync_disk(self, path: Path) -> None:
        self.step("sync_disk", path)
        with self._lock:
            self._changes.clear()
            self._unsynced.clear()

    # What _FaultyFile needs

    def step(self, kind: str, path: Path, *, needs_space: bool | None = None) -> bool:
        """Count an operation that is about to begin; true if it is to be done only in part."""
        with self._lock:
            if self._is_off:
                raise PowerCut
            self.operation_count += 1
            if self.is_tracing:
                self.trace.append(f"{kind} {path.parent.name}/{path.name}")
            is_last = self.operation_count == self._stop_at or self._is_awaited(kind, path)
            if is_last and self._is_midway and kind in ("write", "scatter"):
                return True
            if is_last:
                self.stop()
            self._fail_if_asked(kind, path)
            if needs_space is None:
                needs_space = kind in ("new", "make_folder", "allocate")
            if self.is_full and needs_space:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            return False

    def _is_awaited(self, kind: str, path: Path) -> bool:
        if self._stop_kind is None:
            return False
        wanted, part = self._stop_kind
        return kind == wanted and part in str(path)

    def stop(self) -> NoReturn:
        """From now on nothing is written any more."""
        self._is_off = True
        raise PowerCut

    def _fail_if_asked(self, kind: str, path: Path) -> None:
        number, error = self._fail_at
        if number == self.operation_count:
            raise OSError(error, os.strerror(error), str(path))
        for failure in self._failures:
            if failure.count and failure.kind == kind and failure.part in str(path):
                failure.count -= 1
                raise OSError(failure.error, os.strerror(failure.error), str(path))

    @contextlib.contextmanager
    def changing(self, file: File, starts: npt.NDArray[np.int64], size: int) -> Iterator[None]:
        """Remember the sectors of [start, start + size) before and after they are written."""
        with self._lock:
            first = starts // SECTOR_SIZE
            last = (starts + max(size, 1) - 1) // SECTOR_SIZE
            if len(starts) == 1:
                numbers = range(int(first[0]), int(last[0]) + 1)
                sectors = list(numbers) if size else []
            else:
                sectors = np.unique(np.concatenate([first, last])).tolist()
            unsynced = self._unsynced.setdefault(file.path, _Unsynced(sizes=[file.size_bytes]))
            for sector in sectors:
                if sector not in unsynced.sectors:
                    unsynced.sectors[sector] = [_read_sector(file, sector)]
            yield
            for sector in sectors:
                unsynced.sectors[sector].append(_read_sector(file, sector))
            self.note_size(file)

    def note_size(self, file: File) -> None:
        with self._lock:
            sizes = self._unsynced.setdefault(file.path, _Unsynced(sizes=[file.size_bytes])).sizes
            if sizes[-1] != file.size_bytes:
                sizes.append(file.size_bytes)

    def synced(self, file: File) -> None:
        with self._lock:
            self._unsynced.pop(file.path, None)

    # Undoing

    def _take(self, path: Path) -> tuple[bytes | None, _Unsynced | None]:
        """What is about to lose its name."""
        if not path.exists():
            return None, None
        return path.read_bytes(), self._unsynced.pop(path, None)

    def _note(self, path: Path, change: _Change) -> None:
        self._changes.setdefault(path.parent, []).append(change)

    def _undo_names(self, folder: Path, rng: random.Random | None) -> None:
        for group in _related(self._changes[folder]):
            kept = 0 if rng is None else rng.randint(0, len(group))
            for change in reversed(group[kept:]):
                if folder.is_dir():
                    self._undo(folder, change)

    def _undo(self, folder: Path, change: _Change) -> None:
        target = folder / change.names[-1]
        if change.kind == "make_folder":
            shutil.rmtree(target)
            for path in [path for path in self._unsynced if target in path.parents]:
                del self._unsynced[path]
            return
        if change.kind == "move":
            source = folder / change.names[0]
            target.rename(source)
            if target in self._unsynced:
                self._unsynced[source] = self._unsynced.pop(target)
        elif change.kind == "new":
            target.unlink()
            self._unsynced.pop(target, None)
        if change.removed is not None:
            target.write_bytes(change.removed)
            if change.unsynced is not None:
                self._unsynced[target] = change.unsynced

    def _undo_bytes(self, path: Path, rng: random.Random | None) -> None:
        unsynced = self._unsynced[path]
        size = unsynced.sizes[0] if rng is None else rng.choice(unsynced.sizes)
        # Some power cuts lose nearly all, some nearly nothing, most leave a mixture.
        lost = 1.0 if rng is None else rng.choice((0.1, 0.5, 0.5, 0.9))
        with path.open("r+b", buffering=0) as file:
            for sector, versions in sorted(unsynced.sectors.items()):
                if rng is None or rng.random() < lost:
                    earlier = versions[:-1]
                    file.seek(sector * SECTOR_SIZE)
                    file.write(earlier[0] if rng is None else rng.choice(earlier))
            file.truncate(size)


class _FaultyFile(File):
    """A file whose changes are counted and remembered."""

    def __init__(self, files: FaultyFiles, path: Path, *, writable: bool) -> None:
        super().__init__(path, writable=writable, spend=files.spend)
        self._files = files

    def write_at(self, position: int, data: Bytes) -> None:
        view = byte_view(data)
        is_longer = position + len(view) > self.size_bytes
        is_partial = self._files.step("write", self.path, needs_space=is_longer)
        if is_partial:
            view = view[: len(view) // 2]
        with self._files.changing(self, np.array([position], dtype=np.int64), len(view)):
            super().write_at(position, view)
        if is_partial:
            self._files.stop()

    def scatter(self, positions: npt.NDArray[np.int64], rows: npt.NDArray[np.uint8]) -> None:
        is_partial = self._files.step("scatter", self.path)
        if is_partial:
            positions, rows = positions[: len(rows) // 2], rows[: len(rows) // 2]
        with self._files.changing(self, positions, rows.shape[1]):
            super().scatter(positions, rows)
        if is_partial:
            self._files.stop()

    def fallocate(self, start: int, size: int) -> None:
        self._files.step("allocate", self.path)
        super().fallocate(start, size)

    def resize(self, size_bytes: int) -> None:
        self._files.step("resize", self.path)
        self._files.note_size(self)
        super().resize(size_bytes)
        self._files.note_size(self)

    def sync(self) -> None:
        self._files.step("sync", self.path)
        self._files.synced(self)


def _read_sector(file: File, sector: int) -> bytes:
    return file.read_at(sector * SECTOR_SIZE, SECTOR_SIZE).ljust(SECTOR_SIZE, b"\0")


def _related(changes: list[_Change]) -> list[list[_Change]]:
    """Changes in groups that have no name in common, each in the order they were made."""
    group_of: dict[str, int] = {}
    for number, change in enumerate(changes):
        merged = {group_of[name] for name in change.names if name in group_of}
        for name, group in group_of.items():
            if group in merged:
                group_of[name] = number
        group_of.update(dict.fromkeys(change.names, number))
    groups: dict[int, list[_Change]] = {}
    for change in changes:
        groups.setdefault(group_of[change.names[0]], []).append(change)
    return list(groups.values())
