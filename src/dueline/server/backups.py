"""The broker's side of `dueline backup`: a cut, and its files as a stream.

`begin` saves what the broker keeps in memory, takes the small files first (older offsets and
receipts repeat messages, newer ones would skip some) and then a cut of the store. Until the backup
ends, or its lease runs out because nobody asks any more, nothing of the cut is deleted. One backup
at a time.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Final

import pyarrow as pa

from dueline import __version__
from dueline.audit.tables import RECEIPTS_FILE, whole_frames
from dueline.errors import InvalidRequest, NotFound, Unavailable
from dueline.flight import control
from dueline.store import Store
from dueline.store.cut import PIECE_BYTES, Cut, CutFile, inline, pieces_of
from dueline.store.files import TEMPORARY_SUFFIX, Files

__all__ = ["LEASE_S", "Backups", "data_files"]

LEASE_S: Final = 120.0
_LIST_ROWS: Final = 4096
_LEFT_OUT: Final = ("spark.log",)
"""What a restored broker does not need."""


@dataclass(slots=True)
class _Held:
    token: str
    files: list[CutFile]
    until_s: float


class Backups:
    """The backup of one broker; any thread may call."""

    def __init__(self, store: Store, *, files: Files, save: Callable[[], None], shard: str) -> None:
        """Args:
        save: writes what is kept in memory and belongs into a backup.
        """
        self._store = store
        self._files = files
        self._save = save
        self._shard = shard
        self._lock = threading.Lock()
        self._held: _Held | None = None

    def begin(self, request: control.BeginBackup) -> control.BackupBegun:
        with self._lock:
            if self._held is not None and monotonic() < self._held.until_s:
                raise Unavailable(
                    "backup: expected none under way, found one; wait until it is done, or "
                    f"{LEASE_S:.0f} s after it was interrupted"
                )
            self._store.hold(LEASE_S)
            try:
                small, cut = self._take()
            except BaseException:
                self._store.release()
                raise
            files = [*small, *(replace(one, path=f"store/{one.path}") for one in cut.files)]
            token = secrets.token_hex(16)
            self._held = _Held(token, files, monotonic() + LEASE_S)
            self._store.hold(LEASE_S)
        return control.BackupBegun(
            hold=token,
            version=__version__,
            shard=self._shard,
            folder=str(self._store.path.parent.absolute()),
            now_ms=cut.now_ms,
            file_count=len(files),
            delay_end=cut.delay_end,
            commit_end=cut.commit_end,
            accepted=cut.next_seq,
            pending=cut.pending_count,
        )

    def _take(self) -> tuple[list[CutFile], Cut]:
        self._save()
        small = list(data_files(self._store.path.parent, self._files))
        return small, self._store.cut()

    def renew(self, request: control.RenewBackup) -> control.BackupRenewed:
        self._renewed(request.hold)
        return control.BackupRenewed(lease_ms=int(1000 * LEASE_S))

    def end(self, request: control.EndBackup) -> control.BackupEnded:
        with self._lock:
            is_known = self._held is not None and self._held.token == request.hold
            if is_known:
                self._held = None
                self._store.release()
        return control.BackupEnded(is_known=is_known)

    def _renewed(self, token: str) -> _Held:
        """The backup under way, whose lease begins anew.

        Raises:
            NotFound: it is over, or was never begun.
        """
        with self._lock:
            held = self._held
            if held is None or held.token != token or monotonic() >= held.until_s:
                raise NotFound(
                    f"backup {token[:8]}: expected one under way, found none: its lease of "
                    f"{LEASE_S:.0f} s ran out or the broker was restarted; run the backup again, "
                    "it goes on with what is copied"
                )
            held.until_s = monotonic() + LEASE_S
            self._store.hold(LEASE_S)
            return held

    # Streams

    def list_files(self, token: str) -> Iterator[pa.RecordBatch]:
        """All files of the cut, by their number."""
        files = self._renewed(token).files
        for start in range(0, len(files), _LIST_ROWS):
            part = files[start : start + _LIST_ROWS]
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([one.path for one in part], pa.string()),
                    pa.array([one.size_bytes for one in part], pa.int64()),
                    pa.array([one.data_bytes for one in part], pa.int64()),
                    pa.array([one.identity for one in part], pa.string()),
                    pa.array([one.is_sealed for one in part], pa.bool_()),
                ],
                schema=control.BACKUP_FILES_SCHEMA,
            )

    def read_files(self, token: str, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
        """The bytes of files, in the given order, without those that are zero."""
        files = self._renewed(token).files
        for number in numbers:
            if not 0 <= number < len(files):
                raise InvalidRequest(
                    f"file: expected a number below {len(files)}, found {number}", field="files"
                )
            for position, data in self._pieces(files[number]):
                self._renewed(token)
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([number], pa.int32()),
                        pa.array([position], pa.int64()),
                        pa.array([data], pa.binary()),
                    ],
                    schema=control.BACKUP_PIECES_SCHEMA,
                )

    def _pieces(self, file: CutFile) -> Iterator[tuple[int, bytes]]:
        if file.content is not None:
            for position in range(0, len(file.content), PIECE_BYTES):
                yield position, file.content[position : position + PIECE_BYTES]
            return
        path = self._store.path.parent / file.path
        yield from pieces_of(path, file.data_bytes, self._files)


def data_files(folder: Path, files: Files) -> Iterator[CutFile]:
    """What a broker keeps beside its store."""
    for path in files.walk(folder):
        name = path.relative_to(folder).as_posix()
        is_left_out = name.startswith(("store/", *_LEFT_OUT)) or path.is_symlink()
        if not is_left_out and not name.endswith(TEMPORARY_SUFFIX):
            yield _whole(inline(name, path, files))


def _whole(file: CutFile) -> CutFile:
    """Receipts may be in the middle of a write: without what is not whole."""
    if file.path != RECEIPTS_FILE or file.content is None:
        return file
    content = file.content[: whole_frames(file.content)]
    return replace(file, content=content, size_bytes=len(content), data_bytes=len(content))
