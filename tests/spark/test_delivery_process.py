"""The pipeline's process: it survives its broker, and ends when it is told to or left alone."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tests.spark.conftest import Broker
from tests.waiting import PATIENCE_S, wait_until

from dueline.spark import delivery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

StartDriver = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start_driver(tmp_path: Path) -> Iterator[StartDriver]:
    processes: list[subprocess.Popen[bytes]] = []

    def start(
        broker: Broker, *arguments: str, conf: Mapping[str, str] | None = None
    ) -> "subprocess.Popen[bytes]":
        log = (tmp_path / f"driver-{len(processes)}.log").open("wb")
        command = [sys.executable, "-m", "dueline.spark.delivery", "--broker", broker.address]
        command += ["--master", "local[1]", "--option", "wait=100ms", *arguments]
        with log:
            environ = {**os.environ, "DUELINE_SPARK_CONF": json.dumps(conf or {})}
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stderr=log, env=environ, start_new_session=True
            )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def delivered(broker: Broker, seq_count: int) -> Callable[[], bool]:
    return lambda: (
        broker.store.pending_count() == 0 and broker.store.stats()["at_gate"] >= seq_count
    )


def test_it_outlives_a_restart_of_its_broker_and_stops_on_a_signal(
    broker: Broker, start_driver: StartDriver
) -> None:
    broker.put(b"a", delay_ms=1_000)
    process = start_driver(broker)
    wait_until(delivered(broker, 1), "the first message")

    broker.restart()
    broker.put(b"b", delay_ms=1_000)
    wait_until(delivered(broker, 2), "a message after the restart")
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)

    assert process.wait(PATIENCE_S) == 0
    broker.advance(1_000)
    assert broker.bodies() == [b"a", b"b"]


def command_lines(session_id: int) -> list[str]:
    """What a process list shows of all processes that a driver has started."""
    listed = subprocess.run(
        ["ps", "-ww", "-A", "-o", "sess=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 1) for line in listed.splitlines()]
    return [row[1] for row in rows if len(row) == 2 and row[0] == str(session_id)]


def test_secrets_are_in_force_but_not_in_the_process_list(
    broker: Broker, start_driver: StartDriver, tmp_path: Path
) -> None:
    secrets = {
        "spark.hadoop.fs.s3a.secret.key": "h1dd en=\\ü",
        "spark.sql.session.timeZone": "+07:13",
    }
    broker.put(b"a", delay_ms=1_000)

    process = start_driver(broker, "--transform", "tests.spark.transforms:confided", conf=secrets)
    wait_until(delivered(broker, 1), "the first message")

    lines = command_lines(process.pid)
    assert any("java" in line for line in lines)
    assert not any("h1dd" in line or "+07:13" in line for line in lines)
    assert "h1dd" not in (tmp_path / "driver-0.log").read_text()
    broker.advance(1_000)
    assert broker.bodies() == [b"h1dd en=\\\xc3\xbc +07:13"]


def test_it_ends_with_its_parent(broker: Broker, start_driver: StartDriver, tmp_path: Path) -> None:
    """The parent's end of standard input is closed, here while Spark is still starting."""
    process = start_driver(broker, "--tethered")
    assert process.stdin is not None
    process.stdin.close()

    assert process.wait(PATIENCE_S) == 0
    assert "stopped" in (tmp_path / "driver-0.log").read_text()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--transform", "tests.spark.transforms:nothing_of_this_name"],
        ["--option", "ahead=soon"],
        ["--option", "ahead"],
        ["--conf", "=x"],
    ],
)
def test_wrong_arguments_end_it_before_spark_starts(
    broker: Broker, start_driver: StartDriver, arguments: list[str], tmp_path: Path
) -> None:
    process = start_driver(broker, *arguments)

    assert process.wait(PATIENCE_S) == 2
    assert "expected" in (tmp_path / "driver-0.log").read_text()


def test_it_gives_up_when_its_broker_stays_away(
    spark: SparkSession, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "BACKOFF_S_MAX", 0.0)
    monkeypatch.setattr(delivery, "FAILURE_COUNT_MAX", 2)
    options = delivery.DeliveryOptions(brokers=broker.address, checkpoint=str(tmp_path / "c"))
    broker.service.stop()

    with pytest.raises(PySparkException, match="is it running"):
        delivery.run(spark, options, threading.Event())

    broker.serve_at(broker.address)


def test_nothing_is_started_after_a_stop(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    stop = threading.Event()
    stop.set()
    options = delivery.DeliveryOptions(brokers=broker.address, checkpoint=str(tmp_path / "c"))

    delivery.run(spark, options, stop)

    assert not (tmp_path / "c").exists()
