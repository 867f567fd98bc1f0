"""Crowds that want nothing: streams and polls that idle, calls that are cancelled, connections
that say nothing or nonsense. Others are served meanwhile, and nothing of them is left behind.

What is counted: tasks of the broker's event loop, threads, connections, clients, watches, and in
the long run memory. The broker runs in this process, the crowd's channels too; when these are
closed, everything must be as before.
"""

from __future__ import annotations

import asyncio
import random
import resource
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import IS_SOAK
from tests.grpc.broker import TestBroker
from tests.grpc.calls import Caller, held_open, serves
from tests.waiting import PATIENCE_S, wait_until

from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.stubs import message_class

OK = 20000
CHANNELS = 8
STREAMS = 3_000 if IS_SOAK else 300
POLLS = 2_000 if IS_SOAK else 200
CONNECTIONS = 1_000 if IS_SOAK else 200
ROUNDS = 10 if IS_SOAK else 2
GROWN_KIB_MAX = 64 << 10
"""Allocators keep some; a stream that was kept would cost more than this in the long run."""


class Figures:
    """What a crowd may cost while it is there, and not afterwards."""

    def __init__(self, broker: TestBroker) -> None:
        self._broker = broker
        self.before = self.now()

    def now(self) -> dict[str, int]:
        loop, listener = self._broker.server._loop, self._broker.server.listener
        assert loop is not None
        assert listener is not None

        async def count() -> int:
            return len(asyncio.all_tasks())

        return {
            "tasks": asyncio.run_coroutine_threadsafe(count(), loop).result(20),
            "connections": len(listener.links.all) + len(listener.entrance.newcomers),
            "clients": len(self._broker.server._clients),
            "watches": len(self._broker.broker.reading.watches),
        }

    def wait_until_as_before(self) -> None:
        """Fails with what is left."""
        try:
            wait_until(self._is_as_before, what="everything as before")
        except TimeoutError as error:
            raise AssertionError(f"{error}: before {self.before}, now {self.now()}") from None

    def _is_as_before(self) -> bool:
        return all(count <= self.before[name] for name, count in self.now().items())


@pytest.fixture
def figures(broker: TestBroker, caller: Caller, topic: str) -> Figures:
    """Counted once the caller's own channel stands."""
    assert serves(caller, topic)
    wait_until(lambda: len(broker.broker.reading.watches) == 0, what="no waiting call")
    return Figures(broker)


def threads_of(broker: TestBroker) -> int:
    """Threads of the broker; those of the crowd's own client library are not counted."""
    return sum(thread.name.startswith("grpc") for thread in threading.enumerate())


@pytest.mark.parametrize("is_silent", [False, True])
def test_idle_telemetry_streams_cost_no_thread_and_leave_nothing(
    broker: TestBroker, caller: Caller, topic: str, figures: Figures, is_silent: bool
) -> None:
    """Streams that said who they are, or that never say a word."""
    settings = message_class("TelemetryCommand")(
        settings={"client_type": 3, "subscription": {"group": {"name": "g"}}}
    )
    commands = () if is_silent else (settings,)
    threads = threads_of(broker)
    end = threading.Event()
    with ExitStack() as channels:
        callers = [channels.enter_context(Caller(broker.endpoint)) for _ in range(CHANNELS)]
        streams = [
            callers[number % CHANNELS]._stub("stream_stream", "Telemetry")(
                held_open(*commands, end=end), metadata=[("x-mq-client-id", f"idle-{number}")]
            )
            for number in range(STREAMS)
        ]
        for stream in () if is_silent else streams:
            assert next(stream).status.code == OK
        wait_until(
            lambda: len(broker.server._clients) >= figures.before["clients"] + STREAMS,
            what="all streams",
        )
        assert serves(caller, topic)
        # The pool for what blocks may have grown by a thread or two for those who were served.
        assert threads_of(broker) < threads + STREAMS // 10
        end.set()
        for stream in streams:
            stream.cancel()

    figures.wait_until_as_before()


def test_cancelled_long_polls_leave_nothing_and_stop_nobody(
    broker: TestBroker, caller: Caller, topic: str, figures: Figures
) -> None:
    resident_kib = 0
    for turn in range(ROUNDS):
        with ExitStack() as channels:
            callers = [channels.enter_context(Caller(broker.endpoint)) for _ in range(CHANNELS)]
            polls = [
                _poll(callers[number % CHANNELS], f"{topic}-idle-{number % 50}")
                for number in range(POLLS)
            ]
            wait_until(lambda: broker.polls_waiting >= POLLS, what="all polls")
            assert serves(caller, topic)
            for poll in polls:
                poll.cancel()
        figures.wait_until_as_before()
        resident_kib = resident_kib or _resident_kib()
        if turn == ROUNDS - 1:
            assert _resident_kib() - resident_kib < GROWN_KIB_MAX

    assert broker.polls_waiting == 0
    assert serves(caller, topic)


def _poll(caller: Caller, topic: str) -> Any:
    return caller.stream(
        "ReceiveMessage",
        timeout_s=PATIENCE_S,
        group={"name": "g"},
        message_queue={"topic": {"name": topic}},
        batch_size=1,
        invisible_duration={"seconds": 10},
        long_polling_timeout={"seconds": 30},
    )


def _resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


# Connections


def hello() -> bytes:
    """The first message of a real TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


OPENINGS: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "one byte of TLS": lambda: b"\x16",
    "half of a TLS hello": lambda: hello()[:40],
    "a TLS hello": hello,
    "a TLS record without end": lambda: b"\x16\x03\x01\x40\x00" + random.Random(1).randbytes(200),
    "one byte of HTTP/2": lambda: b"P",
    "the preface of HTTP/2": lambda: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBroker]:
    """A broker that gives connections half a second to say who they are."""
    options = GrpcOptions(address="127.0.0.1:0", handshake_ms_max=500)
    with TestBroker(tmp_path_factory.mktemp("impatient"), options) as running:
        yield running


@pytest.mark.parametrize("opening", OPENINGS)
def test_connection_that_does_not_go_on_is_closed_in_time(
    impatient: TestBroker, opening: str
) -> None:
    listener = impatient.server.listener
    assert listener is not None
    with socket.create_connection(
        ("127.0.0.1", impatient.server.port), timeout=PATIENCE_S
    ) as silent:
        silent.sendall(OPENINGS[opening]())
        try:
            while silent.recv(4096):  # fails after 20 seconds
                pass
        except ConnectionResetError:
            pass

    wait_until(
        lambda: not listener.links.all and not listener.entrance.newcomers,
        what="no connection left",
    )


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x00" * 100, b"\x16" * 999]
)
def test_connection_that_speaks_another_language_is_closed(
    broker: TestBroker, caller: Caller, topic: str, first: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", broker.server.port), timeout=PATIENCE_S) as other:
        other.sendall(first)
        while other.recv(4096):
            pass

    assert serves(caller, topic)


def test_silent_connections_do_not_stop_others(
    broker: TestBroker, caller: Caller, topic: str, figures: Figures
) -> None:
    with ExitStack() as connections:
        for _ in range(CONNECTIONS):
            connections.enter_context(
                socket.create_connection(("127.0.0.1", broker.server.port), timeout=PATIENCE_S)
            )
        assert serves(caller, topic)

    figures.wait_until_as_before()
