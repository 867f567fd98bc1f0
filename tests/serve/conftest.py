"""`dueline serve` as a user runs it: a process of its own, on a free port."""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from tests.children import broker_pid
from tests.serve.reading import Arrival, arrivals
from tests.waiting import PATIENCE_S, wait_until

from dueline.client import Outgoing, Producer
from dueline.credentials import Credentials
from dueline.flight.operators import OperatorClient, Report, Reported

TOPIC = "orders"
PORTS = (
    *("--flight", "127.0.0.1:0", "--name-server", "127.0.0.1:0"),
    *("--remoting", "127.0.0.1:0", "--grpc", "off", "--http", "off"),
)
SMALL = ("--set", "store.commit_segment_size=16MiB", "--set", "store.delay_segment_size=16MiB")


def clean_environment(**changes: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("DUELINE_")}
    return {**own, "TZ": "UTC", **changes}


class Served:
    """One run of `dueline serve`."""

    def __init__(self, folder: Path, *words: str, **environ: str) -> None:
        self.folder = folder
        self.who: Credentials | None = None
        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "dueline", "serve", "--tethered"),
                *("--data", str(folder), *PORTS, *SMALL, *words),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=clean_environment(**environ),
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    @property
    def address(self) -> str:
        """Where the pipeline and the commands call; waits until it accepts."""
        return self.said(r"accepting on (\S+)")

    @property
    def name_server(self) -> str:
        """Where RocketMQ clients begin; waits until it accepts."""
        return self.said(r"RocketMQ name server on (\S+)")

    def said(self, pattern: str) -> str:
        def found() -> str | None:
            match = re.search(pattern, self.output)
            assert match or self.process.poll() is None, f"it ended: {self.output}"
            return match.group(1) if match else None

        return wait_until(found, "accepting")

    def client(self) -> OperatorClient:
        """As the user `who`, if access control is on."""
        return OperatorClient(self.address, self.who)

    def producer(self) -> Producer:
        """Sends each message once: a copy would be received twice."""
        return Producer(self.name_server, attempts_max=1)

    @property
    def broker_pid(self) -> int:
        """The broker's own process, which is a child of the one that was started."""
        return broker_pid(self.process.pid)

    def report(self) -> Reported:
        with self.client() as client:
            return client.ask(Report(), Reported)

    def wait_until_ready(self) -> Reported:
        """The pipeline has asked for work."""

        def ready() -> Reported | None:
            report = self.report()
            return report if report.driver.status == "ready" else None

        try:
            return wait_until(ready, "a ready pipeline")
        except TimeoutError:
            log = self.folder / "spark.log"
            raise TimeoutError(
                f"{self.output}\n{log.read_text() if log.exists() else ''}"
            ) from None

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit code; the output is complete then."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def end(self) -> None:
        """Whatever the test left: nothing stays behind."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._reader.join(PATIENCE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def served(folder: Path, *words: str, **environ: str) -> Iterator[Served]:
    serving = Served(folder, *words, **environ)
    try:
        yield serving
    finally:
        serving.end()


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A broker with a ready pipeline, for all tests of a module: Spark takes its time to start."""
    with served(tmp_path_factory.mktemp("serve") / "data") as serving:
        serving.wait_until_ready()
        yield serving
        serving.stop()


def session_members(session: int) -> list[int]:
    """The processes of a session: the pipeline, its Java and its Python workers."""
    members = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            fields = (path / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            members.append(int(path.name))
    return members


def outgoing(body: str, *, delay_ms: int, topic: str = TOPIC, key: str = "") -> Outgoing:
    return Outgoing(
        topic=topic,
        body=body.encode(),
        queue_id=0,
        keys=[key] if key else (),
        delay=timedelta(milliseconds=delay_ms),
    )


def send(serving: Served, *messages: Outgoing) -> dict[str, int]:
    """Send and return when each is due, by body."""
    with serving.producer() as producer:
        return send_by(producer, *messages)


def send_by(producer: Producer, *messages: Outgoing) -> dict[str, int]:
    """The same with a producer that sends more than once."""
    return {
        message.body.decode(): sent.due_ms or 0
        for message, sent in zip(messages, producer.send_many(messages), strict=True)
    }


def receive(serving: Served, count: int, *, topic: str = TOPIC) -> list[Arrival]:
    """A topic's first messages, from the start; fails if they do not come."""
    found = list(arrivals(serving.name_server, topic, timeout_s=PATIENCE_S, count_max=count))
    assert len(found) == count
    return found
