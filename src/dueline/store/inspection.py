"""Looking into log files from outside: any store of this format, without its owner's knowledge.

`find_logs` recognises what a path is; `entries` walks one segment after the other and says what
stands where: records, blanks, gaps of compacted segments, and damage with its range and reason.
Nothing is written, created or locked, so it works beside a running broker; of a record that is
being written at this moment nothing or all is seen, see `Patience`.

    a store of ours      DIR/commitlog and DIR/delaylog
    RocketMQ's store     DIR/commitlog
    a folder of segments DIR/00000000000000000000 …
    one segment          a file; if its name is no position, its first record says where it starts
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dueline.errors import CorruptRecord, NotFound
from dueline.store import record as records
from dueline.store.core import COMMIT_LOG, DELAY_LOG
from dueline.store.files import POSITION_NAME, File, Files
from dueline.store.layout import POSITION_AT, SIZE_MAGIC
from dueline.store.record import BLANK_MAGIC, GAP_MAGIC, MAGIC, RECORD_MAGICS, Record
from dueline.store.scan import Walk

__all__ = ["BLANK", "DAMAGE", "GAP", "RECORD", "Entry", "LogFiles", "entries", "find_logs"]

RECORD: Final = "record"
BLANK: Final = "blank"
GAP: Final = "gap"
DAMAGE: Final = "damage"


Patience = Callable[[], bool]
"""Asked when the last segment ends in bytes that are no record: may they be looked at again?
A caller that answers yes has waited a moment; a record that is being written is whole by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFiles:
    """The segments of one log: (position of its first byte, file), in order. `root` is the store's
    folder if the log is one of a store of ours."""

    name: str
    segments: list[tuple[int, Path]]
    root: Path | None = None

    @property
    def is_delay_log(self) -> bool:
        return self.name == DELAY_LOG


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the bytes [position, position + size) of a log are."""

    kind: str
    position: int
    size: int
    record: Record | None = None
    reason: str = ""
    is_tail: bool = False  # damage that nothing sound follows


def find_logs(path: Path, files: Files | None = None) -> list[LogFiles]:
    """The logs that a path holds, the commit log first.

    Raises:
        NotFound: no such path, or neither a store nor segments.
    """
    files = files or Files()
    if not files.exists(path):
        raise NotFound(f"{path}: expected a store or a log, found nothing there", path=str(path))
    if path.is_file():
        return [LogFiles(name=path.parent.name, segments=[(_base_of(path, files), path)])]
    root = path if (path / DELAY_LOG).is_dir() else None
    logs = [
        LogFiles(name=name, segments=_segments(path / name, files), root=root)
        for name in (COMMIT_LOG, DELAY_LOG)
        if (path / name).is_dir()
    ]
    if logs:
        return logs
    segments = _segments(path, files)
    if segments:
        is_ours = path.name in (COMMIT_LOG, DELAY_LOG) and (path.parent / DELAY_LOG).is_dir()
        return [LogFiles(name=path.name, segments=segments, root=path.parent if is_ours else None)]
    raise NotFound(
        f"{path}: expected a store ({COMMIT_LOG} or {DELAY_LOG} in it) or segments named by their "
        f"position in 20 digits, found {', '.join(files.all_names(path)[:5]) or 'an empty folder'}",
        path=str(path),
    )


def _segments(folder: Path, files: Files) -> list[tuple[int, Path]]:
    return [(int(name), folder / name) for name in files.names(folder, POSITION_NAME)]


def _base_of(path: Path, files: Files) -> int:
    """Where a lone segment starts: its name, or what its first record says of itself."""
    if path.name.isascii() and path.name.isdigit():
        return int(path.name)
    file = files.open(path)
    try:
        head = file.read_at(0, POSITION_AT + 8)
    finally:
        file.close()
    if len(head) < POSITION_AT + 8 or SIZE_MAGIC.unpack_from(head)[1] != MAGIC:
        raise NotFound(
            f"{path}: expected a segment named by its position, or one that begins with a record "
            "that says its position, "
            f"found {head[:16].hex() or 'an empty file'}",
            path=str(path),
        )
    return int.from_bytes(head[POSITION_AT:], "big")


def entries(
    log: LogFiles,
    *,
    start: int = 0,
    patience: Patience = lambda: False,
    files: Files | None = None,
) -> Iterator[Entry]:
    """Everything in a log from the first record at or after `start` on."""
    files = files or Files()
    last = len(log.segments) - 1
    for number, (base, path) in enumerate(log.segments):
        try:
            file = files.open(path)
        except FileNotFoundError:
            continue  # retention was quicker
        try:
            if base + max(file.size_bytes, 1) > start:
                again = patience if number == last else lambda: False
                yield from _segment_entries(file, base, start, again)
        finally:
            file.close()


def _segment_entries(file: File, base: int, start: int, patience: Patience) -> Iterator[Entry]:
    size = file.size_bytes
    if size == 0:
        yield Entry(kind=DAMAGE, position=base, size=0, reason="an empty file: expected a segment")
        return
    view = file.view().data
    walk = Walk(file=file, view=view, base=base, data_end=file.data_end(0))
    at = 0
    if start > base:
        at = walk.find(start - base)
        if at < 0:
            return
    while at < size:
        entry = _entry_at(walk, at)
        if entry is None:
            return
        if entry.is_tail and patience():
            walk = Walk(file=file, view=view, base=base, data_end=file.data_end(0))
            continue
        yield entry
        at += entry.size


def _entry_at(walk: Walk, at: int) -> Entry | None:
    """What begins at `at` of a segment; None if only zeros follow."""
    view, position, left = walk.view, walk.base + at, len(walk.view) - at
    size, magic = SIZE_MAGIC.unpack_from(view, at) if left >= SIZE_MAGIC.size else (0, 0)
    if magic == BLANK_MAGIC and size == left:
        return Entry(kind=BLANK, position=position, size=size)
    if magic == GAP_MAGIC and SIZE_MAGIC.size <= size <= left:
        return Entry(kind=GAP, position=position, size=size)
    reason = "bytes that are no record"
    if magic in RECORD_MAGICS:
        try:
            record = records.decode(view[at:], position=position)
            return Entry(kind=RECORD, position=position, size=size, record=record)
        except CorruptRecord as error:
            reason = error.message
    found = walk.find(at + 1)
    if found >= 0:
        return Entry(kind=DAMAGE, position=position, size=found - at, reason=reason)
    end = _written_end(view, at, walk.data_end)
    if end == at:
        return None
    return Entry(
        kind=DAMAGE, position=position, size=end - at, reason=f"torn: {reason}", is_tail=True
    )


def _written_end(view: memoryview, at: int, data_end: int) -> int:
    """Behind the last byte from `at` on that is not zero."""
    end = data_end
    while end > at:
        start = max(at, end - (1 << 20))
        kept = bytes(view[start:end]).rstrip(b"\0")
        if kept:
            return start + len(kept)
        end = start
    return at
