"""`dueline send` and `dueline tail` as processes, against a broker that is killed in between."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.ports import free_ports
from tests.serve.conftest import clean_environment, served
from tests.waiting import PATIENCE_S

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
        timeout=PATIENCE_S,
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
                _, told = tailing.communicate(timeout=PATIENCE_S)
                send("orders", "three", *client)
                words = ("--from", "start", "--group", "g", "--count", "1", "--timeout", "60s")
                with tail("orders", *words, *client) as next_tail:
                    third = json.loads(next_tail.communicate(timeout=PATIENCE_S)[0])

    assert [each["body"] for each in (first, second, third)] == ["one", "two", "three"]
    assert [each["offset"] for each in (first, second, third)] == [0, 1, 2]
    assert tailing.returncode == 0
    assert "trying again" in told
    assert told.rstrip().endswith("connected again")


@contextmanager
def sending(*words: str) -> Iterator[subprocess.Popen[str]]:
    """`dueline send` of many messages, when the first are accepted."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dueline", "send", "load", "x", "--delay", "1h", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    assert process.stdout is not None
    try:
        assert "due" in process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, list[str]]:
    """The exit code, and the lines on the error output."""
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert not any(word in errors for word in ("Traceback", "Task was destroyed", "Error:"))
    return process.returncode, errors.splitlines()


def test_send_goes_on_interrupted_or_without_a_broker_and_says_how_many(tmp_path: Path) -> None:
    names, remoting = (f"127.0.0.1:{port}" for port in free_ports(2))
    broker = ("--no-spark", "--name-server", names, "--remoting", remoting)
    with served(tmp_path / "data", *broker) as serving:
        assert serving.address

        with sending("--count", "3000", "--name-server", names) as process:
            assert process.stdout is not None
            process.stdout.close()  # as `| head -1` does
            assert process.stderr is not None
            errors = process.stderr.read()
            assert (process.wait(PATIENCE_S), errors) == (0, "3000 of 3000 messages accepted\n")
        assert serving.report().sent == 3_000

        with sending("--count", "200000", "--name-server", names) as process:
            process.send_signal(signal.SIGINT)
            code, (line,) = ended(process)
        match = re.fullmatch(r"interrupted: (\d+) of 200000 messages accepted; others .*", line)
        assert code == 130
        assert match
        assert 1_000 <= int(match[1]) <= serving.report().sent - 3_000

        with sending("--count", "200000", "--name-server", names) as process:
            serving.process.kill()
            code, (line,) = ended(process)
        assert code == 1
        assert re.match(r"\d+ messages not answered, the first is number \d+: ", line)


def test_send_that_is_interrupted_at_once_ends_in_silence() -> None:
    (port,) = free_ports(1)
    words = ("send", "t", "x", "--name-server", f"127.0.0.1:{port}")
    script = (
        "import os, signal, sys; from dueline import cli, commands\n"
        "find = cli._command\n"
        "def late(name):\n"
        "    os.kill(os.getpid(), signal.SIGINT); return find(name)\n"
        f"cli._command = late; sys.exit(cli.main({words!r}))"
    )

    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S
    )

    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")
