import logging
import stat
from pathlib import Path

import pytest

from dueline.server.rotating import LogHandler, RotatingFile


def test_lines_are_appended_also_to_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"before\n")
    file = RotatingFile(path)

    file.write(b"one\n")
    file.write(b"two\n")

    assert path.read_bytes() == b"before\none\ntwo\n"


def test_the_file_and_the_one_before_it_stay_small(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    file = RotatingFile(path, size_bytes_max=100)
    lines = [b"line %03d\n" % number for number in range(100)]

    for line in lines:
        file.write(line)

    older = tmp_path / "x.log.1"
    kept = older.read_bytes() + path.read_bytes()
    assert sorted(tmp_path.iterdir()) == [path, older]
    assert b"".join(lines).endswith(kept)
    assert 100 < len(kept) <= 2 * (100 + len(lines[0]))


def record(text: str, *args: object) -> logging.LogRecord:
    return logging.LogRecord("x", logging.INFO, "file", 1, text, args, None)


def test_only_its_owner_reads_it_also_after_it_was_renamed(tmp_path: Path) -> None:
    handler = LogHandler(RotatingFile(tmp_path / "log", size_bytes_max=30))
    for number in range(3):
        handler.emit(record("x" * 30 + str(number)))

    files = sorted(tmp_path.iterdir())
    assert [path.name for path in files] == ["log", "log.1"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert files[0].read_text() == "x" * 30 + "2\n"


def test_a_log_that_cannot_be_written_is_passed_over_and_a_mistake_of_ours_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").mkdir()
    handler = LogHandler(RotatingFile(tmp_path / "log"))

    handler.emit(record("lost"))
    assert capsys.readouterr().err == ""

    handler.emit(record("%d", "no number"))
    assert "no number" in capsys.readouterr().err
