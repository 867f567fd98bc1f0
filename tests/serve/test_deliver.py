"""`dueline deliver`: the pipeline in a process of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.serve.conftest import clean_environment, outgoing, receive, send, served
from tests.waiting import PATIENCE_S

pytestmark = [pytest.mark.slow, pytest.mark.spark]


def test_a_pipeline_elsewhere_delivers_and_stops_when_asked(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark") as serving:
        due_ms = send(serving, outgoing("x", delay_ms=2_000))
        command = [sys.executable, "-m", "dueline", "deliver", "--broker", serving.address]
        log_path = tmp_path / "deliver.log"
        with (
            log_path.open("wb") as log,
            subprocess.Popen(
                [*command, "--master", "local[1]"], stderr=log, env=clean_environment()
            ) as pipeline,
        ):
            try:
                (arrival,) = receive(serving, 1)
                driver = serving.report().driver
            finally:
                pipeline.send_signal(signal.SIGTERM)
            assert pipeline.wait(PATIENCE_S) == 0, log_path.read_text()

    assert (arrival.body, arrival.message.due_ms) == ("x", due_ms["x"])
    assert driver.status == "off"
    assert driver.asked_ms is not None
