"""A consistent cut through the files of a running store, for a backup.

The cut is what a power failure at that moment would leave, at its best: a checkpoint, and both logs
up to an end that is synced and in the middle of no group. Recovery does the rest when the copy is
opened. While the files are copied, appends go on behind the cut; what the cut names is held, so
that retention, compaction and merges delete nothing of it (`Maintainer.hold`).

Three things change in place and may be copied a little newer than the cut. Each is derived and made
again by recovery: queue offsets in records that wait at the gate, units behind the checkpoint's end
of a queue, and what stands behind the logs' ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from dueline.store.checkpoint import Checkpoint
from dueline.store.consume_queue import UNIT_SIZE
from dueline.store.core import COMMIT_LOG, DELAY_LOG, QUEUES, Core
from dueline.store.files import TEMPORARY_SUFFIX, Files
from dueline.store.log import Log

__all__ = [
    "LEFT_OUT",
    "PIECE_BYTES",
    "Cut",
    "CutFile",
    "derived_files",
    "file_facts",
    "inline",
    "kept_names",
    "log_files",
    "pieces_of",
    "small_files",
]

PIECE_BYTES: Final = 1 << 20

_DERIVED: Final = ("timeline", "index")
_DONE: Final = "done"
_LARGE: Final = (COMMIT_LOG, DELAY_LOG, QUEUES, _DONE, *_DERIVED)
LEFT_OUT: Final = ("lock", "reserve", "synced")
"""Files of a store that mean nothing elsewhere."""

_SAVED: Final = ("checkpoint.json", "timeline.states")


@dataclass(frozen=True, slots=True, kw_only=True)
class CutFile:
    """A file as a backup has to copy it.

    Its first `data_bytes` are copied, zeros fill the rest of `size_bytes`. If it is sealed, it will
    not change as long as its `identity` is the same. Small files come with their `content`.
    """

    path: str
    size_bytes: int
    data_bytes: int
    identity: str
    is_sealed: bool
    content: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The files of a store at one moment, by their paths in its folder."""

    files: list[CutFile]
    delay_end: int
    commit_end: int
    next_seq: int
    pending_count: int
    now_ms: int


def kept_names() -> tuple[str, ...]:
    """The files that a checkpoint writes, each with its copy."""
    return tuple(f"{name}{suffix}" for name in _SAVED for suffix in ("", ".mirror"))


def small_files(root: Path, files: Files) -> Iterator[CutFile]:
    """Everything in a folder but logs, indexes, what a checkpoint writes, and what is left out."""
    for path in files.walk(root):
        name = path.relative_to(root).as_posix()
        if name.partition("/")[0] in _LARGE or name in (*kept_names(), *LEFT_OUT):
            continue
        if not path.name.endswith(TEMPORARY_SUFFIX):
            yield inline(name, path, files)


def inline(name: str, path: Path, files: Files) -> CutFile:
    """A small file with its content."""
    content = files.read(path)
    return CutFile(
        path=name,
        size_bytes=len(content),
        data_bytes=len(content),
        identity="",
        is_sealed=False,
        content=content,
    )


def log_files(core: Core, saved: Checkpoint) -> Iterator[CutFile]:
    """Both logs up to their ends; the caller holds them."""
    yield from _segments(core, core.delay, saved.delay_position)
    yield from _segments(core, core.commit, saved.commit_position)


def derived_files(core: Core, saved: Checkpoint) -> Iterator[CutFile]:
    """Queues and the other files that a checkpoint names.

    There may be a hundred thousand of them, and only maintenance changes them: the caller keeps it
    from going on, and holds no log, so that nobody waits.
    """
    for path in core.files.walk(core.path / QUEUES):
        if not path.name.endswith(TEMPORARY_SUFFIX):
            yield _queue_file(core, path)
    for path in core.files.walk(core.path / _DONE):
        if not path.name.endswith(TEMPORARY_SUFFIX):
            yield file_facts(core.path, path, is_sealed=True)
    for folder, names in (
        ("timeline", saved.runs),
        (f"index/{COMMIT_LOG}", saved.commit_keys),
        (f"index/{DELAY_LOG}", saved.delay_keys),
    ):
        for name in names:
            yield file_facts(core.path, core.path / folder / name, is_sealed=True)


def _segments(core: Core, log: Log, sealed_end: int) -> Iterator[CutFile]:
    """What lies before `sealed_end` is not written to any more."""
    for base in log.bases:
        if base < log.end or base == log.start:
            is_sealed = base + log.segment_size_bytes <= sealed_end
            data_bytes = max(min(log.end - base, log.segment_size_bytes), 0)
            path = log.path_of(base)
            yield file_facts(core.path, path, is_sealed=is_sealed, data_bytes=data_bytes)


def _queue_file(core: Core, path: Path) -> CutFile:
    """A queue's file is sealed when its last unit is written."""
    file = core.files.open(path)
    try:
        last = file.read_at(max(file.size_bytes - UNIT_SIZE, 0), UNIT_SIZE)
    finally:
        file.close()
    return file_facts(core.path, path, is_sealed=bool(last.strip(b"\0")))


def file_facts(
    root: Path, path: Path, *, is_sealed: bool, data_bytes: int | None = None
) -> CutFile:
    """A file of a folder, by what its folder's list tells."""
    found = path.stat()
    return CutFile(
        path=path.relative_to(root).as_posix(),
        size_bytes=found.st_size,
        data_bytes=found.st_size if data_bytes is None else data_bytes,
        identity=f"{found.st_ino}:{found.st_mtime_ns}:{found.st_size}",
        is_sealed=is_sealed,
    )


def pieces_of(path: Path, data_bytes: int, files: Files) -> Iterator[tuple[int, bytes]]:
    """The first bytes of a file in pieces, without those that are zero."""
    file = files.open(path)
    try:
        end = min(data_bytes, file.data_end(0))
        for position in range(0, end, PIECE_BYTES):
            data = file.read_at(position, min(PIECE_BYTES, end - position))
            if np.frombuffer(data, dtype=np.uint8).any():
                yield position, data
    finally:
        file.close()
