"""The broker's process alone: start, stop, sudden end."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.serve.conftest import (
    TOPIC,
    clean_environment,
    outgoing,
    receive,
    send,
    send_by,
    served,
)
from tests.waiting import PATIENCE_S, wait_until

from dueline.client import Producer
from dueline.errors import BrokerError
from dueline.flight.operators import Found, LookUp, OperatorClient, Report, Reported
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
                *("--name-server", "off", "--remoting", "off", "--grpc", "off", "--http", "off"),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=clean_environment(),
            check=False,
        )

        assert second.returncode == 2
        assert f"is in use by process {serving.process.pid}" in second.stderr
        assert second.stderr.count("\n") == 1
        assert serving.report().pending == 0


def test_a_killed_broker_is_back_on_the_same_ports_with_what_it_had(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark", "--json") as serving:
        wait_until(lambda: '"listening"' in serving.output, "the ports")
        ports = next(
            line for line in map(json.loads, serving.lines) if line["event"] == "listening"
        )
        with Producer(ports["name_server"], attempts_max=1) as producer:
            send_by(producer, outgoing("x", delay_ms=3_600_000))
        first = serving.broker_pid

        os.kill(first, signal.SIGKILL)

        wait_until(lambda: "the broker is back after" in serving.output, "another broker")
        with OperatorClient(ports["flight"]) as client:
            report = client.ask(Report(), Reported)
        assert report.pid == serving.broker_pid != first
        assert report.pending == 1
        with Producer(ports["name_server"], attempts_max=1) as producer:
            send_by(producer, outgoing("y", delay_ms=3_600_000))
        assert serving.stop() == 0
    assert "killed by signal 9; it is started again" in serving.output


def test_a_broker_that_can_be_started_no_more_ends_it_with_the_reason(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark") as serving:
        assert serving.address
        tables = tmp_path / "data" / "store" / "commitlog"
        tables.rename(tables.with_name("elsewhere"))
        tables.write_text("no folder")

        os.kill(serving.broker_pid, signal.SIGKILL)

        assert serving.process.wait(PATIENCE_S) in (1, 2)
        serving.stop()
    assert "the broker cannot go on: " in serving.output
    assert "commitlog" in serving.output


def test_a_second_signal_ends_everything_at_once(tmp_path: Path) -> None:
    with served(tmp_path / "data", "--no-spark") as serving, serving.client() as client:
        pid = wait_until(lambda: serving.broker_pid, "the broker")
        # A peer that never finishes keeps the orderly end waiting.
        client.open_stage("never finished", SCHEDULE_SCHEMA)
        os.kill(pid, signal.SIGSTOP)

        serving.process.send_signal(signal.SIGTERM)
        wait_until(lambda: "stopping" in serving.output, "the orderly end")

        assert serving.stop(signal.SIGTERM) == 130
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the broker's end")


def test_a_parent_that_is_killed_takes_the_broker_along_and_the_next_one_waits_for_that(
    tmp_path: Path,
) -> None:
    with served(tmp_path / "data", "--no-spark") as serving:
        send(serving, outgoing("x", delay_ms=3_600_000))
        serving.stop(signal.SIGKILL)
        with served(tmp_path / "data", "--no-spark") as second:
            assert second.report().pending == 1
            assert second.stop() == 0


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    with served(tmp_path / "a", "--no-spark") as serving:
        second = subprocess.run(
            [
                *(sys.executable, "-m", "dueline", "serve", "--no-spark"),
                *("--data", str(tmp_path / "b"), "--flight", serving.address),
                *("--name-server", "off", "--remoting", "off", "--grpc", "off", "--http", "off"),
            ],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
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

        assert serving.process.wait(PATIENCE_S) == 0


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
        assert serving.process.wait(PATIENCE_S) == 2
        serving.stop()

    assert "the pipeline cannot work as it is set up: transform mytx:hallf" in serving.output
    assert "has no attribute 'hallf'" in serving.output
