"""Official clients, unmodified, that show a certificate of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.access.people import ADMIN, addresses, guarded
from tests.authority import Authority, Issued
from tests.interop import grpc_tour
from tests.interop.clients import Client
from tests.interop.guarded import shown

from dueline.server.process import BrokerProcess

pytestmark = pytest.mark.slow

Certified = tuple[BrokerProcess, Authority]
JAVA = ["java5", "java49"]


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Certified]:
    """A broker that lets nobody in without a certificate, and to which one names a user."""
    folder = tmp_path_factory.mktemp("certified")
    authority = Authority(folder / "authority")
    flags = {**authority.demanding(), "access.certificate_users": "true"}
    with guarded(folder, **flags) as broker:
        yield broker, authority


# The 4.x protocol: a certificate and no signature


def client_of(
    kind: str, certified: Certified, folder: Path, issued: Issued | None = None
) -> Client:
    """A client that encrypts if it can; with a certificate, it shows it."""
    broker, authority = certified
    folder.mkdir(exist_ok=True)
    options = ["-Dtls.enable=true", "-Dtls.test.mode.enable=false", "-Dtls.client.authServer=true"]
    options.append(f"-Dtls.client.trustCertPath={authority.ca}")
    if issued is not None:
        options.append(f"-Dtls.client.certPath={issued.certificate}")
        options.append(f"-Dtls.client.keyPath={issued.private_key}")
    return Client(
        kind=kind,
        name_server=addresses(broker)[1],
        folder=folder,
        java_options=tuple(options),
    )


@pytest.mark.parametrize("kind", JAVA)
def test_4x_certificate_is_the_user(certified: Certified, tmp_path: Path, kind: str) -> None:
    topic = f"orders-{kind}"
    clerk = client_of(kind, certified, tmp_path / "clerk", certified[1].issue("clerk"))
    guest = client_of(kind, certified, tmp_path / "guest", certified[1].issue("guest"))

    assert len(clerk.send(topic=topic, count=2)) == 2
    assert "user guest from 127.0.0.1: expected the right to" in refusal(guest, topic)


@pytest.mark.soak
@pytest.mark.parametrize("kind", JAVA)
def test_4x_user_by_certificate_consumes(certified: Certified, tmp_path: Path, kind: str) -> None:
    topic, group = f"orders-read-{kind}", f"readers-{kind}"
    clerk = client_of(kind, certified, tmp_path, certified[1].issue("clerk"))
    clerk.send(topic=topic, count=2)

    with clerk.start("consume", topic=topic, group=group) as consumer:
        consumer.wait_events("received", 2)


@pytest.mark.soak
@pytest.mark.parametrize("kind", JAVA)
def test_4x_certificate_of_no_user_is_refused(
    certified: Certified, tmp_path: Path, kind: str
) -> None:
    stranger = client_of(kind, certified, tmp_path, certified[1].issue("stranger"))

    assert "found no user of that name" in refusal(stranger, "orders")


@pytest.mark.parametrize("kind", ["go", *(pytest.param(k, marks=pytest.mark.soak) for k in JAVA)])
def test_4x_client_without_a_certificate_does_not_come_in(
    certified: Certified, tmp_path: Path, kind: str
) -> None:
    """The Go client cannot show one: it has no TLS in the release that we have (v2.1.2)."""
    refusal(client_of(kind, certified, tmp_path), "orders")


def refusal(client: Client, topic: str) -> str:
    """What a client says that could not send."""
    with client.start("send", topic=topic) as process:
        process.finish()
        (error,) = process.events("error")
        assert not process.events("sent")
        return str(error["message"])


# The 5.x protocol: a certificate to come in, and a signature that says who it is


def test_5x_certificate_and_signature(certified: Certified, tmp_path: Path) -> None:
    broker, authority = certified
    issued = authority.issue("go")
    mine = {"INTEROP_CERTIFICATE": issued.certificate, "INTEROP_PRIVATE_KEY": issued.private_key}
    endpoint = addresses(broker)[2]

    with grpc_tour.start("go", endpoint, "orders-go", tmp_path, **shown(ADMIN), **mine) as tour:
        bodies = {f"normal-{number}" for number in range(5)}
        tour.wait_events("received", 5, of=lambda event: event["body"] in bodies)
        tour.kill()
    with grpc_tour.start("go", endpoint, "orders-go", tmp_path, **shown(ADMIN)) as tour:
        tour.wait_events("error")
        assert not tour.events("received")
