"""`dueline send` and `dueline tail` as processes, against a broker that is killed in between."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.ports import free_ports
from tests.serve.conftest import WAIT_S_MAX, clean_environment, served

pytestmark = pytest.mark.slow


@contextmanager
def tail(*words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "dueline", "tail", "--json", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def send(*words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "dueline", "send", *words],
        capture_output=True,
        text=True,
        timeout=WAIT_S_MAX,
        check=True,
        env=clean_environment(),
    ).stdout


def test_tail_outlives_a_killed_broker_and_a_group_goes_on(tmp_path: Path) -> None:
    names, remoting = (f"127.0.0.1:{port}" for port in free_ports(2))
    broker = ("--no-spark", "--name-server", names, "--remoting", remoting)
    client = ("--name-server", names)
    with served(tmp_path / "data", *broker) as serving:
        assert serving.address
        assert "visible now" in send("orders", "one", *client)
        with tail("orders", "--from", "start", "--group", "g", "--count", "2", *client) as tailing:
            assert tailing.stdout is not None
            first = json.loads(tailing.stdout.readline())
            serving.stop(signal.SIGKILL)
            with served(tmp_path / "data", *broker) as again:
                assert again.address
                send("orders", "two", *client)
                second = json.loads(tailing.stdout.readline())
                _, told = tailing.communicate(timeout=WAIT_S_MAX)
                send("orders", "three", *client)
                words = ("--from", "start", "--group", "g", "--count", "1", "--timeout", "60s")
                with tail("orders", *words, *client) as next_tail:
                    third = json.loads(next_tail.communicate(timeout=WAIT_S_MAX)[0])

    assert [each["body"] for each in (first, second, third)] == ["one", "two", "three"]
    assert [each["offset"] for each in (first, second, third)] == [0, 1, 2]
    assert tailing.returncode == 0
    assert "trying again" in told
    assert told.rstrip().endswith("connected again")
