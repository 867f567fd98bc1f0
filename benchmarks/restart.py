"""How late a restart makes messages: `make bench-restart`, or `python -m benchmarks.restart`.

Each round starts `dueline serve` on a store with many pending messages, says how long it took to
the first delivery and how much memory the idle processes have, sends 1,000 messages that are due
evenly over the next half minute, and then:

    clean    SIGTERM of `dueline serve`, and a start when it has ended
    place    `dueline restart`: another broker is loaded before the old one closes
    broker   SIGKILL of the broker's process alone; `dueline serve` starts it again
    tree     SIGKILL of `dueline serve`, which takes all of its processes along, and a start at once

It says how late those messages could be read, by readers that ask for them all the time while a
broker is up, and whether any was early, lost or came twice. What fell due while nothing ran was
late by that; "beyond the start" counts from when the broker accepted again.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from tests.children import broker_pid

from benchmarks.pipeline import Server, put_rows, say, send, wait_received
from dueline.client import Producer, Reader
from dueline.clock import system_time_ms
from dueline.errors import BrokerError

COUNT = 1_000
SPREAD_MS = 30_000
FAR_MS = 30 * 86_400_000
IDLE_S = 10
FIRST_MS = 1_000
"""Shorter delays may pass Spark by, and it is Spark's start that is measured."""

PATIENCE_S = 120


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pending", type=int, default=300_000, help="messages due in a month")
    parser.add_argument("--rounds", nargs="*", default=["place", "clean", "broker", "tree"])
    arguments = parser.parse_args()
    for name in arguments.rounds:
        with tempfile.TemporaryDirectory(prefix="dueline-bench-") as folder:
            _round(Path(folder) / "data", arguments.pending, name)


def _round(folder: Path, pending: int, name: str) -> None:
    server = Server(folder)
    with Producer(server.name_server) as producer:
        send(producer, "start", [FIRST_MS])
    wait_received(server.name_server, "start", 1)
    say(f"{name}: start to first delivery", f"{time.perf_counter() - server.started_s:.1f} s")
    server.wait_ready()
    time.sleep(IDLE_S)
    say(f"{name}: memory, idle", server.memory())
    put_rows(server.address, "far", pending, lambda rows: np.full(rows, system_time_ms() + FAR_MS))
    first_ms = system_time_ms() + 3_000
    put_rows(server.address, "due", COUNT, lambda rows: _spread(first_ms, rows))
    before: dict[int, int] = {}
    is_over = threading.Event()
    reading = threading.Thread(target=_read, args=(server.name_server, before, is_over))
    reading.start()
    time.sleep(2)
    ended_s = time.perf_counter()
    again, gone_s = _restart(server, folder, name)
    away_s = time.perf_counter() - ended_s
    back_ms = system_time_ms()
    is_over.set()
    seen: dict[int, int] = {}
    try:
        _read(again.name_server, seen, threading.Event())
    finally:
        again.end(signal.SIGTERM)
    reading.join()
    due_ms = np.array([*seen])
    came_ms = np.array([min(came, before.get(due, came)) for due, came in seen.items()])
    late = came_ms - due_ms
    p50, p99, worst = np.percentile(late, [50, 99, 100])
    beyond = int((came_ms - np.maximum(due_ms, back_ms)).max())
    say(f"{name}: until it is back", f"{away_s:.2f} s, of which {gone_s - ended_s:.2f} s to end")
    say(
        f"{name}: {COUNT:,} messages due over {SPREAD_MS // 1000} s, {pending:,} pending",
        f"late p50 {p50:.0f} ms, p99 {p99:.0f} ms, max {worst:.0f} ms ({beyond} beyond the start), "
        f"early {int((late < 0).sum())}, lost {COUNT - len(seen)}; load {os.getloadavg()[0]:.1f}",
    )


def _restart(server: Server, folder: Path, name: str) -> tuple[Server, float]:
    """Returns when the broker accepts again, and when the one before had ended."""
    if name == "place":
        command = [sys.executable, "-m", "dueline", "restart", "--data", str(folder)]
        say("place: what it says", subprocess.check_output(command, text=True).strip())
        return server, time.perf_counter()
    if name == "broker":
        pid = broker_pid(server.pid)
        os.kill(pid, signal.SIGKILL)
        gone_s = time.perf_counter()
        while "is back after" not in server.output.read_text():
            time.sleep(0.005)
        return server, gone_s
    server.end(signal.SIGTERM if name == "clean" else signal.SIGKILL)
    gone_s = time.perf_counter()
    return Server(folder), gone_s


def _spread(first_ms: int, rows: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return first_ms + np.arange(rows) * SPREAD_MS // rows


def _read(name_server: str, found: dict[int, int], is_over: threading.Event) -> None:
    """When each message could be read, by its due time: each has one of its own."""
    end_s = time.perf_counter() + SPREAD_MS / 1000 + PATIENCE_S
    while len(found) < COUNT and time.perf_counter() < end_s and not is_over.wait(0.01):
        with contextlib.suppress(BrokerError, OSError), Reader(name_server, "due") as reader:
            own: set[int] = set()  # from the topic's beginning, after each connection
            while len(found) < COUNT and time.perf_counter() < end_s and not is_over.is_set():
                for message in reader.receive_many(100, timeout_s=1):
                    now_ms = system_time_ms()
                    due_ms = message.due_ms or now_ms
                    if due_ms in own:
                        raise SystemExit(f"the message due at {due_ms} came twice")
                    own.add(due_ms)
                    found.setdefault(due_ms, now_ms)


if __name__ == "__main__":
    main()
