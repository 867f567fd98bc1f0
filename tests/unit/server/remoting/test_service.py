"""The 4.x ports' beginning and end: either may be off, and every connection ends with them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.remoting.peer import Peer
from tests.threads import Started
from tests.unit.server.remoting.world import RemotingWorld, remoting_world
from tests.waiting import PATIENCE_S

from dueline.server.remoting.listeners import Listener
from dueline.server.remoting.service import RemotingOptions, RemotingService
from dueline.wire import Command

ROUTE, MIN_OFFSET, UNKNOWN = 105, 31, 3


STARTED = Started()


@pytest.fixture(autouse=True)
def begin() -> None:
    STARTED.begin()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as made:
        yield made


def threads() -> list[str]:
    return STARTED.named("remoting")


def bound(name: str) -> Listener:
    return Listener.bind(name, "127.0.0.1", 0)


def asked(listener: Listener, code: int) -> int:
    """How a request is answered: its code."""
    with Peer(f"127.0.0.1:{listener.port}") as peer:
        ext = {"topic": "orders", "queueId": "0"}
        return int(peer.wait_answer(peer.send(code, ext, b"")).code)


def test_each_port_answers_what_is_its_own(world: RemotingWorld) -> None:
    world.send(b"17", topic="orders")
    names, broker, vip = bound("names"), bound("broker"), bound("vip")
    service = RemotingService(
        world.broker, RemotingOptions(name_server=names, broker=broker, vip=vip)
    )
    service.start()
    try:
        assert (asked(names, ROUTE), asked(names, MIN_OFFSET)) == (0, UNKNOWN)
        assert (asked(broker, MIN_OFFSET), asked(vip, MIN_OFFSET)) == (0, 0)
    finally:
        service.stop()
    assert threads() == []


@pytest.mark.parametrize("which", ["name_server", "broker"])
def test_either_port_may_be_off(world: RemotingWorld, which: str) -> None:
    listener = bound(which)
    service = RemotingService(world.broker, RemotingOptions(**{which: listener}))  # type: ignore[arg-type]
    service.start()
    try:
        assert [hub.name for hub in service.hubs] == [which.replace("_", " ")]
        asked(listener, ROUTE)
    finally:
        service.stop()


def test_connections_end_with_the_service(world: RemotingWorld) -> None:
    listener = bound("broker")
    service = RemotingService(world.broker, RemotingOptions(broker=listener))
    service.start()
    client = socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE_S)
    client.sendall(Command(code=MIN_OFFSET, opaque=1).encode())
    assert client.recv(1) != b""

    service.stop()

    while client.recv(4_096):
        pass  # the rest of the answer, and then the end
    client.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listener.port), timeout=PATIENCE_S)


def test_what_was_never_started_gives_its_ports_back(world: RemotingWorld) -> None:
    options = RemotingOptions(name_server=bound("names"), broker=bound("broker"))
    assert options.broker is not None
    port = options.broker.port
    RemotingService(world.broker, options).stop()

    options.close()

    Listener.bind("again", "127.0.0.1", port).close()
    assert threads() == []


def test_a_service_that_cannot_listen_says_so_and_can_be_stopped(world: RemotingWorld) -> None:
    listener = bound("broker")
    listener.close()
    failures: list[BaseException] = []
    service = RemotingService(
        world.broker, RemotingOptions(broker=listener), on_failure=failures.append
    )

    service.start()
    service.stop()

    assert len(failures) == 1
    assert threads() == []
