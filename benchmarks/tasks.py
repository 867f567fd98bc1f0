"""Celery and dramatiq on Dueline, with workers that are killed: `make bench-tasks`.

Each round starts `dueline serve` and a worker, sends tasks with countdowns, kills the worker's
processes (SIGKILL) when a quarter and when half of the tasks have run, starts it again at once, and
says what ran: none may be lost, none early, and none twice unless a kill lies between.

The last round is Celery on Redis, without a kill, for the memory of a worker that holds what is not
due. It needs `redis-server` and the Python package `redis`, and is left out without them.

    python -m benchmarks.tasks --count 10000 --countdown 5 60
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import dramatiq
from celery import Celery
from tests.ports import free_ports
from tests.tasks.campaign import CELERY, DRAMATIQ, Campaign, Outcome, Worker, environment

import dueline.celery  # noqa: F401 - makes dueline:// known
from benchmarks.pipeline import Server
from dueline.dramatiq import DuelineBroker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--countdown", type=float, nargs=2, default=(5, 60), metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--only", choices=["celery", "dramatiq", "redis"])
    args = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}")
    rounds = {"celery": _celery, "dramatiq": _dramatiq, "redis": _celery_on_redis}
    for name, run in rounds.items():
        if args.only in (None, name):
            kills = [] if name == "redis" else [args.count // 4, args.count // 2]
            campaign = Campaign(
                count=args.count,
                countdown_s=tuple(args.countdown),
                kill_counts=kills,
                seed=args.seed,
            )
            with tempfile.TemporaryDirectory(prefix="dueline-bench-") as folder:
                run(campaign, Path(folder))


def _celery(campaign: Campaign, folder: Path) -> None:
    with _server(folder) as server:
        outcome = _run_celery(campaign, folder, f"dueline://{server.name_server}")
    _print("celery on dueline", outcome)


def _run_celery(campaign: Campaign, folder: Path, url: str) -> Outcome:
    notes = folder / "notes"
    app = Celery(broker=url)
    note = app.signature("tests.tasks.celery_app.take_note")
    try:
        return campaign.run(
            lambda name, delay_ms: note.clone((name,)).apply_async(countdown=delay_ms / 1_000),
            lambda: Worker(CELERY, folder, environment(url, notes)),
            notes,
        )
    finally:
        app.close()


def _dramatiq(campaign: Campaign, folder: Path) -> None:
    notes = folder / "notes"
    with _server(folder) as server:
        sender = DuelineBroker(server.name_server)
        sender.declare_queue("default")

        def send(name: str, delay_ms: int) -> None:
            message: dramatiq.Message[object] = dramatiq.Message(
                queue_name="default", actor_name="take_note", args=(name,), kwargs={}, options={}
            )
            sender.enqueue(message, delay=delay_ms)

        start: Callable[[], Worker] = lambda: Worker(  # noqa: E731
            DRAMATIQ, folder, environment(server.name_server, notes)
        )
        outcome = campaign.run(send, start, notes)
        sender.close()
    _print("dramatiq on dueline", outcome)


def _celery_on_redis(campaign: Campaign, folder: Path) -> None:
    if shutil.which("redis-server") is None or importlib.util.find_spec("redis") is None:
        print("celery on redis: left out, there is no redis-server or no Python package redis")
        return
    (port,) = free_ports(1)
    command = ["redis-server", "--port", str(port), "--save", "", "--dir", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            time.sleep(1)
            outcome = _run_celery(campaign, folder, f"redis://127.0.0.1:{port}/0")
        finally:
            server.terminate()
    _print("celery on redis", outcome)


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[Server]:
    server = Server(folder / "data")
    try:
        server.wait_ready()
        yield server
    finally:
        server.end(signal.SIGTERM)


def _print(name: str, outcome: Outcome) -> None:
    late_ms = outcome.late_ms()
    print(f"{name}: {len(outcome.earliest_ms)} tasks, {len(outcome.kills_ms)} kills")
    print(
        f"  lost {len(outcome.lost())}, early {len(outcome.early())}, "
        f"twice {len(outcome.repeated())}, of these without a kill {len(outcome.unexplained())}"
    )
    if late_ms:
        parts = [late_ms[len(late_ms) * part // 100] for part in (50, 90, 99)]
        print(
            f"  late p50 {parts[0]} ms, p90 {parts[1]} ms, p99 {parts[2]} ms, max {late_ms[-1]} ms"
        )
    if outcome.rss_mb:
        print(f"  memory of the worker's processes: most {max(outcome.rss_mb):.0f} MB", flush=True)


if __name__ == "__main__":
    main()
