"""`dueline check`: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.audit.making import make_data
from tests.unit.commands.conftest import Run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data(tmp_path / "made")


def test_a_sound_store_ends_with_0(run: Run, data: Path) -> None:
    ran = run("check", str(data))

    assert ran.code == 0
    assert "100 of 379 delayed messages pending, the next due" in ran.out
    assert ran.lines[-1].endswith("made: sound")
    assert "sound, checked in" in ran.err


def test_what_opening_repairs_ends_with_1(run: Run, data: Path) -> None:
    (data / "store" / "checkpoint.json.mirror").unlink()

    ran = run("check", str(data / "store"), "--json")

    assert ran.code == 1
    found = json.loads(ran.out)
    assert (found["verdict"], found["exit_code"]) == ("repairable", 1)
    assert [one["severity"] for one in found["findings"]] == ["repair"]


def test_a_loss_ends_with_2(run: Run, data: Path) -> None:
    path = max((data / "store" / "delaylog").iterdir())
    content = bytearray(path.read_bytes())
    content[content.rfind(b"row ")] ^= 1
    path.write_bytes(content)

    ran = run("check", str(data))

    assert ran.code == 2
    assert "LOST OR WRONG: pending message" in ran.out
    assert "restore a backup" in ran.out


@pytest.mark.parametrize("name", ["nothing", "empty", "other"])
def test_what_is_no_store_cannot_be_read(run: Run, tmp_path: Path, name: str) -> None:
    if name != "nothing":
        (tmp_path / name).mkdir()
    if name == "other":
        (tmp_path / name / "notes.txt").touch()

    ran = run("check", str(tmp_path / name))

    assert ran.code == 2
    assert "expected a broker's data folder or a store" in ran.err


def test_help_tells_the_exit_codes(run: Run) -> None:
    ran = run("check", "--help")

    assert "exit codes: 0 sound; 1 opening" in ran.out
