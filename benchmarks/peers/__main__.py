"""Dueline beside Redis, beanstalkd and RocketMQ: `make bench-peers`.

    ingest      4 connections, due in a month: batches of 500, and one acknowledged at a time
    lateness    500 and 3,000 a second with delays of 2 to 5 s
    short       200 a second with delays of 10 to 300 ms
    burst       100,000 that are due at one instant (--long: a million as well)
    pending     memory and disk while 300,000 wait
    restart     1,000 that fall due around a stop in order and a start, while those 300,000 wait

The peers run one after the other, each alone, and what is not installed is named and left out.
Every peer syncs to disk before it answers. Bodies have 200 bytes.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.servers import (
    PEERS,
    Server,
    disk_bytes,
    memory_bytes,
    missing,
    moving,
    role,
    start,
)
from dueline.clock import system_time_ms

_SENDERS: Final = 4
_BATCH: Final = 500
_PATIENCE_S: Final = 120
_WAITING: Final = 300_000


class Run:
    """The measurements of one peer."""

    def __init__(self, peer: str, server: Server, *, scale: int, is_long: bool) -> None:
        self._peer = peer
        self._server = server
        self._scale = scale
        self._is_long = is_long

    def ingest(self) -> dict[str, str]:
        return {
            "ingest, batches of 500": self._flood(_BATCH),
            "ingest, one at a time": self._flood(1),
        }

    def _flood(self, batch: int) -> str:
        words = (12 / self._scale, batch)
        topic = _topic("flood")
        floods = [self._start("flood", topic, *words) for _ in range(_SENDERS)]
        rate = sum(_answer(each)["rate"] for each in floods)
        return f"{rate:,.0f} /s"

    def lateness(self) -> dict[str, str]:
        return {
            f"late at {rate:,} /s": self._steady(rate, 2_000, 5_000, seconds=30 / self._scale)
            for rate in (500, 3_000)
        }

    def short(self) -> dict[str, str]:
        return {
            "late, delays of 10 to 300 ms": self._steady(200, 10, 300, seconds=20 / self._scale)
        }

    def _steady(self, rate: int, min_ms: int, max_ms: int, *, seconds: float) -> str:
        topic = _topic("steady")
        with moving(self._peer, self._server, topic):
            _answer(self._start("make", topic))
            count = round(rate * seconds)
            receiver = self._start("receive", topic, count, seconds + _PATIENCE_S)
            sender = self._start("steady", topic, seconds, rate, min_ms, max_ms)
            sent = _answer(sender)
            got = _answer(receiver)
        behind = f", sender {sent['behind_s']:.1f} s behind" if sent["behind_s"] > 0.5 else ""
        return _late(got, count) + behind

    def burst(self) -> dict[str, str]:
        counts = (100_000, 1_000_000) if self._is_long else (100_000,)
        return {f"{count:,} at one instant": self._burst(count // self._scale) for count in counts}

    def _burst(self, count: int) -> str:
        topic = _topic("burst")
        ahead_s = 15 + count / (1_500 if self._peer == "beanstalkd" else 8_000)
        due_ms = system_time_ms() + round(ahead_s * 1_000)
        with moving(self._peer, self._server, topic):
            receiver = self._start("receive", topic, count, ahead_s + _PATIENCE_S)
            senders = [
                self._start("crowd", topic, count // _SENDERS, due_ms + number, _BATCH)
                for number in range(_SENDERS)
            ]
            for sender in senders:
                _answer(sender)
            spare_s = (due_ms - system_time_ms()) / 1_000
            got = _answer(receiver)
        late = got["late_ms"]
        last = f"all received {late[-1] / 1_000:.2f} s after" if late else "nothing received"
        lost = "" if len(late) == count else f", {count - len(late):,} MISSING"
        return last + lost + _wrong(got) + (", sent too late" if spare_s < 0 else "")

    def pending(self) -> dict[str, str]:
        idle_bytes, used_bytes = memory_bytes(self._server), disk_bytes(self._server)
        count, topic = _WAITING // self._scale, _topic("waiting")
        due_ms = system_time_ms() + 30 * 86_400_000
        senders = [
            self._start("crowd", topic, count // _SENDERS, due_ms + number * 100, _BATCH)
            for number in range(_SENDERS)
        ]
        for sender in senders:
            _answer(sender)
        grown = disk_bytes(self._server) - used_bytes
        memory = memory_bytes(self._server)
        return {
            "memory before": f"{idle_bytes / 1e6:,.0f} MB",
            f"memory, {count:,} more wait": f"{memory / 1e6:,.0f} MB",
            "disk for each of them": f"{grown / count:,.0f} B",
        }

    def restart(self) -> dict[str, str]:
        """After `pending`, whose messages wait meanwhile."""
        topic, count = _topic("restart"), 1_000
        _answer(self._start("make", topic))
        now_ms = system_time_ms()
        senders = [
            self._start("crowd", topic, 100, now_ms + 10_000 + 1_500 * number, _BATCH)
            for number in range(10)
        ]
        with moving(self._peer, self._server, topic):
            receiver = self._start("receive", topic, count, _PATIENCE_S)
            for sender in senders:
                _answer(sender)
            time.sleep(max(now_ms + 12_000 - system_time_ms(), 0) / 1_000)
            stopped_s = time.monotonic()
            self._server.stop()
            self._server.start_again()
            away_s = time.monotonic() - stopped_s
            got = _answer(receiver)
        return {"late around a restart": f"{_late(got, count)}; away {away_s:.1f} s"}

    def _start(self, name: str, topic: str, *words: object) -> subprocess.Popen[str]:
        return role(name, self._peer, self._server, topic, *words)


def _answer(process: subprocess.Popen[str]) -> Any:
    output, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{process.args!r}: ended with {process.returncode}")
    return json.loads(output.splitlines()[-1])


def _late(got: dict[str, Any], count: int) -> str:
    late = got["late_ms"]
    if not late:
        return "nothing received"
    p50, p99 = (late[int(len(late) * ratio)] for ratio in (0.5, 0.99))
    lost = "" if len(late) >= count else f", {count - len(late):,} MISSING"
    return f"p50 {p50}, p99 {p99}, max {late[-1]} ms{lost}{_wrong(got)}"


def _wrong(got: dict[str, Any]) -> str:
    early = sum(each < 0 for each in got["late_ms"])
    words = [
        f", {early:,} EARLY" if early else "",
        f", {got['twice']:,} TWICE" if got["twice"] else "",
    ]
    return "".join(words)


def _topic(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:8]}"


PARTS: Final[dict[str, Callable[[Run], dict[str, str]]]] = {
    "ingest": Run.ingest,
    "lateness": Run.lateness,
    "short": Run.short,
    "burst": Run.burst,
    "pending": Run.pending,
    "restart": Run.restart,
}


def measure(peer: str, folder: Path, arguments: argparse.Namespace) -> dict[str, str]:
    server = start(peer, folder)
    found: dict[str, str] = {}
    try:
        run = Run(peer, server, scale=10 if arguments.quick else 1, is_long=arguments.long)
        for part, work in PARTS.items():
            if arguments.only in (None, part):
                for name, text in work(run).items():
                    found[name] = text
                    print(f"{server.name:11} {name:34} {text}", flush=True)
    finally:
        server.end()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS, help="which of them")
    parser.add_argument("--only", choices=tuple(PARTS), help="one part")
    parser.add_argument("--quick", action="store_true", help="a tenth of the time and the messages")
    parser.add_argument("--long", action="store_true", help="a million at one instant, too")
    arguments = parser.parse_args()
    print(f"{platform.platform()}, {platform.python_version()}")
    tables = {}
    for peer in arguments.peers:
        if (program := missing(peer)) is not None:
            print(f"{peer}: left out, since {program} is not installed")
            continue
        folder = Path(tempfile.mkdtemp(prefix="dueline-peers-"))
        try:
            tables[peer] = measure(peer, folder / peer, arguments)
        except RuntimeError as error:
            print(f"{peer}: {error}")
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    _table(tables)


def _table(tables: dict[str, dict[str, str]]) -> None:
    """For docs/speed.md."""
    names = list(dict.fromkeys(name for table in tables.values() for name in table))
    print(f"\n| | {' | '.join(tables)} |\n|---|{'---|' * len(tables)}")
    for name in names:
        print(f"| {name} | {' | '.join(table.get(name, '-') for table in tables.values())} |")


if __name__ == "__main__":
    main()
