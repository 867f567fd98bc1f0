"""Making generations: whole, checked, and sharing what is the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.unit.backup.making import is_free_for_others, make_data, source, visible
from tests.unit.store.making import START_MS, Wall, open_store, ordinary

from dueline.backup import copying
from dueline.backup.copying import Result, back_up
from dueline.backup.manifest import Manifest
from dueline.backup.source import FolderSource, Piece
from dueline.backup.vault import Vault, generations_of
from dueline.errors import RemoteProtocolError, Unavailable


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path / "data", b"first body", b"b")


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "dest")


def backed_up(data: Path, vault: Vault, step_ms: int = 0, keep: int = 0) -> Result:
    return back_up(source(data, now_ms=START_MS + step_ms), vault, keep=keep)


def test_a_generation_is_a_data_folder_that_was_checked(data: Path, vault: Vault) -> None:
    result = backed_up(data, vault)

    assert result.audit is not None
    assert result.audit.verdict == "sound"
    assert Manifest.load(result.folder) == result.manifest
    assert result.manifest.facts["pending"] == 1
    assert result.manifest.facts["next_due_ms"] == START_MS + 60_000
    assert all(entry.sha256 for entry in result.manifest.entries)
    assert result.copied_bytes == sum(one.data_bytes for one in result.manifest.entries)
    assert visible(result.folder / "data") == [b"first body", b"b"]


def test_the_next_one_copies_only_what_changed(data: Path, vault: Vault) -> None:
    first = backed_up(data, vault)
    second = backed_up(data, vault, 1_000)
    assert (second.copied_bytes, second.linked_bytes) == (0, first.copied_bytes)

    with open_store(data / "store", Wall()) as store:
        store.put(ordinary(b"c"))
    third = backed_up(data, vault, 2_000, keep=2)

    assert 0 < third.copied_bytes < first.copied_bytes
    assert third.removed == [first.folder]
    assert visible(third.folder / "data") == [b"first body", b"b", b"c"]


def test_a_source_is_free_again_when_it_is_copied(data: Path, vault: Vault) -> None:
    taken = source(data)
    back_up(taken, vault)

    assert is_free_for_others(data / "store" / "lock")


def test_sound_generations_are_not_removed_for_a_damaged_one(data: Path, vault: Vault) -> None:
    first = backed_up(data, vault)
    (segment, *_) = sorted((data / "store" / "commitlog").iterdir())
    content = segment.read_bytes()
    segment.write_bytes(content.replace(b"first body", b"other body"))

    second = backed_up(data, vault, 1_000, keep=1)

    assert second.audit is not None
    assert second.audit.exit_code == 2
    assert second.manifest.facts["check_exit_code"] == 2
    assert second.removed == []
    assert generations_of(vault.folder) == [first.folder, second.folder]


def test_without_a_check_nothing_is_said_of_it(data: Path, vault: Vault) -> None:
    result = back_up(source(data), vault, is_checked=False)

    assert result.audit is None
    assert "check_exit_code" not in result.manifest.facts


def test_no_room_is_told_before_anything_is_copied(
    data: Path, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = sum(entry.data_bytes for entry in source(data).manifest.entries)
    usage = shutil.disk_usage(data)
    monkeypatch.setattr(copying, "disk_usage", lambda _: usage._replace(free=needed - 1))

    with pytest.raises(Unavailable, match=f"expected room for {needed:,} bytes"):
        backed_up(data, vault)
    monkeypatch.setattr(copying, "disk_usage", lambda _: usage._replace(free=needed))
    assert backed_up(data, vault).copied_bytes == needed


def test_progress_ends_with_all_of_it(data: Path, vault: Vault) -> None:
    told: list[tuple[str, int, int]] = []

    result = back_up(source(data), vault, progress=lambda *each: told.append(each))

    copied = [(done, total) for what, done, total in told if what == "copied"]
    assert copied == sorted(copied)
    assert copied[-1][0] <= result.copied_bytes == copied[-1][1]
    assert {"commitlog", "delaylog"} <= {what for what, _, _ in told}


class OtherSource(FolderSource):
    """Sends a file that nobody asked for."""

    def read(self, numbers: Sequence[int]) -> Iterator[Piece]:
        yield from super().read(numbers)
        yield 10_000, 0, b"surprise"


def test_files_that_were_not_asked_for_are_a_mistake(data: Path, vault: Vault) -> None:
    with pytest.raises(RemoteProtocolError, match="found file 10000"):
        back_up(OtherSource(data, now_ms=START_MS), vault)
    assert generations_of(vault.folder) == []
