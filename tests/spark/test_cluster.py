"""A real cluster on this machine: a master and two workers, one of which dies in the middle."""

import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.access.people import CLERK, SigningPeer, addresses, guarded
from tests.ports import free_port
from tests.spark.conftest import Broker
from tests.waiting import PATIENCE_S, wait_until

from dueline.credentials import Credentials
from dueline.server.process import BrokerProcess
from dueline.spark.java import prepare_java

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MESSAGE_COUNT = 160


class Cluster:
    """Processes in groups of their own, so that a worker dies with its executor."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._environ = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": sys.executable,
        }
        prepare_java(os.environ).apply(self._environ)
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"

    def start(self, *command: str, **environ: str) -> subprocess.Popen[bytes]:
        with (self._folder / f"process-{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                env={**self._environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def start_master(self) -> None:
        arguments = ["--host", "127.0.0.1", "--port", str(self.port), "--webui-port", "0"]
        self.start(sys.executable, "-m", "dueline", "cluster", "master", *arguments)
        wait_until(self._is_listening, "the master")

    def start_worker(self) -> subprocess.Popen[bytes]:
        arguments = ["--host", "127.0.0.1", "--cores", "1", "--memory", "600m"]
        arguments += ["--webui-port", "0", "--work-dir", str(self._folder / "work"), self.url]
        return self.start(sys.executable, "-m", "dueline", "cluster", "worker", *arguments)

    def start_delivery(self, address: str, **environ: str) -> subprocess.Popen[bytes]:
        return self.start(
            *(sys.executable, "-m", "dueline.spark.delivery", "--broker", address),
            *("--master", self.url, "--option", "transport=flight"),
            *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"),
            **environ,
        )

    def run_session(self, broker: Broker, workers_python: str) -> str:
        """A plain PySpark program on the cluster; returns what it printed last."""
        environment = {**self._environ, "PYSPARK_PYTHON": workers_python}
        command = [sys.executable, "-c", SESSION, self.url, broker.address]
        result = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert result.returncode == 0, result.stderr[-3000:]
        return result.stdout.strip().splitlines()[-1]

    def _is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for process in reversed(self._processes):
            if process.poll() is None:
                self.kill(process)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.close()


@pytest.mark.soak
def test_a_worker_that_dies_loses_and_repeats_nothing(broker: Broker, cluster: Cluster) -> None:
    for number in range(MESSAGE_COUNT):
        broker.put(b"%d" % number, delay_ms=1 + number)
    cluster.start_master()
    workers = [cluster.start_worker(), cluster.start_worker()]
    options = ["transport=flight", "row_count_max=20", "slice_count_max=2", "slice_row_count_min=5"]
    cluster.start(
        *(sys.executable, "-m", "dueline.spark.delivery", "--broker", broker.address),
        *("--master", cluster.url),
        *(part for option in options for part in ("--option", option)),
        *("--conf", "spark.executor.memory=512m", "--conf", "spark.driver.host=127.0.0.1"),
    )
    wait_until(lambda: broker.store.pending_count() < MESSAGE_COUNT, "the first batch")

    cluster.kill(workers[0])

    wait_until(lambda: broker.store.pending_count() == 0, "the rest")
    broker.advance(MESSAGE_COUNT)
    assert Counter(broker.bodies()) == Counter(b"%d" % number for number in range(MESSAGE_COUNT))


@pytest.mark.soak
def test_a_cluster_delivers_with_its_token(cluster: Cluster, tmp_path: Path) -> None:
    with guarded(tmp_path) as broker:
        _send_later(broker)
        cluster.start_master()
        cluster.start_worker()

        token = str(broker.config.access_folder / "pipeline.token")
        cluster.start_delivery(broker.address, DUELINE_TOKEN_FILE=token)

        wait_until(lambda: _end_of(broker) == MESSAGE_COUNT, "all messages")


@pytest.mark.soak
@pytest.mark.parametrize("who", [None, CLERK], ids=["no token", "a client's secret"])
def test_a_pipeline_without_the_token_is_refused(
    cluster: Cluster, tmp_path: Path, who: Credentials | None
) -> None:
    with guarded(tmp_path) as broker:
        _send_later(broker)
        cluster.start_master()
        cluster.start_worker()
        name = who.name if who is not None else None

        cluster.start_delivery(broker.address, **({"DUELINE_TOKEN": who.token} if who else {}))

        def refused() -> bool:
            lines = broker.broker.trail.recent(0) or []
            return any((e.event, e.door, e.user) == ("refused", "flight", name) for e in lines)

        wait_until(refused, "a refusal")
        assert _end_of(broker) == 0


def _send_later(broker: BrokerProcess) -> None:
    with SigningPeer(addresses(broker)[0], CLERK) as peer:
        for number in range(MESSAGE_COUNT):
            sent = peer.send_message("orders", b"%d" % number, TIMER_DELAY_MS="3000")
            assert sent.code == 0, sent.remark


def _end_of(broker: BrokerProcess) -> int:
    return broker.broker.reading.offset_range("orders", 0)[1]


SESSION = """
import sys
import dueline.spark
from dueline.errors import Unavailable
from pyspark.sql import SparkSession
builder = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.task.maxFailures", "1")
builder = builder.config("spark.executor.memory", "512m")
spark = builder.getOrCreate()
try:
    dueline.spark.register(spark)
except Unavailable as error:
    print("REFUSED", str(error))
else:
    frame = spark.read.format("dueline").option("brokers", sys.argv[2])
    print("FOUND", frame.option("view", "pending").load().count())
"""


@pytest.mark.soak
def test_a_session_on_a_cluster_is_told_when_its_workers_have_no_dueline(
    broker: Broker, cluster: Cluster, tmp_path: Path
) -> None:
    bare = tmp_path / "python3"
    bare.write_text(f'#!/bin/sh\nexec "{sys.base_prefix}/bin/python3" -S "$@"\n')
    bare.chmod(0o755)
    broker.put(b"waits", delay_ms=60_000)
    cluster.start_master()
    cluster.start_worker()

    assert cluster.run_session(broker, sys.executable) == "FOUND 1"
    refusal = cluster.run_session(broker, str(bare))

    assert refusal.startswith("REFUSED the cluster's workers: expected Dueline")
    assert "No module named 'dueline'" in refusal
    assert "pip install dueline==" in refusal
