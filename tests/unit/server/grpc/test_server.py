"""The 5.x port's beginning and end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.threads import Started
from tests.unit.server.remoting.world import RemotingWorld, remoting_world
from tests.waiting import PATIENCE_S, wait_until

from dueline.errors import InvalidRequest, Unavailable
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.server import GrpcServer
from dueline.server.tls import Tls, TlsOptions

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"  # and empty settings


STARTED = Started()


@pytest.fixture(autouse=True)
def begin() -> None:
    STARTED.begin()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as made:
        yield made


def threads() -> list[str]:
    return STARTED.named("grpc")


def options(port: int = 0) -> GrpcOptions:
    return GrpcOptions(address=f"127.0.0.1:{port}")


def test_it_serves_from_start_to_stop(world: RemotingWorld) -> None:
    server = GrpcServer(world.broker, options())
    server.start()
    assert server.port > 0
    assert "grpc" in threads()
    client = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)
    client.sendall(HELLO)
    assert client.recv(1) != b""

    server.stop()

    while client.recv(4_096):
        pass  # its farewell, and then the end
    client.close()
    assert threads() == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)


def test_a_taken_port_is_told_with_its_setting_and_nothing_is_left(world: RemotingWorld) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        failures: list[BaseException] = []
        server = GrpcServer(world.broker, options(port), on_failure=failures.append)

        with pytest.raises(Unavailable, match=rf"listen\.grpc: .* 127\.0\.0\.1:{port}.*taken"):
            server.start()

        assert threads() == []
        assert failures == [], "who starts it is told, and nobody else"
        server.stop()  # as those do who unwind


def test_a_certificate_that_cannot_be_used_is_told_as_such(
    world: RemotingWorld, tmp_path: Path
) -> None:
    tls = TlsOptions(certificate=str(tmp_path / "none.pem"), private_key=str(tmp_path / "none.key"))

    with pytest.raises(InvalidRequest, match=r"none\.(pem|key)"):
        GrpcServer(world.broker, options(), tls=Tls(tls, tmp_path)).start()

    wait_until(lambda: threads() == [], "the end of its threads")


def test_what_was_never_started_can_be_stopped(world: RemotingWorld) -> None:
    GrpcServer(world.broker, options()).stop()

    assert threads() == []


def test_the_messages_of_a_client_that_has_gone_are_released(world: RemotingWorld) -> None:
    released: list[str] = []
    world.broker.inflight.release = released.append  # type: ignore[method-assign, assignment]
    server = GrpcServer(world.broker, options())

    server._gone("client-7")
    server.stop()  # waits for what is under way

    assert released == ["client-7"]
