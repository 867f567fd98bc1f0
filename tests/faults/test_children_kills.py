"""kill -9 of each child of `dueline serve` alone, under load; the others go on.

A history checker looks at everything that producers were told and consumers saw.
"""

import contextlib
import os
import random
import signal
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.faults.history import History
from tests.faults.test_broker_kills import workers_of
from tests.faults.traffic import Traffic
from tests.ports import free_ports
from tests.serve.conftest import Served, served
from tests.waiting import wait_until

from dueline.errors import BrokerError

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS = ("broker", "workers", "broker", "pipeline")
ROUNDS = 15 if IS_SOAK else 1
SEED = int(os.environ.get("DUELINE_SEED", "20270102"))


def test_each_child_killed_alone_loses_and_repeats_nothing(tmp_path: Path) -> None:
    choose = random.Random(SEED)
    address, names, remoting = (f"127.0.0.1:{port}" for port in free_ports(3))
    ports = ("--flight", address, "--name-server", names, "--remoting", remoting)
    history = History()
    with served(tmp_path / "data", "--master", "local[2]", *ports) as serving:
        serving.wait_until_ready()
        traffic = Traffic(names, history, SEED)
        traffic.start()
        try:
            for number, victim in enumerate(KILLS * ROUNDS):
                seen = len(history.seen) + choose.randrange(1, 200)
                wait_until(
                    lambda seen=seen: len(history.seen) >= seen,  # type: ignore[misc]
                    f"delivery goes on after kill {number}, seed {SEED}",
                )
                kill(serving, victim)
            traffic.stop_sending()
            wait_until(lambda: not history.missing(), f"the rest, seed {SEED}")
            wait_until(lambda: is_drained(serving), "an empty broker")
        finally:
            traffic.stop()
        assert serving.stop() == 0, serving.output
    history.check()
    assert serving.output.count("the broker is back after") == KILLS.count("broker") * ROUNDS


def test_a_broker_that_stands_in_for_the_pipeline_is_killed(tmp_path: Path) -> None:
    """The pipeline is halted in its start: all that comes is the deputy's work."""
    choose = random.Random(SEED)
    address, names, remoting = (f"127.0.0.1:{port}" for port in free_ports(3))
    ports = ("--flight", address, "--name-server", names, "--remoting", remoting)
    history = History()
    with served(tmp_path / "data", *ports) as serving:
        os.killpg(wait_until(lambda: driver_pid(serving), "the pipeline"), signal.SIGSTOP)
        traffic = Traffic(names, history, SEED)
        traffic.start()
        try:
            for number in range(3 * ROUNDS):
                seen = len(history.seen) + choose.randrange(1, 200)
                wait_until(
                    lambda seen=seen: len(history.seen) >= seen,  # type: ignore[misc]
                    f"delivery goes on after kill {number}, seed {SEED}",
                )
                kill(serving, "broker")
            traffic.stop_sending()
            wait_until(lambda: is_drained(serving), "an empty broker")
            wait_until(lambda: not history.missing(), f"the rest, seed {SEED}")
            assert serving.report().driver.status == "starting"
        finally:
            traffic.stop()
        assert serving.stop() == 0, serving.output
    history.check()


def kill(serving: Served, victim: str) -> None:
    """SIGKILL; returns when the victim is another one."""
    if victim == "broker":
        pid = serving.broker_pid
        back = serving.output.count("the broker is back after")
        os.kill(pid, signal.SIGKILL)
        wait_until(
            lambda: serving.output.count("the broker is back after") > back, "another broker"
        )
        return
    pid = wait_until(lambda: driver_pid(serving), "the pipeline's process")
    victims = [pid] if victim == "pipeline" else workers_of(pid)
    for each in victims:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    wait_until(lambda: pid != driver_pid(serving) or victim == "workers", "another pipeline")


def driver_pid(serving: Served) -> int | None:
    try:
        return serving.report().driver.pid
    except BrokerError:
        return None


def is_drained(serving: Served) -> bool:
    report = serving.report()
    return report.pending == 0 and report.at_gate == 0
