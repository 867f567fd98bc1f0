"""A destination: generations that appear whole, share what is the same, and go in order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.backup.making import is_free_for_others

from dueline.backup.manifest import MANIFEST, Entry, Manifest
from dueline.backup.vault import Draft, Vault, check_path, generations_of
from dueline.errors import CorruptRecord, InvalidRequest

CUT_MS = 1_700_000_000_000
SEALED = Entry(path="log/0", size_bytes=10, data_bytes=4, sha256="", identity="7", is_sealed=True)
LOOSE = replace(SEALED, path="table", is_sealed=False)


def write(draft: Draft, entry: Entry, data: bytes = b"data") -> None:
    writer = draft.open(entry)
    writer.write(0, data)
    draft.finish(entry, writer)


def complete(vault: Vault, draft: Draft, cut_ms: int = CUT_MS) -> Path:
    manifest = Manifest(
        cut_ms=cut_ms,
        source="here",
        version="0",
        was_running=False,
        entries=list(draft.done.values()),
    )
    return vault.complete(draft, manifest)


def generation(vault: Vault, *entries: Entry, cut_ms: int = CUT_MS) -> Path:
    draft = vault.begin()
    for entry in entries:
        write(draft, entry)
    return complete(vault, draft, cut_ms)


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "dest")


def test_a_generation_is_named_by_its_cut_and_found_when_it_is_complete(vault: Vault) -> None:
    draft = vault.begin()
    write(draft, SEALED)
    assert generations_of(vault.folder) == []

    folder = complete(vault, draft)

    assert folder.name == "20231114T221320Z"
    assert generations_of(vault.folder) == [folder]
    assert (folder / "data/log/0").read_bytes() == b"data" + bytes(6)
    assert {path.name for path in folder.iterdir()} == {"data", MANIFEST}


def test_names_are_in_order_whatever_the_clock_does(vault: Vault) -> None:
    made = [generation(vault, cut_ms=CUT_MS + step) for step in (0, 0, -50_000, 1_000)]

    assert [path.name for path in made] == [
        "20231114T221320Z",
        "20231114T221320Z-0002",
        "20231114T221320Z-0003",
        "20231114T221321Z",
    ]
    assert generations_of(vault.folder) == made


def test_old_generations_go_and_the_newest_stay(vault: Vault) -> None:
    made = [generation(vault, SEALED, cut_ms=CUT_MS + step) for step in (0, 1_000, 2_000)]

    assert vault.keep(0) == []
    assert vault.keep(2) == made[:1]
    assert vault.keep(2) == []
    assert generations_of(vault.folder) == made[1:]
    assert not made[0].exists()


def test_what_is_sealed_and_the_same_is_shared(vault: Vault) -> None:
    first = generation(vault, SEALED, LOOSE)
    draft = vault.begin()

    assert draft.reuse(SEALED)
    assert not draft.reuse(LOOSE)
    assert not draft.reuse(replace(SEALED, path="log/1"))
    write(draft, LOOSE)
    second = complete(vault, draft, CUT_MS + 1_000)

    assert (first / "data/log/0").samefile(second / "data/log/0")
    assert not (first / "data/table").samefile(second / "data/table")
    assert draft.linked_bytes == 4
    assert draft.done["log/0"].sha256 == Manifest.load(first).entries[0].sha256


def test_what_has_changed_is_not_shared(vault: Vault) -> None:
    first = generation(vault, SEALED)
    assert not vault.begin().reuse(replace(SEALED, identity="8"))

    (first / "data/log/0").write_bytes(b"cut")
    assert not vault.begin().reuse(SEALED)


def test_an_interrupted_backup_goes_on_with_what_is_whole(vault: Vault) -> None:
    draft = vault.begin()
    write(draft, SEALED)
    write(draft, LOOSE)
    half = draft.open(replace(SEALED, path="log/1"))
    half.write(0, b"da")
    half.close()
    with (draft.folder / "copied.jsonl").open("a") as file:
        file.write('{"path": "log/1", "si')

    again = vault.begin()

    assert again.reuse(SEALED)
    assert not again.reuse(LOOSE)
    assert not again.reuse(replace(SEALED, path="log/1"))
    again.remove_strays()
    assert {path.name for path in again.data.rglob("*") if path.is_file()} == {"0"}


def test_a_file_that_was_copied_and_is_gone_is_copied_again(vault: Vault) -> None:
    draft = vault.begin()
    write(draft, SEALED)
    (draft.data / "log/0").unlink()

    assert not vault.begin().reuse(SEALED)


def test_a_damaged_manifest_shares_nothing(vault: Vault) -> None:
    first = generation(vault, SEALED)
    (first / MANIFEST).write_bytes(b"no manifest")

    assert not vault.begin().reuse(SEALED)


def test_a_destination_is_ours_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(InvalidRequest, match="found photos; choose another"):
        Vault(tmp_path)

    vault = Vault(tmp_path / "dest")
    assert not is_free_for_others(tmp_path / "dest" / "lock")
    (tmp_path / "dest" / "removing-20231114T221320Z").mkdir()
    vault.close()
    assert is_free_for_others(tmp_path / "dest" / "lock")
    Vault(tmp_path / "dest").close()
    assert not (tmp_path / "dest" / "removing-20231114T221320Z").exists()


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../../x", "a\0b"])
def test_no_path_leads_out_of_its_folder(path: str) -> None:
    with pytest.raises(CorruptRecord):
        check_path(path)


def test_other_paths_are_as_they_were() -> None:
    assert check_path("store/log..x/00") == "store/log..x/00"
