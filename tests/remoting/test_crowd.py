"""A thousand peers that send garbage, halves or nothing: real clients get all, none early."""

from __future__ import annotations

import contextlib
import random
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from tests.remoting.peer import Peer, records_of
from tests.remoting.serving import RunningBroker
from tests.waiting import wait_until

from dueline.client import Consumer, Outgoing, Producer
from dueline.client.values import Received
from dueline.clock import system_time_ms
from dueline.server.remoting.limits import Limits
from dueline.wire import Command, RequestCode

CROWD = 1_000
COUNT = 50
MEMORY_KIB_MAX = 64 << 10

HALF = Command(code=RequestCode.HEART_BEAT, opaque=1).encode()[:-2]
GARBAGE = (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00" + bytes(60), bytes(50), b"\xff" * 50)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RunningBroker]:
    with RunningBroker(tmp_path, limits=Limits(half_frame_s_max=2.0)) as running:
        yield running


def crowd(stack: ExitStack, address: str, count: int) -> list[list[socket.socket]]:
    """Those that say nothing, those that stop within a frame, those that send garbage."""
    host, _, port = address.rpartition(":")
    found: list[list[socket.socket]] = [[], [], []]
    for number in range(count):
        one = stack.enter_context(socket.create_connection((host, int(port)), 60))
        kind = number % 3
        one.sendall((b"", HALF, GARBAGE[number % len(GARBAGE)])[kind])
        found[kind].append(one)
    return found


def room_for_the_crowd() -> int:
    """Both ends of each connection are files of this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    goal = min(hard, 2 * CROWD + 1_024) if hard != resource.RLIM_INFINITY else 2 * CROWD + 1_024
    if soft < goal:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, hard))
    return min(CROWD, (max(soft, goal) - 300) // 2)


def memory_kib() -> int:
    """Of this process, with the broker in it; nothing where the system does not tell."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def is_closed(one: socket.socket) -> bool:
    """Waits for the end of the connection; what is said before, as to HTTP, does not matter."""
    with contextlib.suppress(ConnectionError):
        while one.recv(4096):
            pass
    return True


def test_crowd_of_strangers_disturbs_nobody(broker: RunningBroker) -> None:
    count = room_for_the_crowd()
    generator = random.Random(7)
    handled: dict[bytes, int] = {}
    twice: list[bytes] = []
    lock = threading.Lock()

    def handle(message: Received) -> None:
        with lock:
            twice.extend([message.body] if message.body in handled else [])
            handled[message.body] = system_time_ms()

    with (
        ExitStack() as stack,
        Peer(broker.address) as peer,
        Producer(broker.name_server) as producer,
    ):
        peer.send_message("orders")
        producer.send("reminders", b"first")
        with Consumer(broker.name_server, "reminders", "g", handle):
            wait_until(lambda: handled, what="the first message")
            before_kib = memory_kib()
            silent, halves, garbage = crowd(stack, broker.address, count)
            sent_ms = system_time_ms()
            messages = [
                Outgoing(
                    topic="reminders",
                    body=b"%d" % number,
                    delay=timedelta(milliseconds=generator.randrange(200, 1_500)),
                )
                for number in range(COUNT)
            ]
            results = producer.send_many(messages)
            due = send_delayed(peer)
            arrived = receive(peer, len(due))
            wait_until(lambda: len(handled) == COUNT + 1, what="all messages to be handled")
            grown_kib = memory_kib() - before_kib
            gone = [is_closed(one) for one in (*garbage, *halves)]

    assert arrived.keys() == due.keys()
    assert all(arrived[body] >= due[body] for body in due)
    assert list(arrived) == sorted(due, key=lambda body: due[body])
    late_ms = [
        handled[message.body] - (sent.due_ms or 0)
        for message, sent in zip(messages, results, strict=True)
    ]
    assert min(late_ms) >= 0
    assert all((sent.due_ms or 0) >= sent_ms for sent in results)
    assert (all(gone), twice) == (True, [])
    assert len(silent) == -(-count // 3)
    assert grown_kib <= MEMORY_KIB_MAX
    assert broker.failures == []
    late = sorted([*late_ms, *(arrived[body] - due[body] for body in due)])
    print(f"{count} strangers: late p50 {late[len(late) // 2]} ms, max {late[-1]} ms")  # noqa: T201
    print(f"memory {grown_kib / 1024:+.1f} MiB, both ends of all connections")  # noqa: T201


def send_delayed(peer: Peer) -> dict[bytes, int]:
    """When each is due at the earliest, by body."""
    due = {}
    for number in range(COUNT):
        delay_ms = 200 + 10 * number
        due[b"%d" % number] = system_time_ms() + delay_ms
        answer = peer.send_message("orders", b"%d" % number, TIMER_DELAY_MS=str(delay_ms))
        assert answer.code == 0
    return due


def receive(peer: Peer, count: int) -> dict[bytes, int]:
    """When each came, by body."""
    arrived: dict[bytes, int] = {}
    offset = 1
    while len(arrived) < count:
        found = peer.pull("orders", offset, suspend_ms=30_000)
        assert found.code == 0
        now_ms = system_time_ms()
        for record in records_of(found):
            assert record.body not in arrived
            arrived[record.body] = now_ms
        offset = int(found.ext["nextBeginOffset"])
    return arrived
