"""Restoring: the same store again, in an empty folder, or nothing at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.backup.making import make_data, source, visible
from tests.unit.store.making import START_MS

from dueline.backup.copying import back_up
from dueline.backup.manifest import MANIFEST, Manifest
from dueline.backup.restoring import find_generation, restore
from dueline.backup.vault import Vault
from dueline.errors import CorruptRecord, InvalidRequest, NotFound


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    """A destination with two generations."""
    data = make_data(tmp_path / "data", b"a", b"b")
    vault = Vault(tmp_path / "dest")
    for step_ms in (0, 1_000):
        back_up(source(data, now_ms=START_MS + step_ms), vault)
    vault.close()
    return vault.folder


def test_the_newest_generation_is_found_or_the_one_that_is_named(dest: Path) -> None:
    newest = find_generation(dest)

    assert newest.name == "20231114T221321Z"
    assert find_generation(dest / "20231114T221320Z") == dest / "20231114T221320Z"
    (newest / MANIFEST).unlink()
    assert find_generation(dest) == dest / "20231114T221320Z"


def test_without_one_it_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="found nothing"):
        find_generation(tmp_path / "nowhere")
    (tmp_path / "photos").mkdir()
    with pytest.raises(NotFound, match="found photos"):
        find_generation(tmp_path)


def test_the_same_store_comes_back(dest: Path, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    target = tmp_path / "deep" / "target"

    restored = restore(find_generation(dest), target, progress=lambda *each: told.append(each))

    assert restored.audit.verdict == "sound"
    assert (restored.folder, restored.manifest.cut_ms) == (target, START_MS + 1_000)
    files = {path.relative_to(target) for path in target.rglob("*") if path.is_file()}
    data = find_generation(dest) / "data"
    assert files == {path.relative_to(data) for path in data.rglob("*") if path.is_file()}
    assert all((target / name).read_bytes() == (data / name).read_bytes() for name in files)
    assert visible(target) == [b"a", b"b"]
    total = sum(entry.data_bytes for entry in restored.manifest.entries)
    assert ("restored", total, total) in told


def test_nothing_is_overwritten(dest: Path, tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "mine").write_text("mine")

    with pytest.raises(InvalidRequest, match="found mine; a restore overwrites nothing"):
        restore(find_generation(dest), tmp_path / "target")

    assert [path.name for path in (tmp_path / "target").iterdir()] == ["mine"]


def test_an_interrupted_restore_is_begun_anew(dest: Path, tmp_path: Path) -> None:
    half = tmp_path / "target" / ".restoring" / "store"
    half.mkdir(parents=True)
    (half / "stray").write_text("half a file")

    restore(find_generation(dest), tmp_path / "target")

    assert not list((tmp_path / "target").rglob("stray"))
    assert not (tmp_path / "target" / ".restoring").exists()


@pytest.mark.parametrize("damage", ["flipped", "missing"])
def test_a_damaged_backup_leaves_an_empty_folder(dest: Path, tmp_path: Path, damage: str) -> None:
    generation = find_generation(dest)
    entry = max(Manifest.load(generation).entries, key=lambda one: one.data_bytes)
    path = generation / "data" / entry.path
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "flipped":
        content[entry.data_bytes // 2] ^= 1
        path.write_bytes(content)

    with pytest.raises(CorruptRecord, match="restore another generation"):
        restore(generation, tmp_path / "target")

    assert list((tmp_path / "target").iterdir()) == []


def test_no_file_is_written_outside_of_the_folder(dest: Path, tmp_path: Path) -> None:
    generation = find_generation(dest)
    manifest = Manifest.load(generation)
    fields = {name: getattr(manifest.entries[0], name) for name in manifest.entries[0].__slots__}
    evil = type(manifest.entries[0])(**{**fields, "path": "../evil"})
    manifest.entries.append(evil)
    manifest.save(generation)

    with pytest.raises(CorruptRecord):
        restore(generation, tmp_path / "target")

    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "target" / "evil").exists()
