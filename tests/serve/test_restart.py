"""`dueline restart` of a real `dueline serve`, under traffic."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.history import History
from tests.faults.traffic import Traffic
from tests.serve.conftest import Served, clean_environment, served
from tests.waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEED = 20270103


def restart(folder: Path) -> tuple[int, dict[str, object], str]:
    done = subprocess.run(
        [sys.executable, "-m", "dueline", "restart", "--json", "--data", str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=clean_environment(),
        check=False,
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def test_a_restart_under_traffic_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """One restart is well, one fails because what was installed is broken, and one is a signal."""
    site = tmp_path / "site"
    site.mkdir()
    history = History()
    with served(tmp_path / "data", PYTHONPATH=str(site)) as serving:
        traffic = Traffic(serving.name_server, history, SEED)
        traffic.start()
        try:
            first = serving.broker_pid
            wait_for_more(history)
            code, note, _ = restart(serving.folder)
            second = serving.broker_pid
            assert (code, note["is_done"], note["broker_pid"]) == (0, True, second)
            assert second != first

            wait_for_more(history)
            broken = site / "pyarrow.py"
            broken.write_text("raise ImportError('half of an upgrade')")
            code, note, _ = restart(serving.folder)
            assert (code, note["is_done"]) == (1, False)
            assert "half of an upgrade" in str(note["message"])
            assert serving.broker_pid == second, "the old one goes on"
            broken.unlink()

            wait_for_more(history)
            serving.process.send_signal(signal.SIGHUP)
            wait_until(lambda: has_restarted(serving, 2), "another restart")
            traffic.stop_sending()
            wait_until(lambda: not history.missing(), f"the rest, seed {SEED}")
        finally:
            traffic.stop()
        assert serving.stop() == 0, serving.output
    history.check()


def test_a_stop_in_the_middle_of_a_restart_is_a_stop(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark") as serving:
        assert serving.address
        serving.process.send_signal(signal.SIGHUP)

        assert serving.stop() == 0, serving.output


def wait_for_more(history: History) -> None:
    seen = len(history.seen) + 50
    wait_until(lambda: len(history.seen) >= seen, f"delivery goes on, seed {SEED}")


def has_restarted(serving: Served, count: int) -> bool:
    return serving.output.count("restarted in place") == count
