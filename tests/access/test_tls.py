"""Mutual TLS and users at once: a certificate beside a name, and one that is a name."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.access.people import (
    ADMIN,
    CLERK,
    WRONG,
    SigningCaller,
    SigningPeer,
    addresses,
    flight,
    guarded,
)
from tests.authority import Authority, Issued

import grpc
from dueline.broker.access import Caller as Who
from dueline.credentials import Credentials
from dueline.errors import BrokerError, Unauthenticated
from dueline.server.process import BrokerProcess
from dueline.tls import ClientTls
from dueline.wire import RequestCode as Code

NO_PERMISSION = 16
OK, UNAUTHORIZED, FORBIDDEN = 20_000, 40_100, 40_300
Mutual = tuple[BrokerProcess, Authority, Issued]


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mutual]:
    """A broker, the authority, and a client's certificate."""
    folder = tmp_path_factory.mktemp("mutual")
    authority = Authority(folder / "authority")
    with guarded(folder, **authority.demanding()) as broker:
        yield broker, authority, authority.issue("client")


def _channel(authority: Authority, issued: Issued | None) -> grpc.ChannelCredentials:
    ca = Path(authority.ca).read_bytes()
    if issued is None:
        return grpc.ssl_channel_credentials(ca)
    key, chain = (Path(path).read_bytes() for path in (issued.private_key, issued.certificate))
    return grpc.ssl_channel_credentials(ca, key, chain)


def test_5x_takes_a_certificate_and_a_secret(mutual: Mutual) -> None:
    broker, authority, issued = mutual
    endpoint = f"localhost:{addresses(broker)[2].rpartition(':')[2]}"

    for who, is_refused in ((CLERK, False), (WRONG, True), (None, True)):
        with SigningCaller(endpoint, who, _channel(authority, issued)) as caller:
            answer = caller.call("QueryRoute", topic={"name": "orders"})
            assert (answer.status.code == UNAUTHORIZED) == is_refused
    with (
        SigningCaller(endpoint, CLERK, _channel(authority, None)) as caller,
        pytest.raises(grpc.RpcError),
    ):
        caller.call("QueryRoute", topic={"name": "orders"})


def test_flight_takes_a_certificate_and_a_secret(
    mutual: Mutual, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, authority, issued = mutual
    monkeypatch.setenv("DUELINE_CA", authority.ca)
    monkeypatch.setenv("DUELINE_CERTIFICATE", issued.certificate)
    monkeypatch.setenv("DUELINE_PRIVATE_KEY", issued.private_key)

    with flight(broker, CLERK) as client:
        client.describe()
    with flight(broker, WRONG) as client, pytest.raises(Unauthenticated):
        client.describe()
    monkeypatch.delenv("DUELINE_CERTIFICATE")
    monkeypatch.delenv("DUELINE_PRIVATE_KEY")
    with flight(broker, CLERK) as client, pytest.raises(BrokerError):
        client.describe()


# Users by certificate


@pytest.fixture(scope="module")
def certified(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[BrokerProcess, Authority]]:
    """A broker that takes plain text too, and to which a certificate names a user."""
    folder = tmp_path_factory.mktemp("certified")
    authority = Authority(folder / "authority")
    own = authority.issue("broker")
    flags = {
        "tls.certificate": own.certificate,
        "tls.private_key": own.private_key,
        "tls.client_ca": authority.ca,
        "access.certificate_users": "true",
    }
    with guarded(folder, **flags) as broker:
        yield broker, authority


def _peer(
    broker: BrokerProcess, authority: Authority, shown: Issued | None, who: Credentials | None
) -> SigningPeer:
    certificate, key = (shown.certificate, shown.private_key) if shown else (None, None)
    tls = ClientTls(ca=authority.ca, certificate=certificate, private_key=key)
    return SigningPeer(addresses(broker)[0], who, tls.context())


Case = tuple[str | None, Credentials | None, str, int, str]
_CASES: list[Case] = [
    ("clerk", None, "orders", OK, ""),
    ("clerk", None, "payments", FORBIDDEN, "user clerk from 127.0.0.1: expected the right to PUB"),
    ("clerk", ADMIN, "payments", OK, ""),
    ("admin", CLERK, "payments", FORBIDDEN, "user clerk from"),
    ("clerk", WRONG, "orders", UNAUTHORIZED, "one of them does not"),
    ("nobody-here", None, "orders", UNAUTHORIZED, "found no user of that name"),
    ("Clerk", None, "orders", UNAUTHORIZED, "found no user of that name"),
    ("@pipeline", None, "orders", UNAUTHORIZED, "not beginning with @"),
    (None, None, "orders", UNAUTHORIZED, "found none; give the client its credentials"),
]
_NAMES = [f"{shown} signed {who.name if who else 'by nobody'}" for shown, who, *_ in _CASES]


@pytest.mark.parametrize("case", _CASES, ids=_NAMES)
def test_a_certificate_is_a_user_unless_the_request_says_another(
    certified: tuple[BrokerProcess, Authority], case: Case
) -> None:
    broker, authority = certified
    name, who, topic, code, words = case
    shown = authority.issue(name) if name is not None else None

    with _peer(broker, authority, shown, who) as peer:
        sent = peer.send_message(topic)
        assert (sent.code, words in (sent.remark or "")) == (0 if code == OK else 16, True)
    endpoint = f"localhost:{addresses(broker)[2].rpartition(':')[2]}"
    with SigningCaller(endpoint, who, _channel(authority, shown)) as caller:
        message = {"topic": {"name": topic}, "body": b"x", "system_properties": {"message_id": "m"}}
        answer = caller.call("SendMessage", messages=[message])
        assert (answer.status.code, words in answer.status.message) == (code, True)


def test_a_certificate_of_a_disabled_user_is_refused_on_an_open_connection(
    certified: tuple[BrokerProcess, Authority],
) -> None:
    broker, authority = certified
    users, admin = broker.broker.users, Who("admin", "127.0.0.1")

    with _peer(broker, authority, authority.issue("clerk"), None) as peer:
        assert peer.send_message("orders").code == 0
        users.update(admin, "clerk", is_enabled=False)
        try:
            refused = peer.send_message("orders")
        finally:
            users.update(admin, "clerk", is_enabled=True)
        assert refused.code == NO_PERMISSION
        assert "found that it is disabled" in (refused.remark or "")
        assert peer.call(Code.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"}).code == 0
    lines = [each for each in broker.broker.trail.recent(0) or [] if each.event == "refused"]
    assert (lines[-1].user, lines[-1].reason) == ("clerk", "disabled user")


def test_a_certificate_of_another_authority_opens_no_connection(
    certified: tuple[BrokerProcess, Authority], tmp_path: Path
) -> None:
    broker, authority = certified
    forged = Authority(tmp_path, "other").issue("admin")

    with (
        pytest.raises((ssl.SSLError, ConnectionError)),
        _peer(broker, authority, forged, None) as peer,
    ):
        peer.send_message("orders")


def test_a_certificate_is_no_user_where_nobody_has_said_so(mutual: Mutual) -> None:
    broker, authority, _ = mutual
    shown = authority.issue("clerk")

    with _peer(broker, authority, shown, None) as peer:
        assert peer.send_message("orders").code == NO_PERMISSION


def test_flight_takes_no_user_from_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow says one name of a certificate, and it is not always that of the subject."""
    authority = Authority(tmp_path / "authority")
    own, shown = authority.issue("broker"), authority.issue("admin", hosts=())
    monkeypatch.setenv("DUELINE_CA", authority.ca)
    monkeypatch.setenv("DUELINE_CERTIFICATE", shown.certificate)
    monkeypatch.setenv("DUELINE_PRIVATE_KEY", shown.private_key)
    flags = {
        "tls.mode": "enforcing",
        "tls.certificate": own.certificate,
        "tls.private_key": own.private_key,
        "tls.client_ca": authority.ca,
        "tls.require_client_certificate": "true",
        "access.certificate_users": "true",
    }

    with guarded(tmp_path, **flags) as broker:
        with flight(broker, None) as client, pytest.raises(Unauthenticated):
            client.describe()
        with flight(broker, ADMIN) as client:
            client.describe()
