"""kill -9 of the broker at random moments under load, and of Spark's Python workers.

The pipeline is a process of its own that outlives its broker. A history checker looks at
everything that producers were told and consumers saw.
"""

import contextlib
import logging
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.faults.history import History
from tests.faults.traffic import Traffic
from tests.ports import free_ports
from tests.serve.conftest import Served
from tests.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROUNDS = 60 if IS_SOAK else 2
SEED = int(os.environ.get("DUELINE_SEED", "20270101"))


class Pipeline:
    """`dueline.spark.delivery` as a process that is started again when it has ended."""

    def __init__(self, address: str, log: Path) -> None:
        self._command = [sys.executable, "-m", "dueline.spark.delivery", "--broker", address]
        self._log = log.open("wb")
        self._process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        options = ["--master", "local[2]", "--option", "wait=100ms", "--tethered"]
        return subprocess.Popen([*self._command, *options], stdin=subprocess.PIPE, stderr=self._log)

    def is_running(self) -> bool:
        """True; if it has ended, it is started again first."""
        if self._process.poll() is not None:
            self._process.communicate()
            self._process = self._start()
        return True

    def kill_workers(self) -> None:
        """SIGKILL to every Python process that Spark has started."""
        for pid in workers_of(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._log.close()


def workers_of(pid: int) -> list[int]:
    """The Python processes below a pipeline: Spark's workers, and what they are forked from."""
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                parents[int(path.name)] = int(fields[1])
    below = {pid}
    for _ in range(6):
        below |= {child for child, parent in parents.items() if parent in below}
    found = []
    for child in below - {pid}:
        with contextlib.suppress(OSError):
            command = (Path("/proc") / str(child) / "cmdline").read_bytes()
            is_python = b"java" not in command.split(b"\0")[0]
            if is_python and (b"pyspark" in command or b"spark.zygote" in command):
                found.append(child)
    return found


def test_a_broker_killed_again_and_again_under_load_loses_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    choose = random.Random(SEED)
    address, names, remoting = (f"127.0.0.1:{port}" for port in free_ports(3))
    ports = ("--flight", address, "--name-server", names, "--remoting", remoting)
    history = History()
    broker = Served(tmp_path / "data", "--no-spark", *ports)
    assert broker.address == address
    pipeline = Pipeline(address, tmp_path / "pipeline.log")
    traffic = Traffic(names, history, SEED)
    traffic.start()
    try:
        wait_until(lambda: bool(history.seen), "a first delivery")
        for number in range(ROUNDS):
            seen = len(history.seen) + choose.randrange(200)
            wait_until(
                lambda seen=seen: pipeline.is_running() and len(history.seen) >= seen,  # type: ignore[misc]
                f"delivery goes on in round {number}, seed {SEED}",
            )
            if number % 4 == 2:
                pipeline.kill_workers()
            broker.end()  # SIGKILL
            broker = Served(tmp_path / "data", "--no-spark", *ports)
            assert broker.address == address
        traffic.stop_sending()
        wait_until(
            lambda: pipeline.is_running() and not history.missing(), f"the rest, seed {SEED}"
        )
        wait_until(lambda: _is_drained(broker), "an empty broker")
    finally:
        traffic.stop()
        pipeline.end()
        broker.end()
    history.check()
    late = history.late_ms()
    logging.getLogger(__name__).info(
        "%d acknowledged, %d received, %d kills, late p50 %d ms, max %d ms",
        len(history.due_ms),
        len(history.seen),
        ROUNDS,
        late[len(late) // 2],
        late[-1],
    )


def _is_drained(broker: Served) -> bool:
    report = broker.report()
    return report.pending == 0 and report.at_gate == 0
