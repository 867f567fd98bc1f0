"""Files of a backup: private, in order, with zeros where nothing was written."""

from __future__ import annotations

import errno
import hashlib
import stat
from pathlib import Path

import pytest

from dueline.backup.disk import (
    FileWriter,
    clear_errors,
    hash_file,
    make_folder,
    read_json,
    remove_tree,
    write_json,
)
from dueline.errors import CorruptRecord, Unavailable

MIB = 1 << 20


def test_what_is_skipped_becomes_zeros_and_counts_in_the_hash(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    expected = b"head" + bytes(2 * MIB + 6) + b"tail" + bytes(6)

    writer = FileWriter(path)
    writer.write(0, b"head")
    writer.write(2 * MIB + 10, b"tail")
    digest = writer.finish(data_bytes=2 * MIB + 20, size_bytes=2 * MIB + 30)

    assert path.read_bytes() == expected + bytes(10)
    assert digest == hashlib.sha256(expected).hexdigest()


def test_only_the_owner_may_look(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file"
    FileWriter(path).close()
    write_json(tmp_path / "a" / "value", 1)

    modes = [
        stat.S_IMODE(each.stat().st_mode)
        for each in (path, tmp_path / "a" / "value", path.parent, path.parent.parent)
    ]
    assert modes == [0o600, 0o600, 0o700, 0o700]


def test_a_file_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"longer than before")
    writer = FileWriter(tmp_path / "file")
    writer.write(0, b"new")
    writer.finish(data_bytes=3, size_bytes=3)
    writer.close()

    assert (tmp_path / "file").read_bytes() == b"new"


@pytest.mark.parametrize("data_bytes", [0, 1, 5, 9, MIB, 2 * MIB + 3])
def test_a_hash_is_that_of_the_first_bytes_and_of_zeros_behind(
    tmp_path: Path, data_bytes: int
) -> None:
    content = b"abcdefg" + b"x" * MIB
    (tmp_path / "file").write_bytes(content)
    expected = content[:data_bytes].ljust(data_bytes, b"\0")

    assert hash_file(tmp_path / "file", data_bytes) == hashlib.sha256(expected).hexdigest()


def test_json_comes_back_or_is_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "value"
    write_json(path, {"a": [1, None]})
    data = path.read_bytes()

    assert read_json(path) == {"a": [1, None]}
    assert [each.name for each in tmp_path.iterdir()] == ["value"]
    for damaged in (data[:-1], b"", b"zz" + data[2:], data.replace(b"null", b"true")):
        path.write_bytes(damaged)
        with pytest.raises(CorruptRecord, match="expected JSON with its CRC"):
            read_json(path)


def test_folders_are_made_and_removed_whole(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()
    for _ in range(2):
        remove_tree(tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(errno.ENOSPC, "x", "/there"), "the disk is full: /there"),
        (OSError(errno.EDQUOT, "x"), "bytes free"),
        (PermissionError(errno.EACCES, "x", "/there"), "/there: expected the permission"),
        (OSError(errno.EIO, "Input/output error"), "nowhere/yet: Input/output error"),
        (OSError("plain"), "nowhere/yet: plain"),
    ],
)
def test_errors_say_what_could_not_be_done_where(tmp_path: Path, error: OSError, text: str) -> None:
    def fail() -> None:
        with clear_errors("backup", tmp_path / "nowhere" / "yet"):
            raise error

    with pytest.raises(Unavailable, match="backup: ") as caught:
        fail()
    assert text in caught.value.message
