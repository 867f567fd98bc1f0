"""Where a backup comes from: a running broker, or the folder of one that is stopped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

from dueline import __version__
from dueline.audit.audit import find_store
from dueline.backup.manifest import Entry, Manifest
from dueline.errors import RemoteProtocolError, StoreLocked, Unavailable
from dueline.flight.operators import (
    BackupBegun,
    BackupEnded,
    BeginBackup,
    EndBackup,
    OperatorClient,
)
from dueline.flight.protocol import ReadBackup, Ticket
from dueline.store.cut import LEFT_OUT, file_facts, pieces_of
from dueline.store.files import TEMPORARY_SUFFIX, Files

__all__ = ["BrokerSource", "FolderSource", "Piece", "Source"]

_ASK_COUNT: Final = 500
_ASK_BYTES: Final = 512 << 20

Piece = tuple[int, int, bytes]
"""The number of a file, a position in it, and bytes; what is left out is zero."""


class Source(Protocol):
    """A consistent set of files that stays as it is until `close`."""

    @property
    def manifest(self) -> Manifest:
        """Everything but the hashes."""

    def read(self, numbers: Sequence[int]) -> Iterator[Piece]:
        """The bytes of some files, one after the other in the given order."""

    def close(self) -> None: ...


class BrokerSource:
    """A running broker, over its Flight port: the same on its machine and on another."""

    def __init__(self, client: OperatorClient) -> None:
        self._client = client
        begun = client.ask(BeginBackup(), BackupBegun)
        self._hold = begun.hold
        try:
            self._manifest = self._list(begun)
        except BaseException:
            self.close()
            raise

    def _list(self, begun: BackupBegun) -> Manifest:
        ticket = Ticket(backup=ReadBackup(hold=self._hold))
        entries = [
            Entry(sha256="", **row)
            for batch in self._client.read(ticket)
            for row in batch.to_pylist()
        ]
        if len(entries) != begun.file_count:
            raise RemoteProtocolError(
                f"backup: expected {begun.file_count} files, found {len(entries)}"
            )
        return Manifest(
            cut_ms=begun.now_ms,
            source=begun.folder,
            version=begun.version,
            shard=begun.shard,
            was_running=True,
            entries=entries,
            facts={
                "accepted_delayed": begun.accepted,
                "pending": begun.pending,
                "delay_log_end": begun.delay_end,
                "commit_log_end": begun.commit_end,
            },
        )

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    def read(self, numbers: Sequence[int]) -> Iterator[Piece]:
        for part in self._parts(numbers):
            ticket = Ticket(backup=ReadBackup(hold=self._hold, files=tuple(part)))
            for batch in self._client.read(ticket):
                for row in batch.to_pylist():
                    yield row["file"], row["position"], row["data"]

    def _parts(self, numbers: Sequence[int]) -> Iterator[list[int]]:
        """So many that one call does not take for ever."""
        part: list[int] = []
        size = 0
        for number in numbers:
            part.append(number)
            size += self._manifest.entries[number].data_bytes
            if len(part) >= _ASK_COUNT or size >= _ASK_BYTES:
                yield part
                part, size = [], 0
        if part:
            yield part

    def close(self) -> None:
        with contextlib.suppress(Unavailable):  # it has gone, and the hold with it
            self._client.ask(EndBackup(hold=self._hold), BackupEnded)


class FolderSource:
    """The data folder of a broker that is stopped; none can start on it meanwhile."""

    def __init__(self, folder: Path, *, now_ms: int, files: Files | None = None) -> None:
        self._files = files or Files()
        self._folder = folder
        _, root = find_store(folder, self._files)
        try:
            self._lock = self._files.lock_shared(root / "lock")
        except StoreLocked as error:
            raise StoreLocked(
                f"{folder}: a broker runs on it; back it up over its Flight port "
                "(dueline backup DEST --broker HOST:PORT), or stop it first",
                path=str(folder),
            ) from error
        self._manifest = Manifest(
            cut_ms=now_ms,
            source=str(folder.absolute()),
            version=__version__,
            was_running=False,
            entries=list(self._entries(root)),
        )

    def _entries(self, root: Path) -> Iterator[Entry]:
        for path in self._files.walk(self._folder):
            name = path.relative_to(self._folder).as_posix()
            is_left_out = path in [root / one for one in LEFT_OUT] or name.startswith(
                ("spark.log", "serve.lock", "restart.json")
            )
            if is_left_out or name.endswith(TEMPORARY_SUFFIX) or path.is_symlink():
                continue
            facts = file_facts(self._folder, path, is_sealed=True)
            yield Entry(
                path=name if root != self._folder else f"store/{name}",
                size_bytes=facts.size_bytes,
                data_bytes=facts.data_bytes,
                sha256="",
                identity=facts.identity,
                is_sealed=True,
            )

    @property
    def manifest(self) -> Manifest:
        return self._manifest

    def read(self, numbers: Sequence[int]) -> Iterator[Piece]:
        root_is_store = not (self._folder / "store").is_dir()
        for number in numbers:
            entry = self._manifest.entries[number]
            name = entry.path.removeprefix("store/") if root_is_store else entry.path
            for position, data in pieces_of(self._folder / name, entry.data_bytes, self._files):
                yield number, position, data

    def close(self) -> None:
        if self._lock is not None:
            self._lock.release()
