"""What `dueline backup` asks: a cut, its files, and its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from dueline import __version__
from dueline.broker.backups import Backups
from dueline.flight import operators, protocol
from dueline.server.flight.answering import Handler, handler

__all__ = ["BackupActions", "stream"]

_LIST_ROWS: Final = 4096


class BackupActions:
    """The requests of a backup, by their names in `table`."""

    def __init__(self, backups: Backups, *, shard: str) -> None:
        self._backups = backups
        self._shard = shard
        self.table: Final[dict[str, Handler]] = {
            "begin_backup": handler(operators.BeginBackup, self._begin),
            "renew_backup": handler(operators.RenewBackup, self._renew),
            "end_backup": handler(operators.EndBackup, self._end),
        }

    def _begin(self, request: operators.BeginBackup) -> operators.BackupBegun:
        begun = self._backups.begin()
        return operators.BackupBegun(
            hold=begun.hold,
            version=__version__,
            shard=self._shard,
            folder=str(begun.folder),
            now_ms=begun.now_ms,
            file_count=begun.file_count,
            delay_end=begun.delay_end,
            commit_end=begun.commit_end,
            accepted=begun.accepted,
            pending=begun.pending,
        )

    def _renew(self, request: operators.RenewBackup) -> operators.BackupRenewed:
        return operators.BackupRenewed(lease_ms=int(1000 * self._backups.renew(request.hold)))

    def _end(self, request: operators.EndBackup) -> operators.BackupEnded:
        return operators.BackupEnded(is_known=self._backups.end(request.hold))


def stream(
    backups: Backups, wanted: protocol.ReadBackup
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """The list of a backup's files, or the bytes of some of them."""
    if wanted.files is None:
        return operators.BACKUP_FILES_SCHEMA, _list(backups, wanted.hold)
    return operators.BACKUP_PIECES_SCHEMA, _pieces(backups, wanted.hold, wanted.files)


def _list(backups: Backups, hold: str) -> Iterator[pa.RecordBatch]:
    files = backups.files(hold)
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
            schema=operators.BACKUP_FILES_SCHEMA,
        )


def _pieces(backups: Backups, hold: str, numbers: Sequence[int]) -> Iterator[pa.RecordBatch]:
    for number, position, data in backups.pieces(hold, numbers):
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([number], pa.int32()),
                pa.array([position], pa.int64()),
                pa.array([data], pa.binary()),
            ],
            schema=operators.BACKUP_PIECES_SCHEMA,
        )
