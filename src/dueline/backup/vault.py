"""The destination of backups: a folder with one folder per generation.

    DEST/
      dueline-backup.json           says what this folder is
      20261116T120000Z/             a generation, named by the moment of its cut (UTC)
        manifest.json               every file with size and SHA-256; written last
        data/…                      a broker's data folder as it was then
      incomplete/                   a generation that is being written, or was interrupted
        copied.jsonl                which of its files are whole
      lock

A generation is a whole data folder: `dueline check` reads it as it is. A sealed file that the
generation before has already is linked, not copied, so that many generations take little more space
than one; on a file system without hard links it is copied from there. A generation appears by one
rename when everything in it is synced, so that nothing that was interrupted looks complete, and the
next backup takes over what is whole of it.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Final

from dueline.backup.disk import (
    FileWriter,
    clear_errors,
    hash_file,
    make_folder,
    read_json,
    remove_tree,
    sync_folder,
    write_json,
)
from dueline.backup.manifest import DATA, FORMAT, MANIFEST, Entry, Manifest
from dueline.errors import CorruptRecord, InvalidRequest
from dueline.store.core import COMMIT_LOG, DELAY_LOG
from dueline.store.files import Files, FolderLock

__all__ = ["Draft", "Vault", "check_path", "generations_of", "make_logs"]

MARKER: Final = "dueline-backup.json"
_INCOMPLETE: Final = "incomplete"
_COPIED: Final = "copied.jsonl"
_REMOVING: Final = "removing-"
_NAME: Final = "%Y%m%dT%H%M%SZ"


def generations_of(folder: Path) -> list[Path]:
    """The complete generations in a destination, the oldest first."""
    found = [path for path in folder.iterdir() if path.name[:8].isdigit()]
    return sorted(path for path in found if (path / MANIFEST).is_file())


class Vault:
    """A destination, open for one backup."""

    def __init__(self, folder: Path) -> None:
        """Make or open a destination.

        Raises:
            InvalidRequest: a folder that holds something else.
            StoreLocked: another backup writes to it.
            Unavailable: it cannot be written.
        """
        self.folder: Final = folder
        with clear_errors("backup", folder):
            make_folder(folder)
            self._check_ours()
            self._lock: FolderLock = Files().lock(folder / "lock")
            if not (folder / MARKER).exists():
                write_json(folder / MARKER, {"format": FORMAT, "what": "backups of dueline"})
            for path in folder.glob(f"{_REMOVING}*"):
                remove_tree(path)

    def _check_ours(self) -> None:
        names = sorted(path.name for path in self.folder.iterdir() if path.name != "lock")
        if (self.folder / MARKER).exists():
            read_json(self.folder / MARKER)
        elif [name for name in names if not name.startswith(f"{MARKER}.")]:
            raise InvalidRequest(
                f"{self.folder}: expected an empty folder or one with backups ({MARKER}), found "
                f"{', '.join(names[:5])}; choose another",
                path=str(self.folder),
            )

    def close(self) -> None:
        self._lock.release()

    def begin(self) -> Draft:
        """A new generation, with what is whole of an interrupted one."""
        generations = generations_of(self.folder)
        previous = generations[-1] if generations else None
        return Draft(self.folder / _INCOMPLETE, previous)

    def complete(self, draft: Draft, manifest: Manifest) -> Path:
        """Give a generation its name, for good."""
        draft.seal(manifest)
        target = self.folder / self._next_name(manifest.cut_ms)
        draft.folder.rename(target)
        sync_folder(self.folder)
        return target

    def _next_name(self, cut_ms: int) -> str:
        """Names are in the order in which generations were made, whatever the clock does."""
        name = datetime.fromtimestamp(cut_ms / 1000, UTC).strftime(_NAME)
        generations = generations_of(self.folder)
        if not generations or generations[-1].name < name:
            return name
        stamp, _, number = generations[-1].name.partition("-")
        return f"{stamp}-{int(number or 1) + 1:04d}"

    def keep(self, count: int) -> list[Path]:
        """Remove all but the newest generations; returns those that are gone."""
        gone = generations_of(self.folder)[:-count] if count else []
        for path in gone:
            # Under another name first: what is half removed must not look complete.
            doomed = self.folder / f"{_REMOVING}{path.name}"
            path.rename(doomed)
            remove_tree(doomed)
        return gone


class Draft:
    """A generation that is being written."""

    def __init__(self, folder: Path, previous: Path | None) -> None:
        self.folder: Final = folder
        self.data: Final = folder / DATA
        self._previous = previous
        self._known = _entries_of(previous)
        self._copied = self._left_over()
        self.done: dict[str, Entry] = {}
        self.linked_bytes = 0

    def _left_over(self) -> dict[str, Entry]:
        """The sealed files that an interrupted backup has copied whole."""
        make_folder(self.data)
        found = {}
        path = self.folder / _COPIED
        if path.exists():
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    try:
                        entry = Entry(**json.loads(line))
                    except (ValueError, TypeError):
                        break  # the last line is torn
                    if entry.is_sealed:
                        found[entry.path] = entry
        return found

    def reuse(self, entry: Entry) -> bool:
        """Take a file from an interrupted backup or from the last generation; False if neither has
        it."""
        target = self.data / check_path(entry.path)
        kept = self._copied.get(entry.path)
        if kept is not None and entry.is_same(kept) and _has_size(target, entry.size_bytes):
            self.done[entry.path] = kept
            self.linked_bytes += entry.data_bytes
            return True
        target.unlink(missing_ok=True)
        known = self._known.get(entry.path)
        if known is None or self._previous is None or not entry.is_same(known):
            return False
        source = self._previous / DATA / check_path(entry.path)
        if not _has_size(source, entry.size_bytes):
            return False
        make_folder(target.parent)
        if not _link(source, target, known):
            return False
        self.note(known)
        self.linked_bytes += entry.data_bytes
        return True

    def note(self, entry: Entry) -> None:
        """A file is whole."""
        self.done[entry.path] = entry
        if entry.is_sealed:
            with (self.folder / _COPIED).open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(entry)) + "\n")

    def open(self, entry: Entry) -> FileWriter:
        return FileWriter(self.data / check_path(entry.path))

    def finish(self, entry: Entry, writer: FileWriter) -> None:
        """A file that was copied is whole."""
        digest = writer.finish(data_bytes=entry.data_bytes, size_bytes=entry.size_bytes)
        self.note(replace(entry, sha256=digest))

    def remove_strays(self) -> None:
        """Files of an interrupted backup that are not in this one."""
        for path in list(self.data.rglob("*")):
            if path.is_file() and path.relative_to(self.data).as_posix() not in self.done:
                path.unlink()

    def seal(self, manifest: Manifest) -> None:
        """Everything is on disk; then say so."""
        for folder in [self.data, *(path for path in self.data.rglob("*") if path.is_dir())]:
            sync_folder(folder)
        (self.folder / _COPIED).unlink(missing_ok=True)
        manifest.save(self.folder)


def _entries_of(generation: Path | None) -> dict[str, Entry]:
    if generation is None:
        return {}
    try:
        return {entry.path: entry for entry in Manifest.load(generation).entries}
    except (OSError, CorruptRecord):
        return {}  # then everything is copied anew


def _has_size(path: Path, size_bytes: int) -> bool:
    return path.is_file() and path.stat().st_size == size_bytes


def _link(source: Path, target: Path, entry: Entry) -> bool:
    """Link a file of the last generation, or copy it where there are no links."""
    try:
        os.link(source, target)
    except OSError:
        if hash_file(source, entry.data_bytes) != entry.sha256:
            return False
        writer = FileWriter(target)
        with source.open("rb") as file:
            position = 0
            while data := file.read(1 << 20):
                if data.strip(b"\0"):
                    writer.write(position, data)
                position += len(data)
        size = entry.size_bytes
        writer.finish(data_bytes=max(entry.data_bytes, 0), size_bytes=size)
    return True


def make_logs(data: Path) -> None:
    """A store that never held anything has folders for its logs all the same."""
    for name in (COMMIT_LOG, DELAY_LOG):
        make_folder(data / "store" / name)


def check_path(path: str) -> str:
    """A path in a manifest leads into its folder and nowhere else.

    Raises:
        CorruptRecord: it does not.
    """
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or ".." in parts or "\0" in path:
        raise CorruptRecord(
            f"backup: expected the path of a file below its folder, found {path!r}",
            path=path,
            position=0,
        )
    return path
