import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.commands.conftest import Run
from tests.unit.server.local import small_config

from dueline.commands.serve import Terminal, _changed_settings
from dueline.config import load
from dueline.server.child import Child, ChildReport
from dueline.server.telling import Accepting, ServingFigures

QUIET = ServingFigures(
    now_ms=0,
    sent=0,
    delivered=0,
    dropped=0,
    pending=0,
    at_gate=0,
    overdue=0,
    next_due_ms=None,
    late_count=0,
    late_p50_ms=None,
    late_p99_ms=None,
    late_max_ms=None,
    pipeline="ready",
    error="",
)
ACCEPTING = Accepting(
    address="127.0.0.1:1",
    local_address="127.0.0.1:1",
    name_server="127.0.0.1:2",
    remoting=None,
    grpc="127.0.0.1:3",
    waiting_count=1_234,
    cut_bytes=0,
    damage_count=0,
    file_count_max=1 << 30,
)


def child(name: str, title: str, folder: Path) -> Child:
    return Child(name=name, title=title, command=("x",), environ={}, log_path=folder / "spark.log")


def test_a_status_says_what_waits_and_how_late_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(small_config(tmp_path))

    terminal.tick(
        replace(
            QUIET,
            pending=1_200,
            at_gate=34,
            next_due_ms=2_000,
            delivered=9,
            late_count=9,
            late_p50_ms=1,
            late_p99_ms=20,
            late_max_ms=1_500,
        )
    )

    line = capsys.readouterr().out
    assert line.endswith(
        "  1,234 wait · next in 2 s · 9 delivered · late p50 1 ms, p99 20 ms, max 1.5 s\n"
    )


def test_a_status_says_what_is_overdue_and_what_the_pipeline_complains_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(small_config(tmp_path))

    error = "ZeroDivisionError: division by zero, at mytx.py:5"
    terminal.tick(
        replace(QUIET, pending=3, next_due_ms=20_000, now_ms=200_000, overdue=2, error=error)
    )

    assert capsys.readouterr().out.endswith(
        "  3 wait · 2 OVERDUE, the oldest for 3 m · 0 delivered · "
        "trouble: ZeroDivisionError: division by zero, at mytx.py:5\n"
    )


def test_without_a_terminal_only_news_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(small_config(tmp_path))

    terminal.tick(replace(QUIET, pending=1))
    terminal.tick(replace(QUIET, pending=1, now_ms=60_000))
    terminal.tick(replace(QUIET, pending=2))

    assert len(capsys.readouterr().out.splitlines()) == 2
    assert terminal.tick_s >= 10


def test_on_a_terminal_one_line_is_kept_up_to_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    terminal = Terminal(small_config(tmp_path))

    terminal.tick(replace(QUIET, pending=1))
    terminal.tick(replace(QUIET, pending=1))
    terminal.stopping()

    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.count("\r\x1b[K1 wait · 0 delivered") == 2


def test_the_pipelines_way_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(small_config(tmp_path))

    for report in (
        ChildReport(status="starting", pid=7, start_count=1),
        ChildReport(status="ready", pid=7, start_count=1),
        ChildReport(status="waiting", start_count=1, reason="no Java here"),
        ChildReport(status="starting", pid=8, start_count=2),
    ):
        terminal.changed(child("pipeline", "Spark", tmp_path), report)

    starting, ready, ended, again = capsys.readouterr().out.splitlines()
    assert f"Spark starting, process 7; it writes to {tmp_path / 'spark.log'}" in starting
    assert "Spark ready after" in ready
    assert "Spark ended: no Java here; messages wait, it is started again" in ended
    assert "Spark starting again (start 2), process 8" in again


def test_a_broker_that_comes_back_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(small_config(tmp_path))

    for report in (
        ChildReport(status="starting", pid=7, start_count=1),
        ChildReport(status="ready", pid=7, start_count=1),
        ChildReport(status="waiting", start_count=1, reason="killed by signal 9"),
        ChildReport(status="starting", pid=8, start_count=2),
        ChildReport(status="ready", pid=8, start_count=2),
    ):
        terminal.changed(child("broker", "the broker", tmp_path), report)

    ended, back = capsys.readouterr().out.splitlines()
    assert "the broker ended: killed by signal 9; it is started again" in ended
    assert "the broker is back after " in back
    assert "process 8" in back


def test_accepting_is_told_with_the_addresses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small_config(tmp_path, **{"delivery.enabled": "false"})

    Terminal(config).accepting(ACCEPTING)

    out = capsys.readouterr().out
    assert "waiting from before: 1,234" in out
    assert "accepting on 127.0.0.1:1\n" in out
    assert "RocketMQ name server on 127.0.0.1:2\n" in out
    assert "RocketMQ 5.x clients on 127.0.0.1:3\n" in out
    assert "`dueline deliver` has to run elsewhere" in out
    assert "recovered" not in out


def test_programs_are_told_the_ports(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Terminal(small_config(tmp_path), as_json=True).accepting(ACCEPTING)

    (ports,) = [
        event
        for event in map(json.loads, capsys.readouterr().out.splitlines())
        if event["event"] == "listening"
    ]
    del ports["time_ms"], ports["event"]
    assert ports == {
        "flight": "127.0.0.1:1",
        "name_server": "127.0.0.1:2",
        "remoting": None,
        "grpc_port": 3,
    }


def test_settings_that_differ_are_told_without_their_secrets(tmp_path: Path) -> None:
    flags = {"data": str(tmp_path), "store.flush": "async", "delivery.conf": "spark.x=s3"}

    lines = _changed_settings(load(flags=flags))

    assert lines[0] == f'data = "{tmp_path}" (command line)'
    assert 'store.flush = "async" (command line)' in lines
    assert "delivery.conf = (values of spark.x not shown) (command line)" in lines
    assert len(lines) == 3


def test_a_folder_that_cannot_be_written_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    ran = run("serve", "--data", str(tmp_path / "file" / "data"), "--no-spark")

    assert ran.code == 2
    assert "expected to write into it" in ran.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--transform", "nosuch"), "delivery.transform: expected module:function, found 'nosuch'"),
        (("--transform", "nosuch:f"), "expected a module nosuch in the folder"),
        (("--master", "locl[*]"), "delivery.master: expected local[*]"),
    ],
)
def test_a_pipeline_that_cannot_work_is_told_at_the_start(
    run: Run, tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    ran = run("serve", "--data", str(tmp_path / "data"), *words)

    assert ran.code == 2
    assert text in ran.err
    assert not (tmp_path / "data").exists()
