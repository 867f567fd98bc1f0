"""Backups of a broker in this process, and of one that is stopped: whole, incremental, private."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from tests.audit.making import make_data, snapshot_of
from tests.unit.server.local import (
    carry,
    connect,
    outgoing,
    running,
    send,
    send_by,
    small_config,
    visible_bodies,
)

from dueline.audit import audit
from dueline.backup import (
    BrokerSource,
    FolderSource,
    Result,
    Vault,
    back_up,
    find_generation,
    generations_of,
    restore,
)
from dueline.errors import (
    CorruptRecord,
    InvalidRequest,
    NotFound,
    StoreLocked,
    Unavailable,
)
from dueline.flight.operators import OperatorClient
from dueline.server.process import BrokerProcess

LATER = "4000000000000"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    config = small_config(tmp_path / "data", **{"store.delay_max": "90000d"})
    with running(config) as broker:
        yield broker


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[OperatorClient]:
    with OperatorClient(broker.address) as client:
        yield client


def fill(broker: BrokerProcess, count: int, name: str = "m", size: int = 3_000) -> None:
    """Messages for now and for much later, large enough that segments fill up."""
    body = "x" * size
    with connect(broker) as peer:
        for number in range(count):
            answers = send_by(
                peer,
                outgoing(f"{name} {number} now {body}"),
                outgoing(f"{name} {number} later {body}", TIMER_DELIVER_MS=LATER),
            )
            assert answers == [None, None]


def take(client: OperatorClient, dest: Path, *, keep: int = 0) -> Result:
    vault = Vault(dest)
    try:
        source = BrokerSource(client)
        try:
            return back_up(source, vault, keep=keep)
        finally:
            source.close()
    finally:
        vault.close()


def take_stopped(data: Path, dest: Path, now_ms: int = 1) -> Result:
    vault = Vault(dest)
    try:
        source = FolderSource(data, now_ms=now_ms)
        try:
            return back_up(source, vault)
        finally:
            source.close()
    finally:
        vault.close()


def test_a_running_brokers_backup_is_sound_and_holds_everything(
    client: OperatorClient, broker: BrokerProcess, tmp_path: Path
) -> None:
    fill(broker, 20)

    result = take(client, tmp_path / "dest")

    assert result.audit is not None
    assert result.audit.exit_code == 0, result.audit.findings.kept
    assert result.audit.counts["pending"] == 20
    target = tmp_path / "restored"
    restored = restore(find_generation(tmp_path / "dest"), target)
    assert restored.audit.exit_code == 0
    assert restored.audit.next_due_ms == int(LATER)
    config = small_config(target, **{"store.delay_max": "90000d"})
    with running(config) as again:
        assert [body.split(" x")[0] for body in visible_bodies(again)] == [
            f"m {number} now" for number in range(20)
        ]
        assert again.store.pending_count() == 20


def test_sealed_files_are_copied_once(
    client: OperatorClient, broker: BrokerProcess, tmp_path: Path
) -> None:
    dest = tmp_path / "dest"
    fill(broker, 600)
    first = take(client, dest)
    fill(broker, 5, "n")

    second = take(client, dest)

    assert first.linked_bytes == 0
    assert second.linked_bytes > 2 << 20
    sealed = "data/store/delaylog/00000000000000000000"
    one, other = (folder / sealed for folder in generations_of(dest))
    assert one.stat().st_ino == other.stat().st_ino
    for generation in generations_of(dest):
        assert audit(generation / "data").exit_code == 0


def test_a_compacted_segment_is_copied_again(
    client: OperatorClient, broker: BrokerProcess, tmp_path: Path
) -> None:
    dest = tmp_path / "dest"
    fill(broker, 600)
    take(client, dest)
    broker.store.cancel_seqs(np.array([n for n in range(560) if n % 100], dtype="int64"))
    broker.store.checkpoint()
    assert broker.store.retain().compacted_segments >= 1

    second = take(client, dest)

    assert second.audit is not None
    assert second.audit.exit_code == 0
    sealed = "data/store/delaylog/00000000000000000000"
    one, other = (folder / sealed for folder in generations_of(dest))
    assert one.stat().st_ino != other.stat().st_ino


def test_nothing_of_a_cut_is_deleted_while_it_is_copied(
    client: OperatorClient, broker: BrokerProcess, tmp_path: Path
) -> None:
    fill(broker, 600)
    source = BrokerSource(client)
    broker.store.cancel_seqs(np.arange(600, dtype="int64"))
    broker.store.checkpoint()
    held = broker.store.retain()
    vault = Vault(tmp_path / "dest")
    result = back_up(source, vault)
    vault.close()

    released = broker.store.retain()

    assert (held.delay_segments, held.compacted_segments) == (0, 0)
    assert released.delay_segments >= 1
    assert result.audit is not None
    assert (result.audit.exit_code, result.audit.counts["pending"]) == (0, 600)


def test_one_backup_at_a_time(client: OperatorClient) -> None:
    source = BrokerSource(client)

    with pytest.raises(Unavailable, match="one"):
        BrokerSource(client)

    source.close()
    BrokerSource(client).close()


def test_a_backup_that_is_over_cannot_be_read(client: OperatorClient) -> None:
    source = BrokerSource(client)
    source.close()

    with pytest.raises(NotFound, match="run the backup again"):
        list(source.read([0]))


def test_an_interrupted_backup_never_looks_complete_and_is_continued(
    client: OperatorClient, broker: BrokerProcess, tmp_path: Path
) -> None:
    dest = tmp_path / "dest"
    fill(broker, 600)

    class Interrupted(BrokerSource):
        def read(self, numbers):  # type: ignore[no-untyped-def]
            names = [self.manifest.entries[number].path for number in numbers]
            for piece in super().read(numbers):
                if piece[0] != numbers[0] and "commitlog/" in names[numbers.index(piece[0])]:
                    raise KeyboardInterrupt
                yield piece

    vault = Vault(dest)
    source = Interrupted(client)
    with pytest.raises(KeyboardInterrupt):
        back_up(source, vault)
    source.close()
    vault.close()
    assert generations_of(dest) == []
    with pytest.raises(NotFound, match="complete"):
        find_generation(dest)

    result = take(client, dest)

    assert result.linked_bytes >= 1 << 20, "the delay log was copied before"
    assert result.audit is not None
    assert result.audit.exit_code == 0
    assert len(generations_of(dest)) == 1


def test_only_so_many_generations_are_kept(
    client: OperatorClient, broker: BrokerProcess, tmp_path: Path
) -> None:
    dest = tmp_path / "dest"
    for number in range(4):
        fill(broker, 1, str(number))
        result = take(client, dest, keep=2)

    found = generations_of(dest)
    assert len(found) == 2
    assert found[-1] == result.folder
    assert restore(found[0], tmp_path / "old").audit.counts["pending"] == 3
    assert {path.name for path in dest.iterdir()} == {
        *(path.name for path in found),
        "dueline-backup.json",
        "lock",
    }


def test_the_newest_generation_has_the_last_name_also_when_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "data")

    made = [
        take_stopped(data, tmp_path / "dest", now_ms).folder for now_ms in (9_000, 5_000, 9_500)
    ]

    assert generations_of(tmp_path / "dest") == made
    assert [path.name for path in made] == [
        "19700101T000009Z",
        "19700101T000009Z-0002",
        "19700101T000009Z-0003",
    ]


_LEFT_OUT = ("store/lock", "store/synced")


def test_a_stopped_store_is_backed_up_without_a_change(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    before = snapshot_of(data)

    result = take_stopped(data, tmp_path / "dest")
    again = take_stopped(data, tmp_path / "dest")

    assert snapshot_of(data) == before
    assert result.audit is not None
    assert result.audit.exit_code == 0
    assert again.copied_bytes == 0
    copied = snapshot_of(result.folder / "data")
    assert {name: one[0] for name, one in copied.items()} == {
        name: one[0] for name, one in before.items() if name not in _LEFT_OUT
    }


def test_a_running_store_is_not_copied_behind_its_brokers_back(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    script = "import sys; from dueline.cli import main; sys.exit(main(sys.argv[1:]))"
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            script,
            "backup",
            str(tmp_path / "dest"),
            "--data",
            str(broker.config.folder),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 2
    assert "a broker runs on it" in ran.stderr


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    data = make_data(tmp_path / "data")
    old = os.umask(0)
    try:
        result = take_stopped(data, tmp_path / "dest")
        restore(result.folder, tmp_path / "restored")
    finally:
        os.umask(old)

    for folder in (result.folder, tmp_path / "restored"):
        for path in [folder, *folder.rglob("*")]:
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_restore_overwrites_nothing(tmp_path: Path) -> None:
    result = take_stopped(make_data(tmp_path / "data"), tmp_path / "dest")
    target = tmp_path / "restored"
    target.mkdir()
    (target / "notes.txt").write_text("mine")

    with pytest.raises(InvalidRequest, match=r"empty folder, found notes.txt"):
        restore(result.folder, target)

    assert [path.name for path in target.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("damage", ["flip", "missing", "manifest"])
def test_a_damaged_backup_is_not_restored(tmp_path: Path, damage: str) -> None:
    result = take_stopped(make_data(tmp_path / "data"), tmp_path / "dest")
    path = max((result.folder / "data/store/delaylog").iterdir())
    if damage == "manifest":
        path = result.folder / "manifest.json"
    if damage == "missing":
        path.unlink()
    else:
        content = bytearray(path.read_bytes())
        content[200] ^= 1
        path.write_bytes(content)

    with pytest.raises(CorruptRecord):
        restore(result.folder, tmp_path / "restored")

    assert not (tmp_path / "restored" / "store").exists()


def test_an_interrupted_restore_leaves_no_store_and_begins_anew(tmp_path: Path) -> None:
    result = take_stopped(make_data(tmp_path / "data"), tmp_path / "dest")
    target = tmp_path / "restored"

    def interrupt(what: str, done: int, total: int) -> None:
        if what == "restored" and done > total // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(result.folder, target, progress=interrupt)
    assert not (target / "store").exists()

    assert restore(result.folder, target).audit.exit_code == 0
    assert not (target / ".restoring").exists()


def test_a_destination_that_holds_other_things_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dest").mkdir()
    (tmp_path / "dest" / "photos").mkdir()

    with pytest.raises(InvalidRequest, match="photos"):
        Vault(tmp_path / "dest")


def test_two_backups_into_one_destination_wait_for_each_other(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from dueline.backup import Vault\n"
        "Vault(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "dest")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(StoreLocked):
            Vault(tmp_path / "dest")
    finally:
        holder.communicate()


def test_missing_permission_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = make_data(tmp_path / "data")
    real = os.open

    def refuse(path: Path, *arguments: int) -> int:
        if str(path).startswith(str(tmp_path)):  # other threads open files too
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, *arguments)

    monkeypatch.setattr("dueline.backup.disk.os.open", refuse)

    with pytest.raises(Unavailable, match="expected the permission"):
        take_stopped(data, tmp_path / "dest")


def test_a_full_destination_is_said_and_the_backup_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_data(tmp_path / "data")
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("dueline.backup.copying.disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(Unavailable, match="expected room for"):
        take_stopped(data, tmp_path / "dest")
    monkeypatch.undo()

    assert generations_of(tmp_path / "dest") == []
    assert take_stopped(data, tmp_path / "dest").folder.exists()


def test_a_disk_that_fills_up_under_way_is_said_and_nothing_looks_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_data(tmp_path / "data")
    written = 0
    real = os.pwrite

    def pwrite(fd: int, data: bytes, position: int) -> int:
        nonlocal written
        written += len(data)
        if written > 30_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data, position)

    monkeypatch.setattr("dueline.backup.disk.os.pwrite", pwrite)
    with pytest.raises(Unavailable, match="the disk is full"):
        take_stopped(data, tmp_path / "dest")
    monkeypatch.undo()
    assert generations_of(tmp_path / "dest") == []

    result = take_stopped(data, tmp_path / "dest")
    assert result.linked_bytes > 10_000, "what was whole is not copied again"
    assert restore(result.folder, tmp_path / "restored").audit.exit_code == 0


def test_a_hold_that_nobody_renews_runs_out(
    client: OperatorClient, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(broker, 600)
    monkeypatch.setattr("dueline.broker.backups.LEASE_S", 0.0)
    with pytest.raises(NotFound, match="lease"):
        BrokerSource(client)
    broker.store.cancel_seqs(np.arange(600, dtype=np.int64))
    broker.store.checkpoint()

    assert broker.store.retain().delay_segments >= 1


def test_a_path_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    result = take_stopped(make_data(tmp_path / "data"), tmp_path / "dest")
    path = result.folder / "manifest.json"
    plain = json.loads(path.read_bytes().partition(b"\n")[2])
    plain["entries"][0]["path"] = "../../evil"
    text = json.dumps(plain).encode()
    path.write_bytes(b"%08x\n" % crc32(text) + text)

    with pytest.raises(CorruptRecord, match="below its folder"):
        restore(result.folder, tmp_path / "restored")


def test_a_broker_that_never_held_anything_has_a_backup(
    client: OperatorClient, tmp_path: Path
) -> None:
    result = take(client, tmp_path / "dest")

    assert result.audit is not None
    assert result.audit.exit_code == 0
    assert restore(result.folder, tmp_path / "restored").audit.exit_code == 0


def test_what_waits_at_the_gate_is_in_the_backup(
    client: OperatorClient, broker: BrokerProcess, tmp_path: Path
) -> None:
    soon = broker.clock.now_ms() + 50_000
    send(broker, outgoing("soon", TIMER_DELIVER_MS=str(soon)))
    assert carry(broker.store) == 1

    result = take(client, tmp_path / "dest")

    assert result.audit is not None
    assert result.audit.counts["at_gate"] == 1
    assert result.audit.exit_code == 0
