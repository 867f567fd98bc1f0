"""`dueline import`: what it prints, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.golden.layout import STORE
from tests.unit.commands.conftest import Run
from tests.unit.server.local import running, small_config
from tests.unit.takeover.making import HALF_TOPIC, START_MS, FakeBroker
from tests.waiting import PATIENCE_S

from dueline.errors import Unavailable
from dueline.store import Files
from dueline.store.imports import Imports

SMALL = ("--set", "store.commit_segment_size=64KiB", "--set", "store.delay_segment_size=64KiB")


@pytest.fixture
def fake(tmp_path: Path) -> FakeBroker:
    return FakeBroker(tmp_path / "source")


def test_summary_for_people(run: Run, fake: FakeBroker) -> None:
    for queue_id in range(3):
        fake.message("orders", queue_id, b"x")
        fake.delayed("mails", queue_id, b"x", 1)
    fake.put(HALF_TOPIC, 0, b"x", UNIQ_KEY="H", REAL_TOPIC="orders", REAL_QID="0")
    fake.put("RMQ_SYS_TRACE_TOPIC", 0, b"x")

    ran = run("import", str(fake.save()), "--data", "data", *SMALL)

    assert (ran.code, ran.err) == (0, "")
    assert ran.lines == [
        f"took over {fake.path} into data",
        "  pending delayed messages: 3, of which 3 are overdue",
        "    due 2023-11-14 22:13:21.000 UTC to 2023-11-14 22:13:21.000 UTC",
        "               3 mails",
        "  ordinary messages: 3",
        "               3 orders",
        "  half messages of open transactions: 1",
        "  topics: 2, consumer groups: 0",
        "left behind",
        "             1 RocketMQ's own records",
    ]
    again = run("import", str(fake.path), "--data", "data", *SMALL)
    assert again.code == 0
    assert "was taken over on" in again.out


def test_summary_for_programs(run: Run, fake: FakeBroker, tmp_path: Path) -> None:
    fake.delayed("orders", 0, b"x", 2)
    fake.message("orders", 0, b"x")
    fake.offsets = {"orders@g": {0: 1}}

    ran = run("import", str(fake.save()), "--data", "data", "--dry-run", "--json")

    found = json.loads(ran.out)
    assert ran.code == 0
    assert found["pending_by_topic"] == {"orders": 1}
    assert found["due_first_ms"] == found["due_last_ms"] == START_MS + 5_000
    assert found["left"] == {"read": 1}
    assert found["dry_run"] is True
    assert not (tmp_path / "data").exists()


def test_what_consumers_might_miss_is_an_exit_code(run: Run, fake: FakeBroker) -> None:
    fake.message("orders", 0, b"x")
    fake.message("bad topic!", 0, b"x")
    (fake.save() / "abort").touch()

    ran = run("import", str(fake.path), "--data", "data", *SMALL)

    assert ran.code == 1
    assert "1 with a topic or queue that Dueline cannot have  <- missed" in ran.out
    assert ran.lines[-1].startswith("note: the broker did not stop in order")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("nowhere",), "expected a store of RocketMQ"),
        ((str(STORE), "--levels", "1x"), "--levels: delay levels: expected a number"),
        ((str(STORE), "--all-messages", "--pending-only"), "not allowed with"),
        ((str(STORE), "--commitlog", "elsewhere"), "found checkpoint, commitlog, config"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, words: tuple[str, ...], reason: str) -> None:
    ran = run("import", *words)

    assert ran.code == 2
    assert reason in ran.err


def test_folder_of_a_running_broker_is_refused(run: Run, fake: FakeBroker, tmp_path: Path) -> None:
    fake.message("orders", 0, b"x")
    fake.save()
    config = small_config(tmp_path / "data")
    with running(config):
        done = subprocess.run(
            [sys.executable, "-m", "dueline", "import", str(fake.path), "--data", config.data],
            capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip

    assert done.returncode == 2
    assert "is in use by process" in done.stderr


def test_broker_does_not_run_on_half_an_import(
    run: Run, fake: FakeBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.message("orders", 0, b"x")
    with monkeypatch.context() as patch:
        patch.setattr(Imports, "finish", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        assert run("import", str(fake.save()), "--data", "data", *SMALL).code == 130
    config = small_config(tmp_path / "data", **{"store.commit_segment_size": "64KiB",
                                                "store.delay_segment_size": "64KiB"})  # fmt: skip

    with pytest.raises(Unavailable, match="unfinished import"), running(config):
        pass
    finished = run("import", str(fake.path), "--data", "data", *SMALL)

    assert "  1 of them by an import that was interrupted" in finished.lines
    assert Imports(tmp_path / "data", Files()).unfinished is None
