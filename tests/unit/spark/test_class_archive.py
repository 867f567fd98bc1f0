"""Java's classes are kept from one start to the next, by whoever ends first and well."""

import os
import subprocess
from pathlib import Path

import pytest

from dueline.spark.class_archive import ClassArchive, archive_for
from dueline.spark.java import prepare_java

pytestmark = pytest.mark.slow


@pytest.fixture
def home() -> Path:
    return prepare_java(os.environ).home


def run_java(home: Path, options: str) -> "subprocess.Popen[bytes]":
    command = [str(home / "bin" / "java"), *options.split(), "-XshowSettings:none", "-version"]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)


def archive_in(folder: Path, home: Path) -> ClassArchive:
    archive = archive_for(home, {"XDG_CACHE_HOME": str(folder)})
    assert archive is not None
    return archive


def test_what_the_first_java_writes_the_next_one_reads(tmp_path: Path, home: Path) -> None:
    archive = archive_in(tmp_path, home)
    assert archive.options_to_read == ""

    archive.keep(run_java(home, archive.options_to_write))

    assert archive.path.exists()
    assert [path.name for path in archive.path.parent.iterdir()] == [archive.path.name]
    assert archive.options_to_read == archive.options_to_write
    reader = run_java(home, f"-Xshare:on {archive.options_to_read.replace('-Xshare:auto', '')}")
    reader.communicate()
    assert reader.returncode == 0


def test_a_java_that_ended_badly_leaves_nothing(tmp_path: Path, home: Path) -> None:
    archive = archive_in(tmp_path, home)
    draft = archive.path.with_suffix(f".{os.getpid()}")
    java = subprocess.Popen(["sh", "-c", f"touch {draft}; exit 1"], stdin=subprocess.PIPE)

    archive.keep(java)

    assert not archive.path.exists()


def test_drafts_of_dead_processes_are_removed(tmp_path: Path, home: Path) -> None:
    archive = archive_in(tmp_path, home)
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, own = (archive.path.with_suffix(f".{pid}") for pid in (ended.pid, os.getpid()))
    dead.touch()
    own.touch()

    archive.sweep()

    assert not dead.exists()
    assert own.exists()


def test_archives_that_nobody_uses_any_more_are_removed(tmp_path: Path, home: Path) -> None:
    old, used, own = (archive_in(tmp_path, home / name) for name in ("old", "used", "own"))
    for archive in (old, used, own):
        archive.path.touch()
        os.utime(archive.path, (0, 0))
    assert used.options_to_read != ""

    own.sweep()

    assert [archive.path.exists() for archive in (old, used, own)] == [False, True, True]


def test_another_java_has_another_archive(tmp_path: Path, home: Path) -> None:
    assert archive_in(tmp_path, home).path != archive_in(tmp_path, home / "other").path


def test_without_a_place_to_write_there_is_none(home: Path) -> None:
    assert archive_for(home, {}) is None
    assert archive_for(home, {"XDG_CACHE_HOME": "/proc/nowhere"}) is None
