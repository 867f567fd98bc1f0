from pathlib import Path

import pytest

from dueline.cli import main
from dueline.server.folder import ServeLock
from dueline.server.restarting import Note, write_note


def test_without_a_broker_there_is_nothing_to_restart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["restart", "--data", str(tmp_path)]) == 2
    assert "expected a running `dueline serve`, found none" in capsys.readouterr().err


def test_a_process_that_does_not_know_restarts_gets_no_signal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A signal would stop one of an older version."""
    lock = ServeLock(tmp_path)
    (tmp_path / "serve.lock").write_text("1")
    write_note(tmp_path, Note(pid=2))

    assert main(["restart", "--data", str(tmp_path)]) == 2

    lock.release()
    assert "of an older version" in capsys.readouterr().err
