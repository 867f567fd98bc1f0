"""Groups that a crash has torn are cut; others that are not whole are broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.audit.making import FILES, replace_in
from tests.unit.store.making import Wall, carry_over, delayed, open_store, ordinary

from dueline.audit.groups import GroupWatch, controls_of
from dueline.audit.walk import LogWalk
from dueline.store import control

NOT_SYNCED = 0
ALL_SYNCED = 1 << 40


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One ordinary record, then a delivery of three, which is a group."""
    with open_store(tmp_path, Wall()) as store:
        store.put(ordinary(b"alone"))
        for body in (b"member 1", b"member 2", b"member 3"):
            store.put(delayed(5_000, body))
        carry_over(store, ahead_ms=10_000)
    return tmp_path


def watched(root: Path, whole_end: int) -> tuple[GroupWatch, list[tuple[int, bytes]]]:
    walk = LogWalk(FILES, root / "commitlog", [0], 16_384)
    watch = GroupWatch(walk, whole_end)
    seen = []
    for batch in walk.batches():
        controls = controls_of(batch)
        watch.add(batch, controls)
        seen += [(position, entry.kind) for position, entry in controls]
    return watch, seen


def position_of(root: Path, body: bytes) -> int:
    """Where the record with this body begins: the last magic before it, and 4 bytes of size."""
    data = (root / "commitlog" / f"{0:020d}").read_bytes()
    return data.rindex(b"\xda\xa3\x20\xa7", 0, data.index(body)) - 4


def test_a_whole_group_is_sound(root: Path) -> None:
    watch, controls = watched(root, NOT_SYNCED)

    assert [kind for _, kind in controls] == [control.END]
    assert (watch.broken, watch.cut) == ([], None)


def test_a_last_group_that_lost_a_member_is_cut(root: Path) -> None:
    start = position_of(root, b"member 1")
    replace_in(root / "commitlog", b"member 2", b"member x")

    watch, _ = watched(root, NOT_SYNCED)

    assert (watch.broken, watch.cut) == ([], start)


def test_a_group_that_was_on_disk_is_not_torn_but_broken(root: Path) -> None:
    start = position_of(root, b"member 1")
    replace_in(root / "commitlog", b"member 2", b"member x")

    watch, _ = watched(root, ALL_SYNCED)

    ((position, text),) = watch.broken
    assert position == start
    assert "a group of 3 records" in text
    assert "has 2 of them" in text
    assert watch.cut is None


def test_a_group_with_records_behind_it_is_broken(root: Path) -> None:
    with open_store(root, Wall()) as store:
        store.put(ordinary(b"behind"))
    replace_in(root / "commitlog", b"member 3", b"member x")

    watch, _ = watched(root, NOT_SYNCED)

    assert len(watch.broken) == 1
    assert watch.cut is None


def test_a_group_without_an_end_is_cut_where_it_begins(root: Path) -> None:
    ((end, _),) = watched(root, NOT_SYNCED)[1]
    path = root / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    path.write_bytes(data[:end] + bytes(len(data) - end))

    assert watched(root, NOT_SYNCED)[0].cut == position_of(root, b"member 1")
    assert watched(root, ALL_SYNCED)[0].cut is None


def test_a_torn_group_that_lost_its_first_member_is_cut_behind_the_record_before(
    root: Path,
) -> None:
    start = position_of(root, b"member 1")
    ((end, _),) = watched(root, NOT_SYNCED)[1]
    path = root / "commitlog" / f"{0:020d}"
    data = path.read_bytes()
    first_size = int.from_bytes(data[start : start + 4], "big")
    kept = data[start + first_size : end]
    path.write_bytes(data[:start] + bytes(first_size) + kept + bytes(len(data) - end))

    assert watched(root, NOT_SYNCED)[0].cut == start
