"""The broker's process alone: start, stop, sudden end."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.serve.conftest import (
    READY_S_MAX,
    TOPIC,
    clean_environment,
    outgoing,
    receive,
    send,
    send_by,
    served,
    wait_until,
)

from dueline.errors import BrokerError
from dueline.flight.operators import Found, LookUp
from dueline.store.schema import SCHEDULE_SCHEMA

pytestmark = pytest.mark.slow


def test_it_stops_in_order_when_asked(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark") as serving:
        send(serving, outgoing("x", delay_ms=3_600_000))

        code = serving.stop(signal.SIGTERM)

    assert code == 0
    assert "stopping: nothing new is accepted" in serving.lines[-1]
    with served(tmp_path / "data", "--no-spark") as serving:
        assert serving.report().pending == 1
        assert "waiting from before: 1" in serving.output
        assert "torn" not in serving.output
        assert serving.stop(signal.SIGINT) == 0

    log = (tmp_path / "data" / "broker.log").read_text()
    assert log.count(" starts as process ") == log.count("stopped, exit code 0") == 2
    assert 'setting listen.grpc = "off" (command line)' in log
    assert "setting delivery.enabled = false (command line)" in log
    assert "setting store.flush" not in log, "it is the default"
    assert "waiting from before: 1" in log
    assert "stopping: nothing new is accepted" in log


def test_a_store_is_served_once(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark") as serving:
        assert serving.address
        second = subprocess.run(
            [
                *(sys.executable, "-m", "dueline", "serve", "--no-spark"),
                *("--data", str(tmp_path / "data"), "--flight", "127.0.0.1:0"),
                *("--name-server", "off", "--remoting", "off", "--grpc", "off"),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            env=clean_environment(),
            check=False,
        )

        assert second.returncode == 2
        assert f"is in use by process {serving.process.pid}" in second.stderr
        assert second.stderr.count("\n") == 1
        assert serving.report().pending == 0


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with served(tmp_path / "a", "--no-spark") as serving:
        second = subprocess.run(
            [
                *(sys.executable, "-m", "dueline", "serve", "--no-spark"),
                *("--data", str(tmp_path / "b"), "--flight", serving.address),
                *("--name-server", "off", "--remoting", "off", "--grpc", "off"),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            env=clean_environment(),
            check=False,
        )

    assert second.returncode == 2
    assert second.stderr.startswith("dueline serve: listen.flight: expected to listen on")


def test_what_was_acknowledged_survives_a_sudden_end(tmp_path: Path) -> None:
    """Killed while a producer sends; every message that got an answer is there again."""
    acknowledged: dict[str, int] = {}
    with served(tmp_path / "data", "--no-spark") as serving:
        assert serving.address

        def produce() -> None:
            with serving.producer() as producer:
                for number in range(1_000_000):
                    message = outgoing(f"{number}", delay_ms=3_600_000, key=f"k{number}")
                    try:
                        acknowledged.update(send_by(producer, message))
                    except BrokerError:
                        return

        producer = threading.Thread(target=produce)
        producer.start()
        wait_until(lambda: len(acknowledged) >= 100, "some acknowledged messages")
        serving.stop(signal.SIGKILL)
        producer.join()

    with served(tmp_path / "data", "--no-spark") as serving, serving.client() as client:
        report = serving.report()
        assert len(acknowledged) <= report.pending <= len(acknowledged) + 1
        last = max(acknowledged, key=int)
        for number in ("0", last):
            (found,) = client.ask(LookUp(key=f"k{number}"), Found).messages
            assert (found.topic, found.due_ms) == (TOPIC, acknowledged[number])


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark") as serving:
        assert serving.address
        assert serving.process.stdin is not None

        serving.process.stdin.close()

        assert serving.process.wait(60) == 0


def test_an_end_that_is_asked_for_twice_over_is_still_in_order(tmp_path: Path) -> None:
    """Whoever stops us with a signal also lets go of us; that is no call for haste."""
    with served(tmp_path / "data", "--no-spark") as serving:
        assert serving.address
        assert serving.process.stdin is not None

        serving.process.stdin.close()
        assert serving.stop(signal.SIGTERM) == 0


def test_a_peer_that_has_fallen_silent_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark") as serving, serving.client() as client:
        send(serving, outgoing("x", delay_ms=3_600_000))
        stream = client.open_stage("never finished", SCHEDULE_SCHEMA)

        assert serving.stop(signal.SIGTERM) == 0

        with pytest.raises(BrokerError):
            stream.finish()
    with served(tmp_path / "data", "--no-spark") as serving:
        assert serving.report().pending == 1


def test_messages_that_are_due_at_once_need_no_pipeline(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark") as serving:
        send(serving, outgoing("now", delay_ms=0))

        assert receive(serving, 1)[0].body == "now"


def test_a_transform_that_is_not_there_ends_it_with_words(tmp_path: Path) -> None:
    (tmp_path / "mytx.py").write_text("def half(due): return due")
    words = ("--transform", "mytx:hallf")
    with served(tmp_path / "data", *words, PYTHONPATH=str(tmp_path)) as serving:
        assert serving.process.wait(READY_S_MAX) == 2
        serving.stop()

    assert "the pipeline cannot work as it is set up: transform mytx:hallf" in serving.output
    assert "has no attribute 'hallf'" in serving.output
