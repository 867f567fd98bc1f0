"""The broker's side of `dueline backup`: a cut, and the bytes of its files.

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

from dueline.broker.inflight.log import whole_size_bytes
from dueline.errors import InvalidRequest, NotFound, Unavailable
from dueline.store import Store
from dueline.store.cut import PIECE_BYTES, Cut, CutFile, inline, pieces_of
from dueline.store.files import TEMPORARY_SUFFIX, Files

__all__ = ["LEASE_S", "RECEIPTS_FILE", "Backup", "Backups"]

LEASE_S: Final = 120.0
RECEIPTS_FILE: Final = "receipts.log"
_LEFT_OUT: Final = ("spark.log", "serve.lock", "restart.json")
"""What a restored broker does not need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """One that has begun: `now_ms` is when its cut was made, the ends are the logs'."""

    hold: str
    folder: Path
    now_ms: int
    file_count: int
    delay_end: int
    commit_end: int
    accepted: int
    pending: int


@dataclass(slots=True)
class _Held:
    token: str
    files: list[CutFile]
    until_s: float


class Backups:
    """The backup of one broker; any thread may call."""

    def __init__(self, store: Store, *, files: Files, save: Callable[[], None]) -> None:
        """Args:
        save: writes what is kept in memory and belongs into a backup.
        """
        self._store = store
        self._files = files
        self._save = save
        self._lock = threading.Lock()
        self._held: _Held | None = None

    def begin(self) -> Backup:
        """Make a consistent cut, and delete nothing of it until the backup ends.

        Raises:
            Unavailable: another one is under way.
        """
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
        return Backup(
            hold=token,
            folder=self._store.path.parent.absolute(),
            now_ms=cut.now_ms,
            file_count=len(files),
            delay_end=cut.delay_end,
            commit_end=cut.commit_end,
            accepted=cut.next_seq,
            pending=cut.pending_count,
        )

    def _take(self) -> tuple[list[CutFile], Cut]:
        self._save()
        small = list(_data_files(self._store.path.parent, self._files))
        return small, self._store.cut()

    def renew(self, hold: str) -> float:
        """The backup is still under way; returns for how many seconds nothing is deleted."""
        self._renewed(hold)
        return LEASE_S

    def end(self, hold: str) -> bool:
        """The backup is done, or given up; returns whether it was under way."""
        with self._lock:
            is_known = self._held is not None and self._held.token == hold
            if is_known:
                self._held = None
                self._store.release()
        return is_known

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

    # Files

    def files(self, hold: str) -> Sequence[CutFile]:
        """All files of the cut; a file's number is its place."""
        return self._renewed(hold).files

    def pieces(self, hold: str, numbers: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
        """(file, position, bytes) of files in the given order, without those that are zero."""
        files = self._renewed(hold).files
        for number in numbers:
            if not 0 <= number < len(files):
                raise InvalidRequest(
                    f"file: expected a number below {len(files)}, found {number}", field="files"
                )
            for position, data in self._pieces(files[number]):
                self._renewed(hold)
                yield number, position, data

    def _pieces(self, file: CutFile) -> Iterator[tuple[int, bytes]]:
        if file.content is not None:
            for position in range(0, len(file.content), PIECE_BYTES):
                yield position, file.content[position : position + PIECE_BYTES]
            return
        path = self._store.path.parent / file.path
        yield from pieces_of(path, file.data_bytes, self._files)


def _data_files(folder: Path, files: Files) -> Iterator[CutFile]:
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
    content = file.content[: whole_size_bytes(file.content)]
    return replace(file, content=content, size_bytes=len(content), data_bytes=len(content))
