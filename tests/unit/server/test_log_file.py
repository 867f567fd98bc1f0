"""The broker's log: for its owner alone, renamed when it has grown, never in anybody's way."""

from __future__ import annotations

import io
import logging
import stat
from pathlib import Path

import pytest

from dueline.server.log_file import LogFile


def record(text: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("x", logging.INFO, "file", 1, text, args, None)


def test_only_its_owner_reads_it_also_after_it_was_renamed(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "log", maxBytes=50, backupCount=2)
    for number in range(4):
        log.emit(record("x" * 30 + str(number)))
    log.close()

    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["log", "log.1", "log.2"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert files[0].read_text() == "x" * 30 + "3\n"


def test_lines_are_on_disk_at_once_and_added(tmp_path: Path) -> None:
    for text in ("first", "second"):
        log = LogFile(tmp_path / "log")
        log.emit(record(text))
        assert (tmp_path / "log").read_text().endswith(f"{text}\n")
        log.close()

    assert (tmp_path / "log").read_text() == "first\nsecond\n"


class FullDisk(io.RawIOBase):
    """What a file does when there is no room."""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        raise OSError(28, "No space left on device")


def test_a_full_disk_is_passed_over_and_a_mistake_of_ours_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = LogFile(tmp_path / "log")
    stream = log.stream
    log.stream = io.TextIOWrapper(io.BufferedWriter(FullDisk()), write_through=True)
    log.emit(record("lost"))
    assert capsys.readouterr().err == ""

    log.stream = stream
    log.emit(record("%d", "no number"))
    assert "no number" in capsys.readouterr().err
    log.close()
