"""`dueline backup` and `dueline restore`: what they print and how they end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.audit.making import make_data
from tests.unit.commands.conftest import Run

from dueline.server.process import BrokerProcess


def test_a_running_broker_is_backed_up_and_restored(
    run: Run, broker: BrokerProcess, tmp_path: Path
) -> None:
    assert run("send", "orders", "hello", "--delay", "1h").code == 0
    assert run("send", "orders", "now").code == 0

    ran = run("backup", "dest")

    assert ran.code == 0, ran.err
    assert "1 of 1 delayed messages pending" in ran.out
    assert "everything up to" in ran.lines[-1]
    listed = run("backup", "dest", "--list")
    assert "1 pending" in listed.out
    restored = run("restore", "dest", "again")
    assert restored.code == 0, restored.err
    assert "Run one broker only" in restored.out
    assert "1 of 1 delayed messages pending, the next due" in restored.out
    assert run("check", "again").code == 0


def test_a_stopped_broker_is_backed_up(run: Run, tmp_path: Path) -> None:
    make_data(tmp_path / "made")

    first = run("backup", "dest", "--data", "made", "--json")
    second = run("backup", "dest", "--data", "made", "--json", "--keep", "1")

    assert (first.code, second.code) == (0, 0)
    found = json.loads(second.out)
    assert found["copied_bytes"] == 0
    assert found["linked_bytes"] > 0
    assert found["removed"] == [json.loads(first.out)["folder"]]
    assert found["check"]["verdict"] == "sound"


def test_a_damaged_source_is_kept_and_said(run: Run, tmp_path: Path) -> None:
    data = make_data(tmp_path / "made")
    assert run("backup", "dest", "--data", "made").code == 0
    path = max((data / "store" / "delaylog").iterdir())
    content = bytearray(path.read_bytes())
    content[content.rfind(b"row ")] ^= 1
    path.write_bytes(content)

    ran = run("backup", "dest", "--data", "made", "--keep", "1")

    assert ran.code == 2
    assert "LOST OR WRONG" in ran.out
    assert len(run("backup", "dest", "--list").lines) == 2, "the sound one is not removed"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("backup", "dest", "--data", "nowhere"), "expected a broker's data folder"),
        (("backup", "dest", "--data", ".", "--broker", "h:1"), "either --broker or --data"),
        (("backup", "dest", "--list"), "expected a backup that is complete"),
        (("restore", "nowhere", "target"), "expected a backup that is complete"),
        (("backup", "dest", "--broker", "127.0.0.1:1"), "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    run: Run, words: tuple[str, ...], reason: str
) -> None:
    ran = run(*words)

    assert ran.code == 2
    assert reason in ran.err
    assert len(ran.err.splitlines()) == 1
