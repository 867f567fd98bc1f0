"""Making a data folder again from a generation.

Everything is written to a folder inside the target and compared with the manifest's hashes on the
way; then the parts move to their places, the store last. So a restore that was interrupted leaves
no store that a broker would run on, and running it again begins anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dueline.audit import Audit, audit
from dueline.backup.disk import (
    FileWriter,
    clear_errors,
    make_folder,
    remove_tree,
    sync_folder,
)
from dueline.backup.manifest import DATA, MANIFEST, Entry, Manifest
from dueline.backup.vault import check_path, generations_of, make_logs
from dueline.errors import CorruptRecord, InvalidRequest, NotFound

__all__ = ["Restored", "find_generation", "restore"]

_UNDER_WAY: Final = ".restoring"
_PIECE: Final = 1 << 20

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was restored, and what a check says of it."""

    folder: Path
    generation: Path
    manifest: Manifest
    audit: Audit


def find_generation(backup: Path) -> Path:
    """A generation, or the newest one in a destination.

    Raises:
        NotFound: there is none that is complete.
    """
    if (backup / MANIFEST).is_file():
        return backup
    if backup.is_dir():
        found = generations_of(backup)
        if found:
            return found[-1]
    names = ", ".join(sorted(path.name for path in backup.iterdir())[:5]) if backup.is_dir() else ""
    raise NotFound(
        f"{backup}: expected a backup that is complete (a folder with {MANIFEST}, or one with such "
        f"folders in it), found {names or 'nothing'}",
        path=str(backup),
    )


def restore(
    generation: Path,
    target: Path,
    *,
    progress: Progress = lambda what, done, total: None,
) -> Restored:
    """Write a generation's files into a folder that is empty, and check them.

    Raises:
        InvalidRequest: the folder holds something.
        CorruptRecord: a file of the backup is damaged or missing; the folder is empty then.
        Unavailable: no room, or no permission.
    """
    manifest = Manifest.load(generation)
    with clear_errors("restore", target):
        make_folder(target)
        held = sorted(path.name for path in target.iterdir() if path.name != _UNDER_WAY)
        if held:
            raise InvalidRequest(
                f"{target}: expected an empty folder, found {', '.join(held[:5])}; a restore "
                "overwrites nothing: choose another folder, or move these away",
                path=str(target),
            )
        under_way = target / _UNDER_WAY
        remove_tree(under_way)
        under_way.mkdir(mode=0o700)
        try:
            _copy_all(manifest, generation, under_way, progress)
        except CorruptRecord:
            remove_tree(under_way)
            raise
    found = audit(under_way, is_running=False, progress=progress)
    with clear_errors("restore", target):
        for path in sorted(under_way.iterdir(), key=lambda path: path.name == "store"):
            path.rename(target / path.name)
            sync_folder(target)
        under_way.rmdir()
        sync_folder(target)
    return Restored(folder=target, generation=generation, manifest=manifest, audit=found)


def _copy_all(manifest: Manifest, generation: Path, folder: Path, progress: Progress) -> None:
    total = sum(entry.data_bytes for entry in manifest.entries)
    done = 0
    for entry in manifest.entries:
        _copy(entry, generation / DATA, folder)
        done += entry.data_bytes
        progress("restored", done, total)
    make_logs(folder)
    for path in [folder, *(path for path in folder.rglob("*") if path.is_dir())]:
        sync_folder(path)


def _copy(entry: Entry, source: Path, folder: Path) -> None:
    path = source / check_path(entry.path)
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise _damaged(path, "a file", "none") from error
    writer = FileWriter(folder / entry.path)
    with file:
        for position in range(0, entry.data_bytes, _PIECE):
            data = file.read(min(_PIECE, entry.data_bytes - position))
            if data.strip(b"\0"):
                writer.write(position, data)
    digest = writer.finish(data_bytes=entry.data_bytes, size_bytes=entry.size_bytes)
    if digest != entry.sha256:
        raise _damaged(path, f"SHA-256 {entry.sha256}", digest)


def _damaged(path: Path, expected: str, found: str) -> CorruptRecord:
    return CorruptRecord(
        f"{path}: expected {expected}, found {found}: the backup is damaged; restore another "
        "generation",
        path=str(path),
        position=0,
    )
