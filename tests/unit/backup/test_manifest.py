"""A generation's manifest comes back as it was written, or is named as damaged."""

from pathlib import Path

import pytest

from dueline.backup.disk import read_json, write_json
from dueline.backup.manifest import MANIFEST, Entry, Manifest
from dueline.errors import CorruptRecord

SEALED = Entry(
    path="log/0", size_bytes=100, data_bytes=90, sha256="ab", identity="7", is_sealed=True
)


def manifest() -> Manifest:
    return Manifest(
        cut_ms=17,
        source="127.0.0.1:1",
        version="0.1.0",
        was_running=True,
        entries=[SEALED],
        facts={"delayed": 3},
    )


def rewrite(folder: Path, change: dict[str, object]) -> None:
    """Save it with a change, as another version might."""
    manifest().save(folder)
    write_json(folder / MANIFEST, {**read_json(folder / MANIFEST), **change})


def test_it_comes_back_as_it_was_written(tmp_path: Path) -> None:
    manifest().save(tmp_path)

    assert Manifest.load(tmp_path) == manifest()


def test_another_format_is_for_another_version(tmp_path: Path) -> None:
    rewrite(tmp_path, {"format": 99})

    with pytest.raises(CorruptRecord, match="expected format 1, found 99; use the version"):
        Manifest.load(tmp_path)


@pytest.mark.parametrize("change", [{"entries": None}, {"entries": [{"path": "x"}]}, {"more": 1}])
def test_what_is_not_a_manifest_is_damaged(tmp_path: Path, change: dict[str, object]) -> None:
    rewrite(tmp_path, change)

    with pytest.raises(CorruptRecord):
        Manifest.load(tmp_path)


def test_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    manifest().save(tmp_path)
    data = (tmp_path / MANIFEST).read_bytes()
    (tmp_path / MANIFEST).write_bytes(data.replace(b"17", b"18"))

    with pytest.raises(CorruptRecord):
        Manifest.load(tmp_path)


def test_a_generation_without_one_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Manifest.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "is_same"),
    [
        ({}, True),
        ({"sha256": "other"}, True),
        ({"identity": "8"}, False),
        ({"data_bytes": 91}, False),
        ({"path": "log/1"}, False),
        ({"is_sealed": False}, False),
    ],
)
def test_only_sealed_files_of_one_identity_are_the_same(
    change: dict[str, object], is_same: bool
) -> None:
    fields = {name: getattr(SEALED, name) for name in SEALED.__slots__}

    assert SEALED.is_same(Entry(**{**fields, **change})) == is_same
