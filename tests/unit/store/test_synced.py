"""The hint of what was synced: kept in two slots, doubted when damaged, never in the way."""

from __future__ import annotations

from pathlib import Path

from dueline.store.files import Files
from dueline.store.synced import COMMIT_SLOT, DELAY_SLOT, Synced
from dueline.testing import FaultyFiles


def test_each_log_has_its_own_slot(tmp_path: Path) -> None:
    synced = Synced(Files(), tmp_path / "synced")
    assert synced.open() == (0, 0)
    synced.note(DELAY_SLOT, 700)
    synced.note(COMMIT_SLOT, 1 << 40)
    synced.note(DELAY_SLOT, 800)
    synced.close()

    assert Synced(Files(), tmp_path / "synced").open() == (800, 1 << 40)


def test_a_damaged_slot_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / "synced"
    synced = Synced(Files(), path)
    synced.open()
    synced.note(DELAY_SLOT, 700)
    synced.note(COMMIT_SLOT, 900)
    synced.close()
    data = bytearray(path.read_bytes())
    data[7] ^= 1
    path.write_bytes(data)

    assert Synced(Files(), path).open() == (0, 900)


def test_a_short_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "synced").write_bytes(b"x" * 20)

    assert Synced(Files(), tmp_path / "synced").open() == (0, 0)


def test_a_full_disk_is_not_in_the_way(tmp_path: Path) -> None:
    files = FaultyFiles()
    files.is_full = True
    synced = Synced(files, tmp_path / "synced")

    assert synced.open() == (0, 0)
    synced.note(DELAY_SLOT, 5)
    synced.close()
