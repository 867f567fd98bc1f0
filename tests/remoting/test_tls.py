"""TLS on the ports of the 4.x protocol: modes, clear refusals, client certificates, renewal."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest
from tests.authority import Authority, Issued
from tests.remoting.serving import RunningBroker
from tests.waiting import PATIENCE_S, wait_until

from dueline.client import ClientTls, Producer, Reader
from dueline.errors import BrokerError, Unavailable
from dueline.server.tls import TlsOptions
from dueline.wire import Command, RequestCode

LARGE = 3 << 20


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "authority")


def options(authority: Authority, mode: str = "enforcing", **others: object) -> TlsOptions:
    issued = authority.issue("broker")
    return TlsOptions(
        mode=mode,
        certificate=issued.certificate,
        private_key=issued.private_key,
        **others,  # type: ignore[arg-type]
    )


def as_client(authority: Authority, issued: Issued | None = None) -> ClientTls:
    if issued is None:
        return ClientTls(ca=authority.ca)
    return ClientTls(
        ca=authority.ca, certificate=issued.certificate, private_key=issued.private_key
    )


def exchange(broker: RunningBroker, tls: ClientTls | None, body: bytes = b"due") -> bytes:
    """Send a message and read it."""
    with Producer(broker.name_server, tls=tls) as producer:
        producer.send("letters", body)
    with Reader(broker.name_server, "letters", tls=tls) as reader:
        return next(iter(reader)).body


def raw_tls(broker: RunningBroker, context: ssl.SSLContext) -> ssl.SSLSocket:
    host, _, port = broker.address.partition(":")
    return context.wrap_socket(
        socket.create_connection((host, int(port)), timeout=PATIENCE_S), server_hostname="localhost"
    )


def heart_beat() -> bytes:
    return Command(code=RequestCode.HEART_BEAT, opaque=7, body=b'{"clientID":"c"}').encode()


def serial(connection: ssl.SSLSocket) -> object:
    found = connection.getpeercert()
    assert found is not None
    return found["serialNumber"]


@pytest.mark.parametrize("secured", [True, False])
def test_permissive_ports_take_both_kinds(
    tmp_path: Path, authority: Authority, secured: bool
) -> None:
    with RunningBroker(tmp_path, tls=options(authority, "permissive")) as broker:
        assert exchange(broker, as_client(authority) if secured else None) == b"due"

        counts = [hub.entrance.counts for hub in broker.service.hubs]
        assert all(bool(each.secured) == secured for each in counts)


def test_answers_larger_than_any_buffer_come_whole(tmp_path: Path, authority: Authority) -> None:
    body = bytes(range(256)) * (LARGE >> 8)

    with RunningBroker(tmp_path, tls=options(authority)) as broker:
        assert exchange(broker, as_client(authority), body) == body


def test_plain_client_is_told_that_tls_is_required(tmp_path: Path, authority: Authority) -> None:
    with (
        RunningBroker(tmp_path, tls=options(authority)) as broker,
        Producer(broker.name_server) as producer,
        pytest.raises(BrokerError, match="speaks TLS only"),
    ):
        producer.send("letters", b"due")


def test_browser_is_told_that_tls_is_required(tmp_path: Path, authority: Authority) -> None:
    with RunningBroker(tmp_path, tls=options(authority)) as broker:
        host, _, port = broker.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as browser:
            browser.sendall(b"GET / HTTP/1.1\r\n\r\n")

            answer = b"".join(iter(lambda: browser.recv(4_096), b""))

    assert b"400 Bad Request" in answer
    assert b"speaks TLS only" in answer


def test_tls_client_is_told_that_a_port_has_none(tmp_path: Path, authority: Authority) -> None:
    with (
        RunningBroker(tmp_path, tls=options(authority, "disabled")) as broker,
        Producer(broker.name_server, tls=as_client(authority)) as producer,
        pytest.raises(Unavailable, match=r"expected TLS, found: .*handshake failure.*tls\.mode"),
    ):
        producer.send("letters", b"due")


def test_certificate_of_a_stranger_is_not_believed(tmp_path: Path, authority: Authority) -> None:
    other = Authority(tmp_path / "other", "stranger")

    with (
        RunningBroker(tmp_path, tls=options(authority)) as broker,
        Producer(broker.name_server, tls=as_client(other)) as producer,
        pytest.raises(Unavailable, match="expected a certificate for this host"),
    ):
        producer.send("letters", b"due")


def test_certificate_must_name_the_host_unless_a_name_is_expected(
    tmp_path: Path, authority: Authority
) -> None:
    issued = authority.issue("elsewhere", ("broker.example",))
    found = TlsOptions(
        mode="enforcing", certificate=issued.certificate, private_key=issued.private_key
    )
    named = ClientTls(ca=authority.ca, server_name="broker.example")

    with RunningBroker(tmp_path, tls=found) as broker:
        assert exchange(broker, named) == b"due"
        with (
            Producer(broker.name_server, tls=as_client(authority)) as producer,
            pytest.raises(Unavailable, match="IP address mismatch"),
        ):
            producer.send("letters", b"due")


def test_client_without_a_certificate_is_refused_where_one_is_required(
    tmp_path: Path, authority: Authority
) -> None:
    clients = Authority(tmp_path / "clients", "clients")
    required = options(authority, client_ca=clients.ca, requires_client_certificate=True)

    with RunningBroker(tmp_path, tls=required) as broker:
        assert exchange(broker, as_client(authority, clients.issue("orders"))) == b"due"
        for stranger in (as_client(authority), as_client(authority, authority.issue("guest"))):
            with (
                Producer(broker.name_server, tls=stranger, attempts_max=1) as producer,
                pytest.raises(Unavailable),
            ):
                producer.send("letters", b"due")


def test_renewed_certificate_is_taken_without_a_restart(
    tmp_path: Path, authority: Authority
) -> None:
    with RunningBroker(tmp_path, tls=options(authority)) as broker:
        context = as_client(authority).context()
        with raw_tls(broker, context) as before:
            authority.issue("broker")

            def is_renewed() -> bool:
                with raw_tls(broker, context) as after:
                    return serial(after) != serial(before)

            wait_until(is_renewed, "a connection with the new certificate")
            before.sendall(heart_beat())  # those that were there go on with theirs
            assert before.recv(4_096)


def test_certificate_without_its_key_is_not_taken(tmp_path: Path, authority: Authority) -> None:
    found = options(authority)
    with RunningBroker(tmp_path, tls=found) as broker:
        context = as_client(authority).context()
        with raw_tls(broker, context) as before:
            known = serial(before)
        key = Path(str(found.private_key)).read_bytes()
        authority.issue("broker")
        new_key = Path(str(found.private_key)).read_bytes()
        Path(str(found.private_key)).write_bytes(key)

        with raw_tls(broker, context) as still:
            assert serial(still) == known

        Path(str(found.private_key)).write_bytes(new_key)

        def is_renewed() -> bool:
            with raw_tls(broker, context) as after:
                return serial(after) != known

        wait_until(is_renewed, "the certificate, now that its key has come")


def test_requests_in_the_packet_that_ends_the_handshake_are_answered(
    tmp_path: Path, authority: Authority
) -> None:
    with RunningBroker(tmp_path, tls=options(authority)) as broker:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = (
            as_client(authority).context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        )
        host, _, port = broker.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as connection:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    connection.sendall(outgoing.read())
                    incoming.write(connection.recv(65_536))
            client.write(heart_beat())
            connection.sendall(outgoing.read())  # the end of the handshake, and a request

            answer = b""
            while not answer:
                incoming.write(connection.recv(65_536))
                try:
                    answer = client.read(4_096)
                except ssl.SSLWantReadError:
                    continue

    assert len(answer) > 4
