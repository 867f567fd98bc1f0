"""The key index against a dictionary of lists, through seals, merges and restarts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dueline.errors import CorruptRecord
from dueline.store.files import Files
from dueline.store.key_index import KeyIndex
from dueline.store.open_keys import Hashes
from dueline.store.thresholds import Thresholds


def hashes(*values: int) -> Hashes:
    return np.array(values, dtype=np.uint32)


def add(index: KeyIndex, entries: list[tuple[int, int]]) -> None:
    """Enter (hash, position) pairs, in order of position."""
    index.add(
        hashes(*(value for value, _ in entries)),
        np.array([position for _, position in entries], dtype=np.int64),
        position_end=entries[-1][1] + 1,
    )


def seal(index: KeyIndex) -> None:
    index.begin_seal()
    index.end_seal(index.write_sealed())


@pytest.fixture
def index(tmp_path: Path) -> KeyIndex:
    return KeyIndex(Files(), tmp_path)


def test_newest_comes_first(index: KeyIndex) -> None:
    add(index, [(7, 0), (8, 0), (7, 10)])
    seal(index)
    add(index, [(7, 20), (9, 30)])

    assert index.find(7) == [20, 10, 0]
    assert index.find(8) == [0]
    assert index.find(10) == []


def test_two_keys_with_one_hash_are_both_found(index: KeyIndex) -> None:
    """Whoever looks up compares the real key."""
    add(index, [(7, 0), (7, 0), (7, 5)])

    assert index.find(7) == [5, 0]


def test_entries_are_found_while_they_are_sealed(index: KeyIndex) -> None:
    add(index, [(7, 0)])
    index.begin_seal()
    add(index, [(7, 5)])

    assert index.find(7) == [5, 0]
    assert index.open_count == 1

    index.end_seal(index.write_sealed())
    assert index.find(7) == [5, 0]


def test_aborted_seal_leaves_everything_in_memory(index: KeyIndex) -> None:
    add(index, [(7, 0)])
    index.begin_seal()
    add(index, [(7, 5)])

    index.abort_seal()

    assert index.find(7) == [5, 0]
    assert index.open_count == 2
    seal(index)
    assert index.find(7) == [5, 0]
    assert len(index.names) == 1


def test_entering_again_is_ignored(index: KeyIndex) -> None:
    add(index, [(7, 0), (7, 10)])
    add(index, [(7, 0), (7, 10), (7, 20)])

    assert index.find(7) == [20, 10, 0]
    assert index.open_count == 3


def test_empty_seal_writes_nothing(index: KeyIndex, tmp_path: Path) -> None:
    seal(index)

    assert list(tmp_path.iterdir()) == []


def test_merge_finds_the_same(tmp_path: Path) -> None:
    index = KeyIndex(Files(), tmp_path, Thresholds(merge_key_file_count=4))
    random = np.random.default_rng(5)
    expected: dict[int, list[int]] = {}
    position = 0
    for _ in range(4):
        assert index.merge_candidates() == []
        entries = []
        for _ in range(50):
            value = int(random.integers(0, 20))
            entries.append((value, position))
            expected.setdefault(value, []).insert(0, position)
            position += 100
        add(index, entries)
        seal(index)

    group = index.merge_candidates()
    merged = index.write_merged(group)
    unused = index.end_merge(group, merged)

    assert len(unused) == 4
    assert len(index.names) == 1
    for value in range(25):
        assert index.find(value) == expected.get(value, [])


def test_merged_positions_stay_whole_numbers(tmp_path: Path) -> None:
    """A file whose positions are stored as they are, in 64 bits without a sign, and one that counts
    from a base: together they are no fractions, which would have room for 53 bits only."""
    index = KeyIndex(Files(), tmp_path, Thresholds(merge_key_file_count=2))
    far = (1 << 60) + 1
    add(index, [(7, 0), (7, far)])
    seal(index)
    add(index, [(7, far + 2), (8, far + 4)])
    seal(index)

    group = index.merge_candidates()
    index.end_merge(group, index.write_merged(group))

    assert index.find(7) == [far + 2, far, 0]
    assert index.find(8) == [far + 4]


def test_large_files_are_not_merged_again(tmp_path: Path) -> None:
    thresholds = Thresholds(merge_key_file_count=2, key_file_entries_max=3)
    index = KeyIndex(Files(), tmp_path, thresholds)
    add(index, [(1, 0), (2, 1), (3, 2)])
    seal(index)
    add(index, [(4, 3)])
    seal(index)
    assert index.merge_candidates() == []

    add(index, [(5, 4)])
    seal(index)

    assert [run.path.name for run in index.merge_candidates()] == index.names[1:]


def test_files_of_a_checkpoint_are_opened_again(index: KeyIndex, tmp_path: Path) -> None:
    add(index, [(7, 0)])
    seal(index)
    add(index, [(7, 5)])
    seal(index)

    again = KeyIndex(Files(), tmp_path)
    again.load(index.names, 6)

    assert again.find(7) == [5, 0]
    assert again.position_end == 6


@pytest.mark.parametrize("kind", ["missing", "damaged"])
def test_missing_or_damaged_file_is_reported(index: KeyIndex, tmp_path: Path, kind: str) -> None:
    add(index, [(7, 0)])
    seal(index)
    path = tmp_path / index.names[0]
    if kind == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes().replace(b"DUECOLS1", b"DUECOLS2"))

    again = KeyIndex(Files(), tmp_path)
    with pytest.raises(CorruptRecord) as caught:
        again.load(index.names, 6)

    assert caught.value.path == str(path)
    again.reset(0)
    assert again.find(7) == []
    add(again, [(7, 0)])
    assert again.find(7) == [0]


def test_files_before_a_position_are_dropped(index: KeyIndex) -> None:
    add(index, [(7, 0), (7, 10)])
    seal(index)
    add(index, [(7, 20)])
    seal(index)

    assert index.drop_before(10) == []
    dropped = index.drop_before(11)

    assert len(dropped) == 1
    assert index.find(7) == [20]
