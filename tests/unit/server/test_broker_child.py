"""The broker's process by its orders; here in threads of the test, but for its sudden end."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.local import small_config
from tests.waiting import PATIENCE_S, wait_until

from dueline.client import Producer, Sent
from dueline.errors import StoreClosed
from dueline.flight.operators import OperatorClient, Report, Reported
from dueline.flight.protocol import Committed, CommitWindow
from dueline.server.broker_child import BrokerChild
from dueline.server.telling import (
    Accepting,
    AskFigures,
    Begin,
    Event,
    Failed,
    Filled,
    PipelineIs,
    PipelineReady,
    PipelineTrouble,
    Refused,
    ServingFigures,
    Stop,
    decode_event,
    encode,
    to_values,
)

STARTING = PipelineIs(status="starting", pid=7, start_count=2, reason="")


class Running:
    """A child in a thread, and what it told."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.told: list[Event] = []
        self.statuses: list[int] = []
        self.child = BrokerChild(small_config(folder, **settings), self.told.append)
        self._thread = threading.Thread(
            target=lambda: self.statuses.append(self.child.run()), daemon=True
        )
        self._thread.start()

    def wait_for(self, kind: type[Any]) -> Any:
        return wait_until(
            lambda: next((event for event in self.told if isinstance(event, kind)), None),
            kind.__name__,
        )

    def report(self) -> Reported:
        with OperatorClient(self.wait_for(Accepting).address) as client:
            return client.ask(Report(), Reported)

    def end(self) -> list[int]:
        self.child.order(Stop())
        self._thread.join(PATIENCE_S)
        return self.statuses


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path)
    yield running
    running.end()


def test_it_accepts_tells_figures_and_stops_in_order(running: Running) -> None:
    accepting = running.wait_for(Accepting)
    running.child.order(AskFigures())
    figures = running.wait_for(ServingFigures)

    assert running.end() == [0]
    assert accepting.address == accepting.local_address
    assert accepting.waiting_count == accepting.cut_bytes == 0
    assert (figures.sent, figures.pending, figures.pipeline) == (0, 0, "off")
    assert isinstance(running.told[-1], Filled)


def test_what_the_parent_sees_of_the_pipeline_is_reported(running: Running) -> None:
    running.child.order(STARTING)
    running.child.order(PipelineTrouble(error="KeyError"))
    wait_until(lambda: running.report().driver.error, "the trouble")

    driver = running.report().driver

    assert (driver.status, driver.pid, driver.start_count) == ("starting", 7, 2)
    assert driver.error == "KeyError"


def test_a_batch_of_the_pipeline_is_told(running: Running) -> None:
    running.child.order(STARTING)
    wait_until(lambda: running.report().driver.pid, "the pipeline's start")
    assert not any(isinstance(event, PipelineReady) for event in running.told)

    with OperatorClient(running.wait_for(Accepting).address) as client:
        client.call(CommitWindow(run="r", batch=1, tokens=(), is_transformed=False), Committed)

    running.wait_for(PipelineReady)


def test_clients_are_served_while_the_runway_is_filled(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = running.wait_for(Accepting).name_server
    running.child.order(STARTING)
    wait_until(lambda: running.report().driver.pid, "the pipeline's start")
    running.child._broker.pipeline.committed()
    sent: list[Sent] = []

    def fill_runway() -> None:
        with Producer(names, attempts_max=1) as producer:
            sent.append(producer.send("orders", b"late"))

    monkeypatch.setattr(running.child._broker, "fill_runway", fill_runway)

    assert running.end() == [0]
    assert len(sent) == 1


def test_a_broker_that_cannot_start_says_why(running: Running, tmp_path: Path) -> None:
    taken = running.wait_for(Accepting).remoting
    second = Running(tmp_path / "second", **{"listen.remoting": taken})

    assert f"expected to listen on {taken}" in second.wait_for(Refused).message
    assert second.end() == [2]


def test_a_store_that_closes_itself_ends_it(running: Running) -> None:
    running.wait_for(Accepting)

    running.child._broker._on_failure(StoreClosed("the disk is gone"))

    assert running.wait_for(Failed).message == "the disk is gone"
    assert running.end() == [1]


def started(folder: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-m", "dueline.server.broker_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(encode(Begin(settings=to_values(small_config(folder)))))
    process.stdin.flush()
    assert isinstance(decode_event(process.stdout.readline()), Accepting)
    return process


@pytest.mark.slow
def test_it_ends_with_its_parent_at_once_and_by_a_signal_in_order(tmp_path: Path) -> None:
    with started(tmp_path) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 1

    with started(tmp_path) as process:
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout is not None
        assert isinstance(decode_event(process.stdout.readline()), Filled)


@pytest.mark.slow
def test_a_spare_that_is_never_needed_ends_with_its_parent() -> None:
    command = [sys.executable, "-m", "dueline.server.broker_child"]

    spare = subprocess.run(command, input=b"", capture_output=True, timeout=PATIENCE_S, check=True)

    assert (spare.stdout, spare.stderr) == (b"", b"")
