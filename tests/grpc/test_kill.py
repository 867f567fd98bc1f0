"""Kill the broker in the middle of receiving and acknowledging; check the whole history.

Consumers receive and acknowledge while `dueline serve` is killed (-9) and started again on its
folder, several times. The history of what was sent, received and acknowledged then has to say:

    nothing lost        every message that was acknowledged as sent was received
    nothing too often   once an acknowledgement was confirmed, the message did not come again
"""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.grpc.calls import Caller
from tests.ports import free_ports
from tests.serve.conftest import Served, served
from tests.waiting import wait_until

import grpc

ROUNDS = 5
CONSUMERS = 3
OK = 20000


class History:
    """What happened, in the order in which clients learned it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent: set[str] = set()
        self.received: set[str] = set()
        self.acknowledged: set[str] = set()
        self.repeated: list[str] = []
        self.redelivered = 0

    def note_received(self, body: str, *, attempt: int) -> None:
        with self._lock:
            # Whoever receives it now was given it after the confirmation was written.
            if body in self.acknowledged:
                self.repeated.append(body)
            self.received.add(body)
            self.redelivered += attempt > 1

    def note_acknowledged(self, body: str) -> None:
        with self._lock:
            self.acknowledged.add(body)


@contextmanager
def broker(folder: Path, port: int) -> Iterator[Served]:
    """The command as a user runs it; nothing here is delayed, so without Spark."""
    words = ("--no-spark", "--grpc", f"127.0.0.1:{port}", "--set", "grpc.invisible_min=500ms")
    with served(folder, *words) as serving:
        assert serving.address
        yield serving


def consume(endpoint: str, history: History, stopping: threading.Event, seed: int) -> None:
    """Receive, and acknowledge most of it; a broker that is away is tried again."""
    chance = random.Random(seed)
    with Caller(endpoint, client_id=f"consumer-{seed}") as caller:
        while not stopping.is_set():
            try:
                _, messages = caller.receive(
                    "t",
                    batch_size=4,
                    invisible_duration={"nanos": 700_000_000},
                    long_polling_timeout={"seconds": 1},
                )
                for message in messages:
                    system = message.system_properties
                    body = message.body.decode()
                    history.note_received(body, attempt=system.delivery_attempt)
                    if chance.random() < 0.8 and caller.ack("t", message) == OK:
                        history.note_acknowledged(body)
            except grpc.RpcError:
                stopping.wait(0.05)


def send(endpoint: str, history: History, numbers: range) -> None:
    with Caller(endpoint, client_id="producer") as caller:
        for number in numbers:
            body = str(number)
            try:
                message = {"body": body.encode(), "system": {"message_id": body}}
                if caller.send("t", message).status.code == OK:
                    history.sent.add(body)
            except grpc.RpcError:
                return  # the broker is gone: the message may be there or not


@pytest.mark.slow
def test_killed_broker_forgets_no_message_and_no_acknowledgement(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    endpoint = f"127.0.0.1:{port}"
    history = History()
    stopping = threading.Event()
    chance = random.Random(7)
    consumers = [
        threading.Thread(target=consume, args=(endpoint, history, stopping, seed))
        for seed in range(CONSUMERS)
    ]

    for consumer in consumers:
        consumer.start()
    try:
        for turn in range(ROUNDS):
            with broker(tmp_path, port) as serving:
                numbers = range(turn * 100_000, turn * 100_000 + 3_000)
                sending = threading.Thread(target=send, args=(endpoint, history, numbers))
                before = len(history.acknowledged)
                sending.start()
                enough = before + chance.randrange(20, 120)
                wait_until(lambda: len(history.acknowledged) > enough, what="acknowledgements")  # noqa: B023
                serving.stop(signal.SIGKILL)
                sending.join()
        with broker(tmp_path, port):
            # Not "acknowledged": the broker may be killed between writing that and saying so.
            wait_until(lambda: history.sent <= history.received, what="everything received")
    finally:
        stopping.set()
        for consumer in consumers:
            consumer.join()

    assert history.repeated == []
    assert len(history.acknowledged) > ROUNDS * 20
    assert history.redelivered > 0  # some were received and not acknowledged, or nothing was shown
