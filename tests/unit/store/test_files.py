"""Files: positioned reads and writes, whole files at once, locks."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest
from tests.unit.store.making import int64s

from dueline.errors import Unavailable
from dueline.store.files import POSITION_NAME, File, Files

ANY = re.compile(".*")


@pytest.fixture
def files() -> Files:
    return Files()


def test_created_file_is_zeros_of_its_length(files: Files, tmp_path: Path) -> None:
    file = files.create(tmp_path / "f", 5000)

    assert (tmp_path / "f").read_bytes() == bytes(5000)
    assert file.size_bytes == 5000
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def test_bytes_are_written_and_read_at_positions(files: Files, tmp_path: Path) -> None:
    file = files.create(tmp_path / "f", 10)
    view = file.view()

    file.write_at(3, b"abc")
    file.write_at(8, np.array([1, 2], dtype=np.uint8))
    file.sync()

    assert file.read_at(0, 10) == b"\0\0\0abc\0\0\1\2"
    assert file.read_at(7, 100) == b"\0\1\2"
    assert file.read_at(50, 5) == b""
    assert view.tobytes() == file.read_at(0, 10), "a view follows later writes"
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_patches_are_written_through_the_map(files: Files, tmp_path: Path) -> None:
    file = files.create(tmp_path / "f", 10)

    file.scatter(int64s(1, 8), np.array([[1, 2], [3, 4]], dtype=np.uint8))
    file.sync()

    assert (tmp_path / "f").read_bytes() == b"\0\1\2\0\0\0\0\0\3\4"


def test_view_outlives_its_file(files: Files, tmp_path: Path) -> None:
    file = files.create(tmp_path / "f", 4)
    file.write_at(0, b"data")
    view = file.view()

    file.close()
    files.remove(tmp_path / "f")
    file.close()

    assert view.tobytes() == b"data"


def test_view_survives_giving_back_pages(files: Files, tmp_path: Path) -> None:
    file = files.create(tmp_path / "f", 8192)
    file.write_at(5000, b"data")
    view = file.view()

    file.forget_pages()

    assert view[5000:5004].tobytes() == b"data"


def test_data_end_is_behind_what_was_written(files: Files, tmp_path: Path) -> None:
    file = files.create(tmp_path / "f", 1 << 20)
    assert file.data_end(0) <= 1 << 20

    file.write_at(10_000, b"x")
    file.sync()

    assert 10_001 <= file.data_end(0) <= 1 << 20
    assert not any(file.read_at(file.data_end(0), 1 << 20))


def test_replaced_file_is_whole(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old and longer")

    files.replace(path, [b"new", b"", np.frombuffer(b" bytes", dtype=np.uint8)])

    assert path.read_bytes() == b"new bytes"
    assert [entry.name for entry in tmp_path.iterdir()] == ["f"]


def test_sparse_file_has_parts_and_holes(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "f"

    files.replace_sparse(path, 1 << 20, iter([(5, b"a"), (500_000, b"b")]))

    data = path.read_bytes()
    assert len(data) == 1 << 20
    assert (data[5:6], data[500_000:500_001]) == (b"a", b"b")
    assert data.count(b"\0") == len(data) - 2
    assert files.disk_bytes(path) < 1 << 20


def test_interrupted_replacement_leaves_the_old_file(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")

    def chunks() -> object:
        yield b"half of the "
        raise OSError(errno.EIO, "the disk")

    with pytest.raises(OSError, match="the disk"):
        files.replace(path, chunks())  # type: ignore[arg-type]

    assert path.read_bytes() == b"old"
    assert files.names(tmp_path, ANY) == ["f"], "what is left of it is not taken for a file"
    assert files.temporaries(tmp_path) == [tmp_path / "f.tmp"]


def test_full_disk_is_unavailable(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    file = files.create(tmp_path / "f", 10)
    monkeypatch.setattr(os, "posix_fallocate", full)
    monkeypatch.setattr(File, "write_at", full)

    with pytest.raises(Unavailable, match="disk full"):
        file.allocate(0, 10)
    with pytest.raises(Unavailable, match="disk full"):
        files.replace(tmp_path / "g", [b"x"])
    assert files.all_names(tmp_path) == ["f"]


def test_file_system_without_reservation_is_no_error(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(os, "posix_fallocate", unsupported)

    files.create(tmp_path / "f", 10).allocate(0, 10)


def test_folders_are_made_with_their_parents(files: Files, tmp_path: Path) -> None:
    files.make_folder(tmp_path / "a" / "b" / "c")
    files.make_folder(tmp_path / "a" / "b" / "c")

    assert (tmp_path / "a" / "b" / "c").is_dir()
    (tmp_path / "a" / "f").write_bytes(b"")
    assert list(files.walk(tmp_path)) == [tmp_path / "a" / "f"]


def test_names_are_sorted_and_without_temporaries(files: Files, tmp_path: Path) -> None:
    for name in ("b", "a", "c.tmp"):
        (tmp_path / name).write_bytes(b"")

    assert files.names(tmp_path, ANY) == ["a", "b"]
    assert files.names(tmp_path / "missing", ANY) == []


def test_strays_are_told_and_left_alone(
    files: Files, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in (
        ".DS_Store",
        ".nfs000000000000000100000001",
        "00000000000000000000~",
        "7",
        "٢" * 20,
    ):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ("1" * 20)).mkdir()
    (tmp_path / ("2" * 20)).write_bytes(b"")

    assert files.names(tmp_path, POSITION_NAME) == ["2" * 20]
    assert len(caplog.records) == 1
    assert ".DS_Store" in caplog.text
    caplog.clear()
    assert files.names(tmp_path, POSITION_NAME, are_folders=True) == ["1" * 20]
    assert len(files.all_names(tmp_path)) == 8


def test_only_the_owner_may_read_what_is_made(files: Files, tmp_path: Path) -> None:
    old_mask = os.umask(0)
    try:
        files.make_folder(tmp_path / "a" / "b")
        files.create(tmp_path / "a" / "created", 10).close()
        files.replace(tmp_path / "a" / "replaced", [b"x"])
        files.new(tmp_path / "a" / "new").close()
        files.lock(tmp_path / "a" / "lock").release()
        files.open_to_append(tmp_path / "a" / "log").close()
    finally:
        os.umask(old_mask)

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"a": 0o700, "b": 0o700} | dict.fromkeys(
        ("created", "replaced", "new", "lock", "log"), 0o600
    )


def test_removing_what_is_not_there_is_no_error(files: Files, tmp_path: Path) -> None:
    files.remove(tmp_path / "missing")


def test_disk_use_is_a_ratio(files: Files, tmp_path: Path) -> None:
    disk = files.disk(tmp_path)

    assert 0 <= disk.used_ratio <= 1
    assert disk.used_bytes + disk.free_bytes == disk.size_bytes > 0


def test_lock_file_names_its_owner(files: Files, tmp_path: Path) -> None:
    lock = files.lock(tmp_path / "lock")

    assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n"
    lock.release()
    lock.release()
    files.lock(tmp_path / "lock").release()


def test_shared_lock_writes_nothing_and_needs_a_file(files: Files, tmp_path: Path) -> None:
    assert files.lock_shared(tmp_path / "lock") is None
    (tmp_path / "lock").write_text("theirs")

    locks = [files.lock_shared(tmp_path / "lock") for _ in range(2)]

    assert all(lock is not None for lock in locks)
    assert (tmp_path / "lock").read_text() == "theirs"
    for lock in locks:
        assert lock is not None
        lock.release()
        lock.release()


def test_what_is_in_memory_can_be_read_without_a_wait(files: Files, tmp_path: Path) -> None:
    file = files.create(tmp_path / "f", 20_000)
    file.write_at(0, b"x" * 20_000)
    try:
        os.preadv(file._fd, [bytearray(1)], 0, os.RWF_NOWAIT)
    except OSError as error:
        pytest.skip(f"this file system cannot tell: {error}")

    assert file.is_cached(100, 20_000)
    assert not file.is_cached(19_000, 20_001), "beyond the end there is nothing"
    file.close()
    assert not file.is_cached(100, 20_000)
