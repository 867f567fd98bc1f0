"""The whole way through Spark: `make bench-pipeline`, or `python -m benchmarks.pipeline [--quick]`.

Starts `dueline serve` in a temporary folder on a free port and measures from outside, with
200-byte bodies, with the Python client:

    start        from the command to the first accepted message and to the first delivery
    idle         processor time over a while with nothing to do
    steady       1,000 messages a second with random delays of 2 to 10 s: lateness at a consumer
    bursts       many messages due at one instant: until the last is visible, and received by two
                 batch readers
    overdue      a backlog that was due before the pipeline ran
    bulk         rows of a DataFrame into the broker

with the memory of broker, driver and workers after each.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa

from dueline.client import Outgoing, Producer, Reader
from dueline.clock import system_time_ms
from dueline.flight import FlightClient, protocol
from dueline.flight.operators import OperatorClient, Report, Reported
from dueline.store.schema import SCHEDULE_SCHEMA

BODY = os.urandom(100).hex()
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PORTS = (
    *("--flight", "127.0.0.1:0", "--name-server", "127.0.0.1:0"),
    *("--remoting", "127.0.0.1:0", "--grpc", "off", "--http", "off"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of rows and seconds")
    parser.add_argument("--only", help="one part: start, idle, steady, bursts, overdue or bulk")
    parser.add_argument("--reader", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--batch-reader", nargs=5, help=argparse.SUPPRESS)
    parser.add_argument("--bulk-job", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.reader:
        _reader(*arguments.reader)
    elif arguments.batch_reader:
        _batch_reader(*arguments.batch_reader)
    elif arguments.bulk_job:
        _bulk_job(*arguments.bulk_job)
    else:
        _run(10 if arguments.quick else 1, arguments.only)


def _run(scale: int, only: str | None) -> None:
    parts = ("start", "idle", "steady", "bursts", "overdue", "bulk")
    wanted = [part for part in parts if only in (None, part)]
    root = Path(tempfile.mkdtemp(prefix="dueline-bench-"))
    try:
        with _serving(root / "a", wanted) as server:
            if "idle" in wanted:
                _idle(server, 60 // scale)
            if "steady" in wanted:
                _steady(server, 60 // scale)
            if "bursts" in wanted:
                for count in (100_000, 300_000, 1_000_000):
                    _burst(server, count // scale)
            if "bulk" in wanted:
                _bulk(server, 1_000_000 // scale)
        if "overdue" in wanted:
            _overdue(root / "b", 1_000_000 // scale)
    finally:
        shutil.rmtree(root, ignore_errors=True)


class Server:
    """A running `dueline serve`."""

    def __init__(self, folder: Path, *extra: str) -> None:
        self.started_s = time.perf_counter()
        command = [sys.executable, "-m", "dueline", "serve", "--data", str(folder)]
        self.output = folder.with_suffix(".out")
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.output.open("w")
        self._process = subprocess.Popen(
            [*command, *_PORTS, *extra],
            stdout=self._file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.address = self._said("accepting on ")
        self.name_server = self._said("RocketMQ name server on ")

    def _said(self, text: str) -> str:
        while self._process.poll() is None:
            for line in self.output.read_text().splitlines():
                if text in line:
                    return line.rsplit(" ", 1)[1]
            time.sleep(0.01)
        raise SystemExit(self.output.read_text())

    @property
    def pid(self) -> int:
        return self._process.pid

    def client(self) -> OperatorClient:
        return OperatorClient(self.address)

    def report(self) -> Reported:
        with self.client() as client:
            return client.ask(Report(), Reported)

    def wait_ready(self) -> None:
        while self.report().driver.status != "ready":
            time.sleep(0.1)

    def processes(self) -> dict[int, str]:
        """Every process of the server, with its kind; the broker's spare counts as broker."""
        parents: dict[int, int] = {}
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                with contextlib.suppress(OSError, IndexError, ValueError):
                    stat = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                    parents[int(folder.name)] = int(stat[1])
        found = {self._process.pid: "parent"}
        grown = True
        while grown:
            grown = False
            for pid, parent in parents.items():
                if parent in found and pid not in found:
                    found[pid] = _kind(pid)
                    grown = True
        return found

    def memory(self) -> str:
        totals: dict[str, int] = {}
        for pid, kind in self.processes().items():
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                    if line.startswith("Pss:"):
                        totals[kind] = totals.get(kind, 0) + int(line.split()[1])
        return ", ".join(f"{kind} {size // 1024} MB" for kind, size in sorted(totals.items()))

    def cpu_s(self) -> float:
        total = 0
        for pid in self.processes():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
                total += int(fields[11]) + int(fields[12])
        return total / TICKS_PER_S

    def stop(self) -> None:
        self.end(signal.SIGTERM)

    def end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(60)
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._file.close()


def _kind(pid: int) -> str:
    command = b""
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    if b"java" in command.split(b"\0", 1)[0]:
        return "driver (JVM)"
    if b"broker_child" in command:
        return "broker"
    return "driver (Python)" if b"spark.delivery" in command else "workers"


@contextlib.contextmanager
def _serving(folder: Path, wanted: list[str]) -> Iterator[Server]:
    server = Server(folder)
    try:
        with Producer(server.name_server) as producer:
            send(producer, "start", [1_000])
        accepted = time.perf_counter() - server.started_s
        wait_received(server.name_server, "start", 1)
        delivered = time.perf_counter() - server.started_s
        server.wait_ready()
        if "start" in wanted:
            say("start to first accepted message", f"{accepted:.2f} s")
            say("start to first delivery", f"{delivered:.2f} s")
            say("memory after start", server.memory())
        yield server
    finally:
        server.stop()


def _idle(server: Server, seconds: int) -> None:
    before = server.cpu_s()
    time.sleep(seconds)
    share = (server.cpu_s() - before) / seconds
    say(f"idle for {seconds} s", f"{100 * share:.1f} % of one core")


def _steady(server: Server, seconds: int) -> None:
    random = np.random.default_rng(7)
    topic = f"steady-{uuid.uuid4().hex[:8]}"
    reader = _child("--reader", server.name_server, topic, str(seconds * 1000))
    with Producer(server.name_server) as producer:
        started = time.perf_counter()
        for number in range(seconds * 100):
            send(producer, topic, random.integers(2_000, 10_000, 10).tolist())
            pause = started + (number + 1) / 100 - time.perf_counter()
            time.sleep(max(0.0, pause))
    answer = json.loads(reader.communicate(timeout=120)[0])
    early, late = answer["early"], np.array(answer["late_ms"])
    p50, p99, worst = np.percentile(late, [50, 99, 100])
    say(
        f"steady 1,000/s for {seconds} s, {len(late):,} received",
        f"late p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {worst:.1f} ms, early {early}",
    )
    say("memory", server.memory())


def _burst(server: Server, count: int) -> None:
    topic = f"burst-{uuid.uuid4().hex[:8]}"
    due_ms = system_time_ms() + 15_000 + count // 50
    readers = [
        _child(
            "--batch-reader",
            server.name_server,
            server.address,
            topic,
            str(number),
            str(count // 2),
        )
        for number in range(2)
    ]
    put_s = put_rows(server.address, topic, count, lambda rows: np.full(rows, due_ms))
    left_ms = due_ms - system_time_ms()
    visible_ms = _wait_visible(server, topic, count)
    received = [json.loads(reader.communicate(timeout=300)[0]) for reader in readers]
    last_ms = max(answer["last_ms"] for answer in received)
    first_ms = min(answer["first_ms"] for answer in received)
    say(
        f"burst of {count:,} due at one instant",
        f"put in {put_s:.1f} s, {left_ms / 1000:.1f} s before; visible {visible_ms - due_ms} ms, "
        f"first received {first_ms - due_ms} ms, all received {last_ms - due_ms} ms after due",
    )
    say("memory", server.memory())


def _overdue(folder: Path, count: int) -> None:
    server = Server(folder, "--no-spark")
    now_ms = system_time_ms()
    put_rows(server.address, "overdue", count, lambda rows: np.full(rows, now_ms + 1))
    server.stop()
    server = Server(folder)
    try:
        wait_received(server.name_server, "overdue", 1)
        started = time.perf_counter()
        before = server.report().delivered
        while server.report().pending:
            time.sleep(0.02)
        seconds = time.perf_counter() - started
        say(
            f"catching up with {count:,} overdue",
            f"{(count - before) / seconds:,.0f} /s after the first batch",
        )
        say("memory", server.memory())
    finally:
        server.stop()


def _bulk(server: Server, count: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.pipeline", "--bulk-job", server.address, str(count)],
        check=True,
        capture_output=True,
        text=True,
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    say(
        f"bulk write of {count:,} rows from a DataFrame",
        f"{count / answer['seconds']:,.0f} /s; a job of one row, which starts Spark's Python "
        f"workers: {answer['first_s']:.1f} s, and again: {answer['again_s']:.1f} s",
    )
    say("memory", server.memory())


# Pieces


def send(producer: Producer, topic: str, delays_ms: list[int]) -> None:
    producer.send_many(
        [
            Outgoing(
                topic=topic,
                body=BODY.encode(),
                queue_id=number % 4,
                delay=timedelta(milliseconds=delay_ms),
            )
            for number, delay_ms in enumerate(delays_ms)
        ]
    )


def put_rows(address: str, topic: str, count: int, due_ms: object) -> float:
    """Put rows in jobs of 50,000; returns the seconds."""
    started = time.perf_counter()
    with FlightClient(address) as client:
        for start in range(0, count, 50_000):
            rows = min(50_000, count - start)
            token = uuid.uuid4().hex
            client.stage(token, SCHEDULE_SCHEMA, [_rows(topic, rows, due_ms(rows))])  # type: ignore[operator]
            client.call(protocol.PutRows(tokens=(token,)), protocol.RowsPut)
    return time.perf_counter() - started


def _rows(topic: str, count: int, due_ms: object) -> pa.RecordBatch:
    columns = {
        "topic": pa.array([topic] * count),
        "body": pa.array([BODY.encode()] * count, pa.binary()),
        "queue_id": pa.array(np.arange(count) % 4, pa.int32()),
        "deliver_at_ms": pa.array(due_ms, pa.int64()),
    }
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, pa.nulls(count, field.type)) for field in SCHEDULE_SCHEMA],
        schema=SCHEDULE_SCHEMA,
    )


def wait_received(name_server: str, topic: str, count: int) -> None:
    found = 0
    with Reader(name_server, topic) as reader:
        while found < count:
            found += len(reader.receive_many(100))


def _wait_visible(server: Server, topic: str, count: int) -> int:
    """When the last message of a topic could be read."""
    with server.client() as client:
        while True:
            queues = client.call(protocol.ListQueues(topic=topic), protocol.QueueList).queues
            if sum(queue.end - queue.start for queue in queues) >= count:
                return system_time_ms()
            time.sleep(0.002)


def _reader(name_server: str, topic: str, count_text: str) -> None:
    """A waiting consumer: how late is each message when it is here?"""
    count = int(count_text)
    late: list[int] = []
    with Reader(name_server, topic) as reader:
        while len(late) < count:
            messages = reader.receive_many(100)
            now_ms = system_time_ms()
            late += [now_ms - message.due_ms for message in messages if message.due_ms]
    print(json.dumps({"early": sum(value < 0 for value in late), "late_ms": late}))


def _batch_reader(name_server: str, address: str, topic: str, number: str, count_text: str) -> None:
    """Reads every second queue of a topic in batches as soon as they are there."""
    count = int(count_text)
    queues = [queue for queue in range(4) if queue % 2 == int(number)]
    offsets = dict.fromkeys(queues, 0)
    found, first_ms = 0, 0
    wait_received(name_server, topic, 1)
    with OperatorClient(address) as client:
        first_ms = system_time_ms()
        while found < count:
            for queue in queues:
                request = protocol.ReadMessages(
                    topic=topic, queue_id=queue, start=offsets[queue], end=1 << 40
                )
                for batch in client.read(protocol.Ticket(messages=request)):
                    offsets[queue] += batch.num_rows
                    found += batch.num_rows
    print(json.dumps({"first_ms": first_ms, "last_ms": system_time_ms()}))


def _bulk_job(address: str, count_text: str) -> None:
    """A Spark session of its own that writes a DataFrame into the broker."""
    from pyspark.sql import functions as F

    from dueline.spark.session import SessionOptions, open_session

    # Java as a job of a user's has it: the delivery query's is made to start quickly.
    usual = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}
    session = open_session(SessionOptions(master="local[*]", heap="1g", conf=usual))

    def write(count: int) -> float:
        frame = session.range(count).select(
            F.lit("bulk").alias("topic"),
            F.lit(BODY).cast("binary").alias("body"),
            F.concat(F.lit("order-"), F.col("id").cast("string")).alias("keys"),
            F.lit("30d").alias("delay"),
        )
        started = time.perf_counter()
        frame.write.format("dueline").option("brokers", address).mode("append").save()
        return time.perf_counter() - started

    session.range(10).count()  # the session's own start is not what is measured
    figures = {"first_s": write(1), "again_s": write(1), "seconds": write(int(count_text))}
    print(json.dumps(figures))


def _child(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.pipeline", *arguments],
        stdout=subprocess.PIPE,
        text=True,
    )


def say(name: str, text: str) -> None:
    print(f"{name:<52} {text}", flush=True)


if __name__ == "__main__":
    main()
