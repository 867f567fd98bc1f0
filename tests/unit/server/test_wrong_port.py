"""Each port, called in the protocol of another."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.unit.server.local import running, small_config
from tests.waiting import PATIENCE_S

import grpc
from dueline.client import Producer
from dueline.errors import BrokerError, RemoteProtocolError
from dueline.flight.operators import OperatorClient, Report, Reported
from dueline.server.wrong_port import answer_to_frame, answer_to_http


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    name_server: int
    remoting: int
    grpc: int
    flight: int


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ports]:
    folder: Path = tmp_path_factory.mktemp("ports")
    with running(small_config(folder, **{"listen.grpc": "127.0.0.1:0"})) as broker:
        options = broker.remoting_options
        assert options.name_server is not None
        assert options.broker is not None
        assert broker.grpc.port is not None
        yield Ports(
            name_server=options.name_server.port,
            remoting=options.broker.port,
            grpc=broker.grpc.port,
            flight=broker.service.port,
        )


@pytest.mark.parametrize("name", ["name_server", "remoting", "grpc"])
def test_a_browser_is_told_which_port_it_is(ports: Ports, name: str) -> None:
    with socket.create_connection(("127.0.0.1", getattr(ports, name)), timeout=PATIENCE_S) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while data := peer.recv(4096):
            answer += data

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert f"Content-Length: {len(body)}".encode() in head
    assert body.startswith(f"This is listen.{name}, for RocketMQ ".encode())


@pytest.mark.parametrize("name", ["name_server", "remoting"])
def test_a_grpc_client_is_told_that_it_is_the_wrong_port(ports: Ports, name: str) -> None:
    with (
        grpc.insecure_channel(f"127.0.0.1:{getattr(ports, name)}") as channel,
        pytest.raises(grpc.RpcError) as caught,
    ):
        channel.unary_unary("/service/method")(b"", timeout=PATIENCE_S)

    assert "http1.x server" in str(caught.value)


@pytest.mark.parametrize("name", ["remoting", "grpc"])
def test_a_4x_client_is_told_which_port_it_is(ports: Ports, name: str) -> None:
    with (
        Producer(f"127.0.0.1:{getattr(ports, name)}") as producer,
        pytest.raises(BrokerError, match=f"This is listen\\.{name}"),
    ):
        producer.send("t", b"x")


def test_a_4x_client_that_nobody_understands_has_a_guess(ports: Ports) -> None:
    with (
        Producer(f"127.0.0.1:{ports.flight}", attempts_max=1) as producer,
        pytest.raises(BrokerError, match="is it the port of a name server or a broker"),
    ):
        producer.send("t", b"x")


def test_a_command_at_the_port_of_5x_clients_is_told_so(ports: Ports) -> None:
    with (
        OperatorClient(f"127.0.0.1:{ports.grpc}") as client,
        pytest.raises(RemoteProtocolError, match=r"expected its Flight port \(listen\.flight"),
    ):
        client.ask(Report(), Reported)


@pytest.mark.parametrize("first", [b"", b"P", b"\x16\x03\x01", bytes(50), b"\xff" * 50, b"GETTING"])
def test_other_bytes_have_no_answer(first: bytes) -> None:
    assert answer_to_http(first, "words") is None
    assert answer_to_frame(first, "words") is None
