"""What a generation of a backup holds: every file with its size and its SHA-256.

A generation without a manifest is none: the manifest is written when everything else is on disk.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from dueline.backup.disk import read_json, write_json
from dueline.errors import CorruptRecord

__all__ = ["DATA", "FORMAT", "MANIFEST", "Entry", "Manifest"]

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
DATA: Final = "data"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file: the hash is of its first `data_bytes`, behind which it is zero.

    `identity` is what the source knew it by; a sealed file with the same one is the same file.
    """

    path: str
    size_bytes: int
    data_bytes: int
    sha256: str
    identity: str = ""
    is_sealed: bool = False

    def is_same(self, other: Entry) -> bool:
        return (
            self.is_sealed
            and other.is_sealed
            and (self.path, self.identity) == (other.path, other.identity)
            and (self.size_bytes, self.data_bytes) == (other.size_bytes, other.data_bytes)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One generation. `cut_ms`: everything that was accepted before is in it."""

    cut_ms: int
    source: str
    version: str
    shard: str = ""
    was_running: bool
    entries: list[Entry] = field(default_factory=list)
    facts: dict[str, int] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        write_json(folder / MANIFEST, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read a generation's manifest.

        Raises:
            FileNotFoundError: it is none, or not complete.
            CorruptRecord: it is damaged, or of another version.
        """
        plain: dict[str, Any] = read_json(folder / MANIFEST)
        found = plain.pop("format", None)
        if found != FORMAT:
            raise CorruptRecord(
                f"{folder / MANIFEST}: expected format {FORMAT}, found {found}; use the version of "
                "dueline that wrote it",
                path=str(folder / MANIFEST),
                position=0,
            )
        try:
            entries = [Entry(**entry) for entry in plain.pop("entries")]
            return cls(entries=entries, **plain)
        except (TypeError, KeyError) as error:
            raise CorruptRecord(
                f"{folder / MANIFEST}: {error}", path=str(folder / MANIFEST), position=0
            ) from error
