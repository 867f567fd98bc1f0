"""A backup over Flight: begun, renewed, ended, by requests without a port."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.store.making import START_MS, QuickFiles, Wall, delayed, open_store

from dueline.broker.backups import LEASE_S, Backups
from dueline.errors import NotFound, Unavailable
from dueline.flight import protocol
from dueline.server.flight import backup_actions as module
from dueline.server.flight.backup_actions import BackupActions, stream


@pytest.fixture
def backups(tmp_path: Path) -> Iterator[Backups]:
    with open_store(tmp_path / "store", Wall()) as store:
        store.put(delayed(5_000, b"later"))
        yield Backups(store, files=QuickFiles(), save=lambda: None)


def ask(actions: BackupActions, name: str, **request: str) -> Any:
    return json.loads(actions.table[name](json.dumps(request).encode()))


def test_a_backup_is_begun_renewed_and_ended(backups: Backups, tmp_path: Path) -> None:
    actions = BackupActions(backups, shard="shard-1")

    begun = ask(actions, "begin_backup")

    assert (begun["shard"], begun["folder"], begun["now_ms"]) == (
        "shard-1",
        str(tmp_path),
        START_MS,
    )
    assert (begun["accepted"], begun["pending"]) == (1, 1)
    with pytest.raises(Unavailable):
        ask(actions, "begin_backup")
    hold = begun["hold"]
    assert ask(actions, "renew_backup", hold=hold) == {"lease_ms": int(LEASE_S * 1_000)}
    assert ask(actions, "end_backup", hold=hold) == {"is_known": True}
    assert ask(actions, "end_backup", hold=hold) == {"is_known": False}
    with pytest.raises(NotFound):
        ask(actions, "renew_backup", hold=hold)


def test_a_long_list_comes_in_parts(backups: Backups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LIST_ROWS", 2)
    begun = backups.begin()
    schema, parts = stream(backups, protocol.ReadBackup(hold=begun.hold))
    batches = list(parts)

    assert {len(each) for each in batches} <= {1, 2}
    table = pa.Table.from_batches(batches, schema=schema)
    expected = [(one.path, one.size_bytes, one.is_sealed) for one in backups.files(begun.hold)]
    assert [
        (row["path"], row["size_bytes"], row["is_sealed"]) for row in table.to_pylist()
    ] == expected


def test_pieces_are_in_the_order_that_was_asked_for(backups: Backups) -> None:
    begun = backups.begin()
    numbers = tuple(reversed(range(begun.file_count)))
    _, parts = stream(backups, protocol.ReadBackup(hold=begun.hold, files=numbers))

    files = [batch.column("file")[0].as_py() for batch in parts]

    assert files == sorted(files, reverse=True)
    assert len(set(files)) > 1
