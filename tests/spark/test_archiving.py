"""The archive of Java's classes is written beside the pipeline, and holds up nobody."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_until

from dueline.spark.archiving import Archiving
from dueline.spark.class_archive import ClassArchive, archive_for
from dueline.spark.java import prepare_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runtime = prepare_java(os.environ)
    monkeypatch.setenv("JAVA_HOME", str(runtime.home))
    archive = archive_for(runtime.home, os.environ)
    assert archive is not None
    return archive


@pytest.mark.soak  # `make test` has it written before all tests, and fails without it
def test_the_process_writes_the_archive(archive: ClassArchive) -> None:
    command = [sys.executable, "-m", "dueline.spark.archiving"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        status = process.wait()

    assert status == 0
    assert archive.options_to_read
    assert list(archive.path.parent.iterdir()) == [archive.path]


def test_it_is_ended_at_once_with_all_that_it_has_started(archive: ClassArchive) -> None:
    archiving = Archiving()
    archiving.start()
    assert archiving._process is not None
    session = archiving._process.pid

    wait_until(lambda: len(members(session)) > 1, "Java")
    archiving.stop()

    wait_until(lambda: not members(session), "the end of all")
    archiving.start()
    assert members(session) == [], "what is stopped is not started again"
    assert not archive.path.exists()


def test_nothing_is_started_for_an_archive_that_is_there(archive: ClassArchive) -> None:
    archive.path.write_bytes(b"")
    archiving = Archiving()

    archiving.start()

    assert archiving._process is None
    assert archiving.wait()
    archiving.stop()


def members(session: int) -> list[int]:
    """The living processes of a session."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, _, _, of = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
            except OSError:
                continue
            if int(of) == session and state != "Z":
                found.append(int(folder.name))
    return found
