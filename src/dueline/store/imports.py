"""What was taken over from other brokers' stores, kept in `imports.json` of the data folder.

One entry per import: from where, by which marks the source is recognised, with which choice, and
what the store held before. It is written before the first message is taken and again when the last
one is. Between the two the store is half full, so a broker must not run on it (`check_finished`):
running the import again finishes it. Small, replaced as a whole, on disk when `save` returns.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from dueline.errors import InvalidRequest, Unavailable
from dueline.store.files import Files

__all__ = ["IMPORTS_FILE", "ImportEntry", "Imports", "check_finished"]

IMPORTS_FILE: Final = "imports.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportEntry:
    """One import. Queues: topic -> queue id -> [first offset there, first offset here]."""

    source: str
    mark: dict[str, int] | None
    choice: dict[str, Any]
    started_ms: int
    next_seq: int
    queues: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    finished_ms: int | None = None
    counts: dict[str, int] = field(default_factory=dict)


class Imports:
    """The imports of one data folder."""

    def __init__(self, folder: Path, files: Files) -> None:
        self._path = folder / IMPORTS_FILE
        self._files = files
        self.entries: list[ImportEntry] = []
        if files.exists(self._path):
            self.entries = self._load()

    def _load(self) -> list[ImportEntry]:
        try:
            content = json.loads(self._files.read(self._path))
            return [ImportEntry(**entry) for entry in content["imports"]]
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidRequest(
                f"{self._path}: expected the imports as JSON, found: {error}; restore the file: "
                "without it an unfinished import cannot be told from a finished one",
                path=str(self._path),
            ) from error

    @property
    def unfinished(self) -> ImportEntry | None:
        return next((entry for entry in self.entries if entry.finished_ms is None), None)

    def begin(self, entry: ImportEntry) -> ImportEntry:
        """Remember an import that is about to write; on disk when it returns."""
        self.entries.append(entry)
        self._save()
        return entry

    def finish(self, entry: ImportEntry, *, now_ms: int, counts: dict[str, int]) -> None:
        """Remember that everything of an import is on disk."""
        done = replace(entry, finished_ms=now_ms, counts=counts)
        self.entries[self.entries.index(entry)] = done
        self._save()

    def _save(self) -> None:
        self._files.make_folder(self._path.parent)
        content = {"imports": [asdict(entry) for entry in self.entries]}
        self._files.replace(self._path, [json.dumps(content, indent=1).encode()])


def check_finished(folder: Path, files: Files) -> None:
    """Refuse to run on a store that an import has filled in part.

    Raises:
        Unavailable: says which one.
    """
    entry = Imports(folder, files).unfinished
    if entry is not None:
        raise Unavailable(
            f"data folder {folder}: expected no unfinished import, found one from {entry.source}; "
            f"run `dueline import {entry.source} --data {folder}` again, it goes on where it "
            "stopped",
            path=str(folder),
        )
