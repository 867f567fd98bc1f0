import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.commands.conftest import Run
from tests.unit.server.local import running, small_config

from dueline.broker.figures import Figures, LogRange
from dueline.broker.lateness import LatenessFigures
from dueline.broker.pipeline import PipelineReport
from dueline.commands.serve import Terminal, _changed_settings
from dueline.config import load
from dueline.store.pending import Overdue

NOTHING = LatenessFigures(count=0, p50_ms=None, p99_ms=None, max_ms=None)
NOTHING_OVERDUE = Overdue(count=0, oldest=None)
NO_LOG = LogRange(start=0, end=0)
READY = PipelineReport(status="ready", pid=7, start_count=1)


def figures(lateness: LatenessFigures = NOTHING, **changes: int) -> Figures:
    counts = dict.fromkeys(
        (
            *("now_ms", "started_ms", "sent_count", "sent_delayed_count", "refused_count"),
            *("delivered_count", "dropped_count", "skipped_count", "cancelled_count"),
            *("rescheduled_count", "pending_count", "at_gate_count", "waiting_reader_count"),
            "late_ms_max",
        ),
        0,
    )
    given = {
        **{"next_due_ms": None, "lateness": lateness, "overdue": NOTHING_OVERDUE},
        **{"commit_log": NO_LOG, "delay_log": NO_LOG},
    }
    return Figures(**{**given, **counts, **changes})  # type: ignore[arg-type]


def test_a_status_says_what_waits_and_how_late_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(small_config(tmp_path))
    lateness = LatenessFigures(count=9, p50_ms=1, p99_ms=20, max_ms=1_500)

    terminal.tick(
        figures(
            lateness, pending_count=1_200, at_gate_count=34, next_due_ms=2_000, delivered_count=9
        ),
        READY,
    )

    line = capsys.readouterr().out
    assert line.endswith(
        "  1,234 wait · next in 2 s · 9 delivered · late p50 1 ms, p99 20 ms, max 1.5 s\n"
    )


def test_a_status_says_what_is_overdue_and_what_the_pipeline_complains_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(small_config(tmp_path))
    late = replace(
        figures(pending_count=3, next_due_ms=20_000, now_ms=200_000),
        overdue=Overdue(count=2, oldest=None),
    )

    error = "ZeroDivisionError: division by zero, at mytx.py:5"
    terminal.tick(late, replace(READY, error=error))

    assert capsys.readouterr().out.endswith(
        "  3 wait · 2 OVERDUE, the oldest for 3 m · 0 delivered · "
        "trouble: ZeroDivisionError: division by zero, at mytx.py:5\n"
    )


def test_without_a_terminal_only_news_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal(small_config(tmp_path))

    terminal.tick(figures(pending_count=1), READY)
    terminal.tick(figures(pending_count=1, now_ms=60_000), READY)
    terminal.tick(figures(pending_count=2), READY)

    assert len(capsys.readouterr().out.splitlines()) == 2
    assert terminal.tick_s >= 10


def test_on_a_terminal_one_line_is_kept_up_to_date(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    terminal = Terminal(small_config(tmp_path))

    terminal.tick(figures(pending_count=1), READY)
    terminal.tick(figures(pending_count=1), READY)
    terminal.stopping()

    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert out.count("\r\x1b[K1 wait · 0 delivered") == 2


def test_the_pipelines_way_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(small_config(tmp_path))

    for report in (
        PipelineReport(status="starting", pid=7, start_count=1),
        READY,
        PipelineReport(status="waiting", start_count=1, reason="no Java here"),
        PipelineReport(status="starting", pid=8, start_count=2),
    ):
        terminal.driver(report)

    starting, ready, ended, again = capsys.readouterr().out.splitlines()
    assert f"Spark starting, process 7; it writes to {tmp_path / 'spark.log'}" in starting
    assert "Spark ready after" in ready
    assert "Spark ended: no Java here; messages wait, it is started again" in ended
    assert "Spark starting again (start 2), process 8" in again


def test_accepting_is_told_with_the_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = small_config(tmp_path, **{"delivery.enabled": "false"})
    with running(config) as broker:
        Terminal(config).accepting(broker)

        out = capsys.readouterr().out
        assert f"accepting on {broker.address}" in out
        assert "`dueline deliver` has to run elsewhere" in out


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
