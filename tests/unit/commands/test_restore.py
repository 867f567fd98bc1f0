"""`dueline restore`: what it prints, and its exit codes."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest
from tests.unit.backup.making import make_data, source
from tests.unit.store.making import START_MS

from dueline.backup.copying import back_up
from dueline.backup.vault import Vault
from dueline.commands import restore
from dueline.errors import NotFound


@pytest.fixture
def dest(tmp_path: Path) -> Path:
    vault = Vault(tmp_path / "dest")
    back_up(source(make_data(tmp_path / "data", b"first body")), vault)
    vault.close()
    return vault.folder


def run(*words: object) -> int:
    parser = argparse.ArgumentParser()
    restore.configure(parser)
    return restore.run(parser.parse_args([str(word) for word in words]))


def test_it_says_what_was_restored_and_warns_of_two_brokers(
    dest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(dest, tmp_path / "new") == 0

    text = capsys.readouterr().out
    assert str(tmp_path / "data") in text
    assert "Run one broker only" in text
    assert (tmp_path / "new" / "store").is_dir()


def test_programs_read_json(dest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(dest, tmp_path / "new", "--json") == 0

    found = json.loads(capsys.readouterr().out)
    assert (found["folder"], found["cut_ms"]) == (str(tmp_path / "new"), START_MS)
    assert found["check"]["verdict"] == "sound"
    assert found["backup"].startswith(str(dest))


def test_without_a_backup_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        run(tmp_path / "nowhere", tmp_path / "new")
    assert not (tmp_path / "new").exists()
