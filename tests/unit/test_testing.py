"""The faulty disk itself: what it keeps, what it may lose, and that nobody writes after a stop."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from dueline.errors import Unavailable
from dueline.testing import SECTOR_SIZE, FaultyFiles, ManualClock, PowerCut

SEEDS = range(40)


@pytest.fixture
def files() -> FaultyFiles:
    return FaultyFiles()


def written(files: FaultyFiles, path: Path, data: bytes) -> None:
    """A file with durable name and bytes."""
    files.replace(path, [data])


def test_synced_bytes_survive_every_power_cut(files: FaultyFiles, tmp_path: Path) -> None:
    path = tmp_path / "file"
    written(files, path, bytes(4 * SECTOR_SIZE))
    file = files.open(path, writable=True)
    file.write_at(100, b"synced")
    file.sync()

    for seed in SEEDS:
        files.power_cut(seed)
        assert path.read_bytes()[100:106] == b"synced"


def test_unsynced_bytes_may_be_lost_and_seed_0_loses_them(
    files: FaultyFiles, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    written(files, path, b"old!")
    files.open(path, writable=True).write_at(0, b"new!")
    assert path.read_bytes() == b"new!"

    files.power_cut(0)

    assert path.read_bytes() == b"old!"


def test_unsynced_sectors_are_lost_independently(files: FaultyFiles, tmp_path: Path) -> None:
    count = 6
    found = set()
    for seed in SEEDS:
        path = tmp_path / f"file{seed}"
        written(files, path, bytes(count * SECTOR_SIZE))
        files.open(path, writable=True).write_at(0, b"x" * count * SECTOR_SIZE)
        files.power_cut(seed + 1)
        data = path.read_bytes()
        found.add(tuple(data[n * SECTOR_SIZE] for n in range(count)))
        for number in range(count):
            sector = data[number * SECTOR_SIZE : (number + 1) * SECTOR_SIZE]
            assert sector in (bytes(SECTOR_SIZE), b"x" * SECTOR_SIZE), "sectors are whole"

    torn_in_front = [row for row in found if row[0] == 0 and row[-1] != 0]
    torn_behind = [row for row in found if row[0] != 0 and row[-1] == 0]
    assert torn_in_front
    assert torn_behind


def test_a_sector_that_was_written_twice_may_be_left_in_between(
    files: FaultyFiles, tmp_path: Path
) -> None:
    found = set()
    for seed in SEEDS:
        path = tmp_path / f"file{seed}"
        written(files, path, b"0")
        file = files.open(path, writable=True)
        file.write_at(0, b"1")
        file.write_at(0, b"2")
        files.power_cut(seed + 1)
        found.add(path.read_bytes())

    assert found == {b"0", b"1", b"2"}


def test_scattered_patches_are_unsynced_writes_too(files: FaultyFiles, tmp_path: Path) -> None:
    path = tmp_path / "file"
    written(files, path, bytes(4 * SECTOR_SIZE))
    file = files.open(path, writable=True)
    positions = np.array([SECTOR_SIZE - 4, 3 * SECTOR_SIZE], dtype=np.int64)
    file.scatter(positions, np.full((2, 8), 7, dtype=np.uint8))
    assert file.view()[3 * SECTOR_SIZE] == 7
    assert path.read_bytes()[SECTOR_SIZE - 4 : SECTOR_SIZE + 4] == bytes([7] * 8)

    files.power_cut(0)

    assert path.read_bytes() == bytes(4 * SECTOR_SIZE)


def test_a_killed_process_leaves_everything_but_makes_nothing_durable(
    files: FaultyFiles, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    written(files, path, b"old!")
    files.open(path, writable=True).write_at(0, b"new!")

    files.restart()
    assert path.read_bytes() == b"new!"
    files.power_cut(0)

    assert path.read_bytes() == b"old!"


def test_names_hold_once_their_folder_is_synced(files: FaultyFiles, tmp_path: Path) -> None:
    file = files.new(tmp_path / "unsynced")
    file.write_at(0, b"x")
    file.sync()
    files.power_cut(0)
    assert not (tmp_path / "unsynced").exists()

    file = files.new(tmp_path / "synced")
    file.write_at(0, b"x")
    file.sync()
    files.sync_folder(tmp_path)
    files.power_cut(0)
    assert (tmp_path / "synced").read_bytes() == b"x"


def test_a_move_that_was_not_synced_is_old_or_new(files: FaultyFiles, tmp_path: Path) -> None:
    found = set()
    for seed in SEEDS:
        written(files, tmp_path / "file", b"old")
        file = files.new(tmp_path / "other")
        file.write_at(0, b"new")
        file.sync()
        files.sync_folder(tmp_path)
        files.move(tmp_path / "other", tmp_path / "file")
        files.power_cut(seed)
        found.add(((tmp_path / "file").read_bytes(), (tmp_path / "other").exists()))

    assert found == {(b"old", True), (b"new", False)}


def test_removals_come_back_independently_of_each_other(files: FaultyFiles, tmp_path: Path) -> None:
    found = set()
    for seed in SEEDS:
        written(files, tmp_path / "a", b"a")
        written(files, tmp_path / "b", b"b")
        files.remove(tmp_path / "a")
        files.remove(tmp_path / "b")
        files.power_cut(seed)
        found.add(tuple((tmp_path / name).exists() for name in "ab"))

    assert found == {(False, False), (False, True), (True, False), (True, True)}


def test_a_removed_file_comes_back_with_its_synced_bytes(
    files: FaultyFiles, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    written(files, path, b"synced")
    files.open(path, writable=True).write_at(0, b"UNSYNC")
    files.remove(path)

    files.power_cut(0)

    assert path.read_bytes() == b"synced"


def test_a_folder_goes_with_all_that_is_in_it(files: FaultyFiles, tmp_path: Path) -> None:
    files.make_one_folder(tmp_path / "folder")
    written(files, tmp_path / "folder" / "file", b"x")
    files.power_cut(0)
    assert not (tmp_path / "folder").exists()

    files.make_folder(tmp_path / "folder")
    written(files, tmp_path / "folder" / "file", b"x")
    files.power_cut(0)
    assert (tmp_path / "folder" / "file").read_bytes() == b"x"


def test_replace_is_atomic_at_every_step(files: FaultyFiles, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for seed in SEEDS:
        step = 0
        is_done = False
        while not is_done:
            step += 1
            written(files, path, b"old" * 400)
            files.stop_at(files.operation_count + step, midway=bool(seed % 2))
            try:
                files.replace(path, [b"new" * 400, b"more" * 400])
                is_done = True
            except PowerCut:
                files.power_cut(seed)
            files.stop_at(None)
            assert path.read_bytes() in (b"old" * 400, b"new" * 400 + b"more" * 400)
        assert step > 5, "new, two writes, sync, move, sync_folder"


def test_nothing_is_written_after_a_stop(files: FaultyFiles, tmp_path: Path) -> None:
    written(files, tmp_path / "file", b"old!")
    file = files.open(tmp_path / "file", writable=True)
    files.stop_at(files.operation_count + 1)

    with pytest.raises(PowerCut):
        file.write_at(0, b"1")
    with pytest.raises(PowerCut):
        file.write_at(0, b"2")
    with pytest.raises(PowerCut):
        files.remove(tmp_path / "file")

    assert (tmp_path / "file").read_bytes() == b"old!"


def test_a_stop_midway_leaves_half_a_write(files: FaultyFiles, tmp_path: Path) -> None:
    written(files, tmp_path / "file", b"....")
    file = files.open(tmp_path / "file", writable=True)
    files.stop_at(files.operation_count + 1, midway=True)

    with pytest.raises(PowerCut):
        file.write_at(0, b"1234")

    assert (tmp_path / "file").read_bytes() == b"12.."


def test_a_stop_waits_for_a_kind_of_operation(files: FaultyFiles, tmp_path: Path) -> None:
    files.stop_before("sync", path_part="b")
    written(files, tmp_path / "a", b"x")

    with pytest.raises(PowerCut):
        written(files, tmp_path / "b", b"x")


def test_a_full_disk_refuses_new_files_space_and_longer_ones(
    files: FaultyFiles, tmp_path: Path
) -> None:
    written(files, tmp_path / "file", b"....")
    file = files.open(tmp_path / "file", writable=True)
    files.is_full = True

    with pytest.raises(Unavailable):
        files.create(tmp_path / "other", 100)
    with pytest.raises(Unavailable):
        file.allocate(0, 100)
    with pytest.raises(OSError, match="No space left"):
        file.write_at(3, b"12")
    file.write_at(0, b"1234")

    assert files.all_names(tmp_path) == ["file"]
    assert files.temporaries(tmp_path) == []


def test_errors_come_from_the_operations_that_were_asked_for(
    files: FaultyFiles, tmp_path: Path
) -> None:
    written(files, tmp_path / "file", b"....")
    file = files.open(tmp_path / "file", writable=True)
    files.fail("sync", errno.EIO, path_part="file")

    file.write_at(0, b"1")
    with pytest.raises(OSError, match="Input/output"):
        file.sync()
    file.sync()
    files.fail_at(files.operation_count + 1, errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        file.write_at(0, b"2")

    assert (tmp_path / "file").read_bytes() == b"1..."


def test_bytes_of_a_failed_sync_are_not_durable(files: FaultyFiles, tmp_path: Path) -> None:
    written(files, tmp_path / "file", b"old!")
    file = files.open(tmp_path / "file", writable=True)
    file.write_at(0, b"new!")
    files.fail("sync", errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        file.sync()

    files.power_cut(0)

    assert (tmp_path / "file").read_bytes() == b"old!"


def test_operations_are_counted_and_traced(files: FaultyFiles, tmp_path: Path) -> None:
    files.is_tracing = True

    written(files, tmp_path / "file", b"x")

    kinds = [line.split()[0] for line in files.trace]
    assert kinds == ["new", "write", "sync", "move", "sync_folder"]
    assert files.operation_count == 5


def test_manual_clock_moves_only_by_hand() -> None:
    clock = ManualClock(1_000)
    assert clock.now_ms() == clock.now_ms() == 1_000
    clock.advance(5)
    assert clock.now_ms() == 1_005
    clock.wall_ms = 900
    assert clock.now_ms() == 1_005
