"""A stopped broker's folder as a source: all that belongs to it, and nobody starts meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.backup.making import is_free_for_others, make_data, source
from tests.unit.store.making import START_MS

from dueline.errors import NotFound


def test_a_folder_is_listed_and_read_whole(tmp_path: Path) -> None:
    folder = make_data(tmp_path, b"a")
    for name in ("spark.log", "spark.log.1", "serve.lock", "topics.json.tmp"):
        (folder / name).write_text("not needed")
    (folder / "link").symlink_to(folder / "consumerOffset.json")

    made = source(folder)
    entries = made.manifest.entries
    read = {entry.path: bytearray(entry.size_bytes) for entry in entries}
    for number, position, data in made.read(range(len(entries))):
        read[entries[number].path][position : position + len(data)] = data
    made.close()

    on_disk = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }
    left_out = on_disk.keys() - read.keys()
    assert left_out == {
        "spark.log",
        "spark.log.1",
        "serve.lock",
        "topics.json.tmp",
        "store/lock",
        "store/synced",
    }
    assert all(on_disk[path] == data for path, data in read.items())
    assert all(entry.is_sealed and not entry.sha256 for entry in entries)
    assert (made.manifest.cut_ms, made.manifest.was_running) == (START_MS, False)
    assert made.manifest.source == str(folder)


def test_a_store_alone_has_the_same_names_as_in_its_folder(tmp_path: Path) -> None:
    make_data(tmp_path, b"a")
    whole, alone = source(tmp_path), source(tmp_path / "store")
    try:
        names = {one.path for one in whole.manifest.entries}
        assert {one.path for one in alone.manifest.entries} == names - {"consumerOffset.json"}
        by_name: dict[tuple[str, int], set[bytes]] = {}
        for each in (whole, alone):
            entries = each.manifest.entries
            for number, position, data in each.read(range(len(entries))):
                by_name.setdefault((entries[number].path, position), set()).add(data)
        assert all(len(found) == 1 for found in by_name.values())
    finally:
        whole.close()
        alone.close()


def test_no_broker_starts_on_it_meanwhile(tmp_path: Path) -> None:
    lock = make_data(tmp_path) / "store" / "lock"
    made = source(tmp_path)
    assert not is_free_for_others(lock)

    made.close()

    assert is_free_for_others(lock)


def test_without_a_store_there_is_nothing_to_back_up(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="expected a broker's data folder"):
        source(tmp_path)
