"""Making a generation: what is sealed and known is linked, the rest is copied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import disk_usage

from dueline.audit import Audit, audit
from dueline.backup.disk import clear_errors
from dueline.backup.manifest import Manifest
from dueline.backup.source import Source
from dueline.backup.vault import Draft, Vault, make_logs
from dueline.errors import RemoteProtocolError, Unavailable

__all__ = ["Progress", "Result", "back_up"]

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A generation that was made. `audit` is None if it was not asked for."""

    folder: Path
    manifest: Manifest
    copied_bytes: int
    linked_bytes: int
    removed: list[Path]
    audit: Audit | None


def back_up(
    source: Source,
    vault: Vault,
    *,
    keep: int = 0,
    is_checked: bool = True,
    progress: Progress = lambda what, done, total: None,
) -> Result:
    """Copy a source into a new generation.

    Args:
        keep: how many generations to keep; 0 keeps all.

    Raises:
        Unavailable: the destination is full or cannot be written; running it again goes on.
    """
    with clear_errors("backup", vault.folder):
        draft = vault.begin()
        copied = _copy(source, draft, progress)
        draft.remove_strays()
        make_logs(draft.data)
        manifest = source.manifest
        manifest = replace(manifest, entries=[draft.done[one.path] for one in manifest.entries])
    source.close()  # nothing more is read: the broker may delete again
    found = audit(draft.data, is_running=False, progress=progress) if is_checked else None
    if found is not None:
        facts = {**manifest.facts, **found.counts, "check_exit_code": found.exit_code}
        if found.next_due_ms is not None:
            facts["next_due_ms"] = found.next_due_ms
        manifest = replace(manifest, facts=facts)
    with clear_errors("backup", vault.folder):
        folder = vault.complete(draft, manifest)
        # Never an older sound generation for a new one that is not.
        is_sound = found is None or found.exit_code < 2
        removed = vault.keep(keep) if is_sound else []
    return Result(
        folder=folder,
        manifest=manifest,
        copied_bytes=copied,
        linked_bytes=draft.linked_bytes,
        removed=removed,
        audit=found,
    )


def _copy(source: Source, draft: Draft, progress: Progress) -> int:
    """Bring in every file; returns how many bytes were copied."""
    entries = source.manifest.entries
    wanted = [number for number, entry in enumerate(entries) if not draft.reuse(entry)]
    total = sum(entries[number].data_bytes for number in wanted)
    _check_room(draft.folder, total)
    done = 0
    pieces = source.read(wanted)
    piece = next(pieces, None)
    for number in wanted:  # pieces come file by file, in the order that was asked for
        entry = entries[number]
        writer = draft.open(entry)
        try:
            while piece is not None and piece[0] == number:
                writer.write(piece[1], piece[2])
                progress("copied", done + piece[1] + len(piece[2]), total)
                piece = next(pieces, None)
            draft.finish(entry, writer)
        finally:
            writer.close()
        done += entry.data_bytes
    if piece is not None:
        raise RemoteProtocolError(f"backup: expected the files asked for, found file {piece[0]}")
    return total


def _check_room(folder: Path, needed: int) -> None:
    free = disk_usage(folder).free
    if needed > free:
        raise Unavailable(
            f"backup: expected room for {needed:,} bytes at {folder.parent}, found {free:,}; free "
            "disk space, or keep fewer generations (--keep)",
            path=str(folder),
        )
