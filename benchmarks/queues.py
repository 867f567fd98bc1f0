"""Many topics on one broker: how long they take, and what they cost.

    python -m benchmarks.queues [--topics 10000] [--queues 8] [--files 1024] [--folder DIR]

A real `dueline serve`, without its Spark pipeline, that may have no more than `--files` files open.
Every topic is made by the first send to it, and every queue gets one message over the 4.x protocol.
Then the broker is killed and started, stopped in order and started, and each time every queue is
asked for its message. Seconds of a start are from the command to the listening port. Processor
time, files and memory are the broker's; of the latter the most that was seen in the step.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.children import broker_pid
from tests.ports import free_ports

from dueline.client.connection import AsyncConnection, Dialling
from dueline.message import encode_properties
from dueline.wire import Command, RequestCode, ResponseCode
from dueline.wire.headers import PullRequest, SendRequest

IN_FLIGHT: Final = 256
TIMEOUT_S: Final = 120.0
WATCH_S: Final = 0.05
TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What was done, how long it took, and what the broker used at most."""

    name: str
    seconds: float
    cpu_s: float
    file_count: int
    rss_mib: float


def _cpu_s(pid: int) -> float:
    """Processor time of a process so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS_PER_S


class Watch:
    """Looks at a process again and again while something is done."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._began_cpu_s = _cpu_s(pid)
        self.cpu_s = 0.0
        self.file_count = 0
        self.rss_mib = 0.0

    def look(self) -> None:
        with contextlib.suppress(OSError, StopIteration):
            folder = Path(f"/proc/{self.pid}")
            self.cpu_s = _cpu_s(self.pid) - self._began_cpu_s
            self.file_count = max(self.file_count, sum(1 for _ in (folder / "fd").iterdir()))
            lines = (folder / "status").read_text().splitlines()
            line = next(line for line in lines if line.startswith("VmRSS"))
            self.rss_mib = max(self.rss_mib, int(line.split()[1]) / 1024)

    async def wait(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(WATCH_S)


class Run:
    """One broker on one folder, and the steps so far."""

    def __init__(self, folder: Path, *, topics: int, queues: int, files: int) -> None:
        self._folder = folder
        self._queues = [
            (f"Topic-{topic:05d}", queue_id)
            for topic in range(topics)
            for queue_id in range(queues)
        ]
        self._queue_count = queues
        self._file_limit = files
        self._process: subprocess.Popen[str] | None = None
        self._port = 0
        self.steps: list[Step] = []

    def start(self, name: str) -> None:
        (self._port,) = free_ports(1)
        began = time.monotonic()
        self._process = subprocess.Popen(
            [
                *("sh", "-c", 'ulimit -n "$0" && exec "$@"', str(self._file_limit)),
                *(sys.executable, "-m", "dueline", "serve", "--no-spark", "--tethered"),
                *("--data", str(self._folder), "--remoting", f"127.0.0.1:{self._port}"),
                *("--name-server", "off", "--grpc", "off", "--http", "off"),
                *("--flight", "127.0.0.1:0"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if not any(line.rstrip().endswith(f":{self._port}") for line in self._process.stdout):
            raise RuntimeError(
                f"dueline serve: expected it to listen on {self._port}, found that it ended with "
                f"{self._process.wait()}; see {self._folder / 'broker.log'}"
            )
        self._note(name, began, self._look_since_its_start())

    def _look(self) -> Watch:
        assert self._process is not None
        watch = Watch(broker_pid(self._process.pid))
        watch.look()
        return watch

    def _look_since_its_start(self) -> Watch:
        watch = self._look()
        watch.cpu_s = _cpu_s(watch.pid)
        return watch

    def _note(self, name: str, began: float, watch: Watch) -> None:
        step = Step(
            name=name,
            seconds=time.monotonic() - began,
            cpu_s=watch.cpu_s,
            file_count=watch.file_count,
            rss_mib=watch.rss_mib,
        )
        self.steps.append(step)
        say(step)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self._let_go()

    def stop(self, name: str) -> None:
        assert self._process is not None
        began = time.monotonic()
        watch = self._look()
        self._process.send_signal(signal.SIGTERM)
        while (code := self._process.poll()) is None:
            watch.look()
            self._wait_a_moment()
        if code != 0:
            raise RuntimeError(f"dueline serve: expected to end with 0, found {code}")
        self._let_go()
        self._note(name, began, watch)

    def _let_go(self) -> None:
        assert self._process is not None
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def _wait_a_moment(self) -> None:
        time.sleep(WATCH_S)

    def send_all(self, name: str) -> None:
        asyncio.run(self._each(name, self._send))

    def read_all(self, name: str) -> None:
        asyncio.run(self._each(name, self._read))

    async def _each(
        self, name: str, work: Callable[[AsyncConnection, str, int], Awaitable[None]]
    ) -> None:
        """Do something for every queue, with many of them on their way."""
        assert self._process is not None
        watch = Watch(broker_pid(self._process.pid))
        connection = await AsyncConnection.open(
            f"127.0.0.1:{self._port}", Dialling(timeout_s=TIMEOUT_S)
        )
        waiting = iter(self._queues)
        began = time.monotonic()

        async def go_on() -> None:
            for topic, queue_id in waiting:
                await work(connection, topic, queue_id)

        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch.wait())
            async with asyncio.TaskGroup() as workers:
                for _ in range(IN_FLIGHT):
                    workers.create_task(go_on())
            watching.cancel()
        watch.look()
        self._note(name, began, watch)
        await connection.close()

    async def _send(self, connection: AsyncConnection, topic: str, queue_id: int) -> None:
        header = SendRequest(
            producer_group="bench",
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=self._queue_count,
            queue_id=queue_id,
            sys_flag=0,
            born_timestamp=1_700_000_000_000,
            flag=0,
            properties=encode_properties({"KEYS": f"{topic}-{queue_id}"}).decode(),
            reconsume_times=0,
            unit_mode=False,
            batch=False,
        )
        _expect(
            await connection.call(
                RequestCode.SEND_MESSAGE_V2, header.encode_short(), b"x" * 200, timeout_s=TIMEOUT_S
            ),
            topic,
        )

    async def _read(self, connection: AsyncConnection, topic: str, queue_id: int) -> None:
        header = PullRequest(
            consumer_group="bench",
            topic=topic,
            queue_id=queue_id,
            queue_offset=0,
            max_msg_nums=32,
            sys_flag=4,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
            expression_type="TAG",
        )
        answer = await connection.call(
            RequestCode.PULL_MESSAGE, header.encode(), timeout_s=TIMEOUT_S
        )
        _expect(answer, topic)
        if answer.ext.get("maxOffset") != "1" or topic.encode() not in answer.body:
            raise RuntimeError(f"{topic}/{queue_id}: expected one message, found {answer.ext}")

    def close(self) -> None:
        if self._process is not None:
            self.kill()


def _expect(answer: Command, topic: str) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise RuntimeError(f"{topic}: expected success, found {answer.code}: {answer.remark}")


def run(folder: Path, *, topics: int, queues: int, files: int) -> list[Step]:
    """All steps, as the module's text says."""
    made = Run(folder, topics=topics, queues=queues, files=files)
    try:
        made.start("start, empty")
        made.send_all("send to all")
        made.read_all("read all")
        made.kill()
        made.start("start after kill")
        made.read_all("read all")
        made.stop("stop in order")
        made.start("start after that")
        made.read_all("read all")
        made.send_all("send to all again")
        made.stop("stop in order")
    finally:
        made.close()
    return made.steps


def say(step: Step) -> None:
    print(
        f"{step.name:20} {step.seconds:8.1f} s {step.cpu_s:8.1f} s CPU {step.file_count:6} files "
        f"{step.rss_mib:7.0f} MiB",
        flush=True,
    )


@contextlib.contextmanager
def _chosen_folder(path: Path | None) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="dueline-queues-", dir=path))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--queues", type=int, default=8)
    parser.add_argument("--files", type=int, default=1_024, help="what ulimit -n says")
    parser.add_argument("--folder", type=Path, help="where the store is made, and removed again")
    args = parser.parse_args()
    print(f"{args.topics} topics x {args.queues} queues, ulimit -n {args.files}")
    with _chosen_folder(args.folder) as folder:
        run(folder / "data", topics=args.topics, queues=args.queues, files=args.files)


if __name__ == "__main__":
    main()
