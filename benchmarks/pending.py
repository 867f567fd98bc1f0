"""Ten million pending, and what an operator does with them: `make bench-pending [ARGS=--quick]`.

A broker in this process, without Spark: a thread carries over what falls due.
Printed are the road ahead, a count, filtered pages, and the cancelling of every tenth message by a
filter, as a job; and pages as a browser asks for them, over HTTP from a web process of its own.
Beside pages and job 500 messages a second come and go, whose lateness is given for a time without
either and for the time of each, as the gate sees it. Wall-clock figures depend on the machine and
its neighbours: compare those of one run.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import numpy as np
import pyarrow as pa

from dueline.config import load
from dueline.flight import waiting
from dueline.flight.operators import OperatorClient
from dueline.flight.waiting import PendingFilter
from dueline.message import Message
from dueline.server.process import BrokerProcess
from dueline.store import Observer, Store, restore
from dueline.store.kernels import Int64s

BATCH = 10_000
HOUR_MS = 3_600_000
TOPICS = 10
RATE = 500
_URL = re.compile(r"http://[\d.:]+")


class Late(Observer):
    """How late each message of the steady stream was shown."""

    def __init__(self) -> None:
        self.all_ms: list[int] = []

    def shown(self, due_ms: Int64s, now_ms: int) -> None:
        self.all_ms += (now_ms - due_ms).tolist()

    def taken(self) -> list[int]:
        found, self.all_ms = self.all_ms, []
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    parser.add_argument("--seconds", type=int, default=15, help="of the time without a job")
    parser.add_argument("--folder", help="where to put the store (default: the temporary folder)")
    arguments = parser.parse_args()
    count = 1_000_000 if arguments.quick else 10_000_000
    root = Path(tempfile.mkdtemp(prefix="dueline-bench-", dir=arguments.folder))
    try:
        _run(root, count, arguments.seconds)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _run(root: Path, count: int, seconds: int) -> None:
    flags = {
        "data": str(root),
        "listen.flight": "127.0.0.1:0",
        "listen.name_server": "off",
        "listen.remoting": "off",
        "listen.grpc": "off",
    }
    broker = BrokerProcess(load(flags=flags).config)
    broker.start()
    try:
        _say(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {count:,} messages")
        _fill(broker.store, count)
        _say(f"memory: {_memory_mib()} MiB at most so far")
        with OperatorClient(broker.address) as client:
            _look(client, broker.clock.now_ms())
            _change(broker, client, seconds)
        _say(f"memory: {_memory_mib()} MiB at most")
    finally:
        broker.stop()


def _fill(store: Store, count: int) -> None:
    start_s = time.perf_counter()
    chance = np.random.default_rng(1)
    now_ms = store.clock.now_ms()
    for start in range(0, count, BATCH):
        delays_ms = HOUR_MS + chance.integers(0, 60 * 24 * HOUR_MS, BATCH)
        numbers = np.arange(start, start + BATCH)
        store.put_many(
            pa.table(
                {
                    "topic": [f"t{number % TOPICS}" for number in numbers.tolist()],
                    "body": [b"x" * 20] * BATCH,
                    "deliver_at_ms": now_ms + delays_ms,
                    "keys": [f"order-{number}" for number in numbers.tolist()],
                }
            )
        )
    store.checkpoint()
    _say(f"filled in {time.perf_counter() - start_s:.0f} s, {len(store.stats())} figures")


def _look(client: OperatorClient, now_ms: int) -> None:
    day = waiting.LookAhead(start_ms=now_ms, end_ms=now_ms + 62 * 24 * HOUR_MS, bucket_ms=HOUR_MS)
    _timed("road ahead, two months by the hour", lambda: client.ask(day, waiting.Road))
    soon = PendingFilter(topic="t3", due_start_ms=now_ms + 500 * HOUR_MS)
    _timed(
        "count of a topic from a time on",
        lambda: client.ask(waiting.CountMatching(filter=soon), waiting.MatchingCount),
    )
    _timed(
        "page of 100 of that",
        lambda: client.ask(waiting.ListMatching(filter=soon), waiting.MatchingPage),
    )
    keyed = PendingFilter(key_prefix="order-77")
    _timed(
        "page by the beginning of a key",
        lambda: client.ask(waiting.ListMatching(filter=keyed), waiting.MatchingPage),
    )
    exact = PendingFilter(key="order-777777")
    _timed(
        "page by a key",
        lambda: client.ask(waiting.ListMatching(filter=exact), waiting.MatchingPage),
    )


def _change(broker: BrokerProcess, client: OperatorClient, seconds: int) -> None:
    late = Late()
    broker.store.observe(late)
    with _steady(broker.store), _web(broker.address) as url:
        time.sleep(5)
        late.taken()
        time.sleep(seconds)
        _say(f"{RATE}/s alone: {_percentiles(late.taken())}")
        _ask_pages(url, broker.clock.now_ms())
        _say(f"{RATE}/s beside the pages: {_percentiles(late.taken())}")
        _cancel(client)
        _say(f"{RATE}/s beside the job: {_percentiles(late.taken())}")


@contextmanager
def _steady(store: Store) -> Iterator[None]:
    """Messages that come and go."""
    stopping = threading.Event()
    threads = [threading.Thread(target=each, args=(store, stopping)) for each in (_send, _carry)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stopping.set()
        for thread in threads:
            thread.join()


@contextmanager
def _web(broker: str) -> Iterator[str]:
    """A web process; yields its address."""
    words = [sys.executable, "-m", "dueline", "web", "--broker", broker, "--http", "127.0.0.1:0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            found = next(filter(None, (_URL.search(line) for line in process.stdout)), None)
            if found is None:
                raise SystemExit("the web process: expected it to say its address, found its end")
            yield found[0]
        finally:
            process.terminate()


def _ask_pages(url: str, now_ms: int) -> None:
    """As a browser does, many times: the first ones find nothing kept."""
    window = urlencode({"topic": "t3", "due_from": str(now_ms + 500 * HOUR_MS)})
    for what, path in (
        ("overview", "/"),
        ("a topic from a time on", f"/pending?{window}"),
        ("the beginning of a key", "/pending?key=order-77*"),
        ("a part of a body", "/pending?text=xx"),
        ("the road, two months by the hour", "/api/v1/road?end=%2B60d&bucket_ms=3600000"),
    ):
        _timed(f"{what}, over HTTP", partial(_get, f"{url}{path}"), count=10)


def _get(url: str) -> bytes:
    with urlopen(url, timeout=60) as answer:
        body: bytes = answer.read()
    return body


def _cancel(client: OperatorClient) -> None:
    start_s, cpu_s = time.perf_counter(), time.process_time()
    request = waiting.StartJob(action="cancel", filter=PendingFilter(topic="t3"))
    job = client.ask(request, waiting.Job)
    while job.ended_ms is None:
        time.sleep(0.5)
        job = client.ask(waiting.FindJob(number=job.number), waiting.Job)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{job.matched:,} of {job.total or 0:,}  ")
    took_s = time.perf_counter() - start_s
    _say(
        f"cancelled {job.answers.done:,} of {job.matched:,} by a filter in {took_s:.1f} s "
        f"({time.process_time() - cpu_s:.1f} s of processor time with all else)"
    )


def _send(store: Store, stopping: threading.Event) -> None:
    """500 messages a second, due in three."""
    next_s = time.perf_counter()
    while not stopping.is_set():
        messages = [
            Message(topic="steady", body=b"x", properties={"TIMER_DELAY_MS": "3000"})
            for _ in range(RATE // 50)
        ]
        store.put_all(messages)
        next_s += 1 / 50
        time.sleep(max(next_s - time.perf_counter(), 0))


def _carry(store: Store, stopping: threading.Event) -> None:
    """What the pipeline does."""
    while not stopping.wait(0.3):
        corner = store.next_corner(until_ms=store.clock.now_ms() + 2_500, row_count_max=100_000)
        window = store.window(corner)
        if len(window):
            store.deliver([restore.deliveries(store.read_window(window))])


def _percentiles(late_ms: list[int]) -> str:
    if not late_ms:
        return "nothing was shown"
    p50, p99 = np.percentile(late_ms, [50, 99])
    return f"p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {max(late_ms)} ms of {len(late_ms):,}"


def _timed(what: str, ask: Callable[[], object], *, count: int = 3) -> None:
    times = []
    for _ in range(count):
        start_s = time.perf_counter()
        ask()
        times.append(time.perf_counter() - start_s)
    _say(
        f"{what}: {1000 * np.median(times):.0f} ms, the median of {count}, "
        f"{1000 * max(times):.0f} at most"
    )


def _memory_mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
