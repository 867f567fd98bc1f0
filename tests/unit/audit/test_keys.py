"""Every key of a record stands in the index that covers the record's position."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.unit.audit.making import FILES, told
from tests.unit.store.making import Wall, open_store, ordinary

from dueline.audit.findings import Findings
from dueline.audit.keys import KeyCheck
from dueline.audit.walk import Batch, LogWalk
from dueline.store.columns import write_columns

Entries = list[tuple[int, int]]


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    """Three records with their unique ids, and three keys beside those."""
    with open_store(tmp_path, Wall()) as store:
        store.put(ordinary(b"1", KEYS="a"))
        store.put(ordinary(b"2"))
        store.put(ordinary(b"3", KEYS="b c"))
    (batch,) = LogWalk(FILES, tmp_path / "commitlog", [0], 16_384).batches()
    return batch


def entries_of(batch: Batch) -> Entries:
    hashes, owners = batch.columns.key_hashes()
    return sorted(zip(hashes.tolist(), batch.positions[owners].tolist(), strict=True))


def write_index(folder: Path, entries: Entries, start: int = 0, end: int = 10_000) -> str:
    name = f"{start:020d}-{end:020d}"
    hashes = np.array([each[0] for each in entries], dtype=np.uint32)
    positions = np.array([each[1] for each in entries], dtype=np.int64)
    folder.mkdir(exist_ok=True)
    write_columns(
        FILES,
        folder / name,
        [("hash", lambda: hashes), ("position", lambda: positions)],
        {"start": start, "end": end},
    )
    return name


def checked(folder: Path, names: Sequence[str], batch: Batch) -> Findings:
    findings = Findings()
    KeyCheck(folder, list(names), FILES, findings).add(batch)
    return findings


def test_an_index_with_all_keys_is_sound(tmp_path: Path, batch: Batch) -> None:
    entries = entries_of(batch)
    assert {hash_ for hash_, _ in entries} >= {97, 98, 99}, "Java's hashes of one letter"
    assert len(entries) == 6
    name = write_index(tmp_path / "index", [*entries, (2**32 - 1, 9_999)])

    assert told(checked(tmp_path / "index", [name], batch)) == set()


@pytest.mark.parametrize("gone", [0, 2, 5])
def test_a_key_that_is_missing_is_told(tmp_path: Path, batch: Batch, gone: int) -> None:
    entries = entries_of(batch)
    _, position = entries.pop(gone)
    name = write_index(tmp_path / "index", entries)

    (found,) = checked(tmp_path / "index", [name], batch).kept

    assert (found.severity.name, found.kind) == ("LOSS", "key index")
    assert f"1 keys of records from position {position} on" in found.text


def test_an_empty_index_lacks_them_all(tmp_path: Path, batch: Batch) -> None:
    name = write_index(tmp_path / "index", [])

    (found,) = checked(tmp_path / "index", [name], batch).kept

    assert found.text.startswith("6 keys")


def test_only_what_an_index_covers_is_looked_for(tmp_path: Path, batch: Batch) -> None:
    entries = entries_of(batch)
    last = max(position for _, position in entries)
    early = [each for each in entries if each[1] < last]
    late = [each for each in entries if each[1] >= last]
    folder = tmp_path / "index"
    names = [write_index(folder, early, 0, last), write_index(folder, late, last, 10_000)]

    assert told(checked(folder, names, batch)) == set()
    assert told(checked(folder, names[:1], batch)) == set()
    assert told(checked(folder, names[1:], batch)) == set()
    assert told(checked(folder, [], batch)) == set()


def test_a_missing_or_damaged_file_is_made_again(tmp_path: Path, batch: Batch) -> None:
    folder = tmp_path / "index"
    name = write_index(folder, entries_of(batch))
    (folder / name).write_bytes(b"no columns")

    assert told(checked(folder, [name, "gone"], batch)) == {("repair", "key index")}


def test_a_file_out_of_order_or_under_another_name_stays_wrong(
    tmp_path: Path, batch: Batch
) -> None:
    folder = tmp_path / "index"
    name = write_index(folder, entries_of(batch)[::-1])
    assert "not sorted" in checked(folder, [name], batch).kept[0].text

    name = write_index(folder, entries_of(batch))
    other = f"{5:020d}-{6:020d}"
    (folder / name).rename(folder / other)
    assert "another index's file" in checked(folder, [other], batch).kept[0].text
