"""kill -9 of the broker at random moments under load on RocketMQ's 4.x protocol.

The broker is a real process with all its parts; only Spark's place is taken by a thread in it. Two
producers, a reader and a group's consumer, all `dueline.client`, go on through every kill. Then the
whole history is looked at:

    nothing lost      what was acknowledged is read by the reader and handled by the consumer
    none early        neither before the due time that its producer was told, nor, if it was sent
                      again and nobody was told of the first copy, before its delay is over
    once              a message that is sent with one attempt is stored once at most; one that is
                      sent again after a lost answer at most once per attempt, with the same id
    in order          the reader sees every queue from its start, offset by offset, without a hole
    again only so     the consumer gets a message again only after a kill: offsets that the broker
                      had not yet saved, or a message that the consumer itself has refused
"""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from tests.ports import free_ports
from tests.waiting import wait_until

from dueline.client import Consumer, Producer, Reader, Received
from dueline.clock import system_time_ms
from dueline.errors import BrokerError

ROUNDS = 25 if os.environ.get("DUELINE_SOAK") else 3
SEED = int(os.environ.get("DUELINE_SEED", "20270101"))
ATTEMPTS = {"once": 1, "again": 3}
REPOSITORY = Path(__file__).resolve().parents[2]
TOPIC = "kills"
PAUSE_S = 0.01

pytestmark = [pytest.mark.slow]


@dataclass(slots=True)
class History:
    """What clients were told and saw; several threads add to it."""

    due_ms: dict[str, int] = field(default_factory=dict)
    delay_ms: dict[str, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    read: list[tuple[Received, int]] = field(default_factory=list)
    handled: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    done: set[str] = field(default_factory=set)
    kill_count: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def missing(self) -> set[str]:
        with self.lock:
            read = {message.body.decode() for message, _ in self.read}
            return self.due_ms.keys() - (read & self.done)

    def check(self) -> None:
        assert not self.missing()
        known = self.due_ms.keys() | self.unanswered
        copies = Counter(message.body.decode() for message, _ in self.read)
        assert copies.keys() <= known
        assert self.handled.keys() <= known
        for name, count in copies.items():
            assert count <= ATTEMPTS[name.partition("-")[0]], f"{name}: stored {count} times"
        last_ms: dict[str, int] = {}
        for message, came_ms in self.read:
            name = message.body.decode()
            seen_ms = min(came_ms, message.store_ms)
            last_ms[name] = max(seen_ms, last_ms.get(name, 0))
            assert seen_ms >= message.born_ms + self.delay_ms.get(name, 0), f"{name}: early"
            assert copies[name] > 1 or seen_ms >= self.due_ms.get(name, 0), f"{name}: early"
            assert message.id == self.ids.get(name, message.id)
        # Its producer was told of one copy: the one that was accepted last.
        assert all(last_ms[name] >= due_ms for name, due_ms in self.due_ms.items())
        self._check_order()
        self._check_handled(copies)

    def _check_order(self) -> None:
        offsets: dict[int, list[int]] = defaultdict(list)
        for message, _ in self.read:
            offsets[message.queue_id].append(message.queue_offset)
        for queue_id, found in offsets.items():
            assert found == list(range(len(found))), f"queue {queue_id}: {found}"

    def _check_handled(self, copies: Counter[str]) -> None:
        for name, times in self.handled.items():
            is_told = copies[name] == 1
            first_ms = min(came_ms for came_ms, _ in times)
            assert not is_told or first_ms >= self.due_ms.get(name, 0), name
            if not is_refused(name):
                again = len(times) - copies[name]
                first_kills = times[0][1]
                assert again <= self.kill_count - first_kills, f"{name}: {times}"


def is_refused(name: str) -> bool:
    """Which messages the consumer refuses the first time."""
    return name.endswith("7")


class Process:
    """The broker; killed and started again on its folder."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(2)
        self.name_server = f"127.0.0.1:{ports[0]}"
        self._command = [sys.executable, "-m", "tests.remoting.process", str(folder)]
        self._command += [str(port) for port in ports]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def produce(kind: str, address: str, history: History, stopping: threading.Event) -> None:
    """At once, after a delay, by level: one after the other until it is enough."""
    choose = random.Random(f"{SEED} {kind}")
    with Producer(address, attempts_max=ATTEMPTS[kind], timeout_s=5.0) as producer:
        number = 0
        while not stopping.wait(PAUSE_S):
            name = f"{kind}-{number}"
            number += 1
            delay = timedelta(milliseconds=choose.randrange(100, 2_000))
            how = choose.choice(({}, {"delay": delay}, {"delay": delay}, {"delay_level": 1}))
            wanted = {"delay": delay // timedelta(milliseconds=1), "delay_level": 1_000}
            with history.lock:
                history.delay_ms[name] = sum(wanted[word] for word in how)
            try:
                sent = producer.send(TOPIC, name.encode(), queue_id=number % 4, **how)
            except BrokerError:
                with history.lock:
                    history.unanswered.add(name)
                continue
            with history.lock:
                history.due_ms[name] = sent.due_ms or 0
                history.ids[name] = sent.id


def read(reader: Reader, history: History, stopping: threading.Event) -> None:
    while not stopping.is_set():
        messages = reader.receive_many(100, timeout_s=0.1)
        came_ms = system_time_ms()
        with history.lock:
            history.read += [(message, came_ms) for message in messages]


def handler(history: History) -> Callable[[Received], None]:
    def handle(message: Received) -> None:
        name = message.body.decode()
        with history.lock:
            history.handled[name].append((system_time_ms(), history.kill_count))
            if not is_refused(name) or message.attempt:
                history.done.add(name)
                return
        raise ValueError("not the first time")

    return handle


def test_a_broker_killed_under_load_keeps_its_promises_to_clients(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "dueline.client")  # refusals and losses are the point here
    choose = random.Random(SEED)
    history, process, stopping = History(), Process(tmp_path / "data"), threading.Event()
    enough = threading.Event()
    names = process.name_server
    process.start()
    try:
        with Producer(names) as first:
            sent = first.send(TOPIC, b"once-first", queue_id=0)
        history.due_ms["once-first"] = 0
        history.ids["once-first"] = sent.id
        with (
            Reader(names, TOPIC) as reader,
            Consumer(names, TOPIC, "g", handler(history)),
        ):
            threads = [
                threading.Thread(target=produce, args=(kind, names, history, enough))
                for kind in ATTEMPTS
            ]
            threads.append(threading.Thread(target=read, args=(reader, history, stopping)))
            for thread in threads:
                thread.start()
            try:
                kill_often(process, history, choose)
            finally:
                enough.set()
                for thread in threads[:-1]:
                    thread.join()
            wait_until(lambda: not history.missing(), what="the rest")
            stopping.set()
            threads[-1].join()
    finally:
        enough.set()
        stopping.set()
        process.kill()
    history.check()
    due_ms = {name: due_ms for name, due_ms in history.due_ms.items() if due_ms}
    late = sorted(ms - due_ms.get(message.body.decode(), ms) for message, ms in history.read)
    logging.getLogger(__name__).info(
        "%d acknowledged, %d unanswered, %d read, %d kills, late p50 %d ms",
        len(history.due_ms),
        len(history.unanswered),
        len(history.read),
        history.kill_count,
        late[len(late) // 2],
    )


def kill_often(process: Process, history: History, choose: random.Random) -> None:
    for number in range(ROUNDS):
        goal = len(history.read) + choose.randrange(50, 200)
        wait_until(
            lambda goal=goal: len(history.read) >= goal,  # type: ignore[misc]
            what=f"messages in round {number}, seed {SEED}",
        )
        process.kill()
        with history.lock:
            history.kill_count += 1
        process.start()
