"""How late a restart makes messages: `make bench-restart`, or `python -m benchmarks.restart`.

Each round starts `dueline serve` on a store with many pending messages, sends 1,000 that are due
evenly over the next half minute, ends the broker, starts it again at once and says how late those
messages became visible, beside how long the broker was away:

    clean    SIGTERM, and a start when it has ended
    killed   SIGKILL of the broker, which takes the pipeline along, and a start at once

A message's lateness is measured by a reader that asks for it all the time while the broker is up.
"""

from __future__ import annotations

import argparse
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.pipeline import Server, put_rows, say, send, wait_received
from dueline.client import Producer, Reader
from dueline.clock import system_time_ms

COUNT = 1_000
SPREAD_MS = 30_000
FAR_MS = 30 * 86_400_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pending", type=int, default=300_000, help="messages due in a month")
    arguments = parser.parse_args()
    for name, number in (("clean", signal.SIGTERM), ("killed", signal.SIGKILL)):
        with tempfile.TemporaryDirectory(prefix="dueline-bench-") as folder:
            _round(Path(folder) / "data", arguments.pending, name, number)


def _round(folder: Path, pending: int, name: str, number: signal.Signals) -> None:
    server = Server(folder)
    with Producer(server.name_server) as producer:
        send(producer, "start", [100])
    wait_received(server.name_server, "start", 1)
    say(f"{name}: start to first delivery", f"{time.perf_counter() - server.started_s:.1f} s")
    put_rows(server.address, "far", pending, lambda rows: np.full(rows, system_time_ms() + FAR_MS))
    server.wait_ready()
    first_ms = system_time_ms() + 3_000
    put_rows(server.address, "due", COUNT, lambda rows: _spread(first_ms, rows))
    time.sleep(2)
    ended_s = time.perf_counter()
    server.end(number)
    gone_s = time.perf_counter()
    again = Server(folder)
    away_s = time.perf_counter() - ended_s
    try:
        late = np.array(list(_lateness(again, COUNT)))
    finally:
        again.end(signal.SIGTERM)
    p50, p99, worst = np.percentile(late, [50, 99, 100])
    say(f"{name}: away", f"{away_s:.1f} s, of which {gone_s - ended_s:.1f} s to end")
    say(
        f"{name}: {len(late):,} messages due over {SPREAD_MS // 1000} s, {pending:,} pending",
        f"late p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {worst:.0f} ms, "
        f"early {int((late < 0).sum())}",
    )


def _spread(first_ms: int, rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return first_ms + np.arange(rows) * SPREAD_MS // rows


def _lateness(server: Server, count: int) -> Iterator[int]:
    """How late each message could be read, in milliseconds."""
    found = 0
    with Reader(server.name_server, "due") as reader:
        while found < count:
            messages = reader.receive_many(100)
            now_ms = system_time_ms()
            found += len(messages)
            yield from (now_ms - (message.due_ms or now_ms) for message in messages)


if __name__ == "__main__":
    main()
