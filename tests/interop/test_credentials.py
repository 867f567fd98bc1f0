"""Official clients, unmodified, with credentials, against `dueline serve` with access control on.

The right secret sends delayed messages and receives them, through Spark, which has a token of its
own. What is refused is refused with words that reach the client's user: in the error, or in the
client's log where the client keeps them there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop import grpc_tour
from tests.interop.clients import Client
from tests.interop.guarded import (
    CLERK,
    DISMISSED,
    GUEST,
    WRITER,
    WRONG,
    Guarded,
    guarded_broker,
    shown,
)
from tests.interop.processes import Process
from tests.waiting import wait_until

from dueline.credentials import Credentials
from dueline.flight.users import AuditPage, ReadAudit

ALL = pytest.mark.soak
REMOTING = ["go", "java5", pytest.param("java49", marks=ALL)]
TOURS = ["go", *(pytest.param(name, marks=ALL) for name in ("python", "node", "java"))]
NO_PERMISSION = 16
REASONS = {
    "wrong": "one of them does not",
    "nobody": "access control is on",
    "dismissed": "expected one that is enabled",
    "guest": "expected the right to",
    "topic": "expected the right to",
    "group": "expected the right to SUB on Group:",
}
IDENTITIES: dict[str, Credentials | None] = {
    "wrong": WRONG,
    "nobody": None,
    "dismissed": DISMISSED,
    "guest": GUEST,
    "topic": CLERK,
    "group": WRITER,
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_broker(tmp_path_factory.mktemp("guarded") / "data") as running:
        running.served.wait_until_ready()
        yield running


def client_of(
    guarded: Guarded, kind: str, folder: Path, who: Credentials | None, *options: str
) -> Client:
    folder.mkdir(exist_ok=True)
    return Client(
        kind=kind,
        name_server=guarded.name_server,
        folder=folder,
        environ=shown(who),
        java_options=options,
    )


# The 4.x protocol: the hook of the client signs


@pytest.mark.parametrize("kind", REMOTING)
def test_4x_right_secret_sends_delayed_messages_and_receives_them(
    guarded: Guarded, tmp_path: Path, kind: str
) -> None:
    client, topic = client_of(guarded, kind, tmp_path, CLERK), f"mine-{kind}"
    sent = client.send(topic=topic, count=3, level=2)

    with client.start("consume", topic=topic, group=f"mine-{kind}") as consumer:
        received = consumer.wait_events("received", 3)

    assert sorted(e["id"] for e in received) == sorted(e["id"] for e in sent)
    assert all(e["at"] >= e["bornAt"] + 2_000 for e in received)


@pytest.mark.parametrize("kind", ["go", *(pytest.param(k, marks=ALL) for k in ("java5", "java49"))])
def test_4x_refused_sender_is_told_why(guarded: Guarded, tmp_path: Path, kind: str) -> None:
    for name in ("wrong", "nobody", "dismissed", "guest", "topic"):
        client = client_of(guarded, kind, tmp_path / name, IDENTITIES[name])
        topic = "theirs" if name == "topic" else "mine-refused"
        with client.start("send", topic=topic) as process:
            process.finish()
            (error,) = process.events("error")

            assert not process.events("sent"), name
            assert REASONS[name] in error["message"], name
            assert f"CODE: {NO_PERMISSION}" in error["message"], name


@pytest.mark.parametrize("kind", REMOTING)
def test_4x_consumer_in_a_group_of_others_receives_nothing(
    guarded: Guarded, tmp_path: Path, kind: str
) -> None:
    topic, group = f"mine-others-{kind}", f"theirs-{kind}"
    client = client_of(guarded, kind, tmp_path, CLERK)
    client.send(topic=topic)

    with client.start("consume", topic=topic, group=group) as consumer:
        wait_until(lambda: group in refused(guarded, CLERK.name), what="a refusal")
        assert not consumer.events("received")


def refused(guarded: Guarded, name: str) -> str:
    """What the audit trail says of a user's refused requests."""
    with guarded.served.client() as client:
        page = client.ask(ReadAudit(user=name, event="refused"), AuditPage)
    return "\n".join(str(line.to_json()) for line in page.lines)


# The 5.x protocol: the client's session credentials


@pytest.mark.parametrize("language", TOURS)
def test_5x_right_secret_sends_delayed_messages_and_receives_them(
    guarded: Guarded, tmp_path: Path, language: str
) -> None:
    with grpc_tour.start(
        language, guarded.endpoint, f"mine-{language}", tmp_path, **shown(CLERK)
    ) as tour:
        wait_received(tour, {f"delayed-{number}" for number in range(5)})

        late = [e["now_ms"] - e["due_ms"] for e in tour.events("received") if e["due_ms"]]
        assert min(late) >= 0
        tour.kill()


def wait_received(tour: Process, bodies: set[str]) -> None:
    tour.wait_events("received", len(bodies), of=lambda event: event["body"] in bodies)
    found = [e["body"] for e in tour.events("received") if e["body"] in bodies]
    assert sorted(found) == sorted(bodies)


@pytest.mark.parametrize("language", TOURS)
def test_5x_refused_client_is_told_why(guarded: Guarded, tmp_path: Path, language: str) -> None:
    for name in ("wrong", "dismissed", "guest", "topic", "group"):
        folder = tmp_path / name
        prefix = "theirs" if name == "topic" else f"mine-{language}"
        who = shown(IDENTITIES[name])
        with grpc_tour.start(language, guarded.endpoint, prefix, folder, **who) as tour:
            tour.wait_events("error")

            assert not tour.events("received"), name
            heard = said(tour, folder)
            if (language, name) == ("python", "group"):
                # Its consumer gives up without a word of what it was told; the broker has it.
                heard = refused(guarded, WRITER.name)
                assert f"Group:mine-{language}" in heard
                continue
            assert REASONS[name] in heard, name


def said(tour: Process, folder: Path) -> str:
    """What a client tells its user, and its log; Node.js has the reason in its log only."""
    logs = [path.read_text(errors="replace") for path in folder.rglob("*.log")]
    return "\n".join([tour.story(), *logs])


# Encrypted


@pytest.mark.parametrize("kind", ["java5", pytest.param("java49", marks=ALL)])
def test_4x_right_secret_over_tls(guarded: Guarded, tmp_path: Path, kind: str) -> None:
    """Java only: the Go client has no TLS in the release that we have (v2.1.2)."""
    client = client_of(guarded, kind, tmp_path, CLERK, "-Dtls.enable=true")
    topic = f"mine-tls-{kind}"
    assert len(client.send(topic=topic, count=2)) == 2

    with client.start("consume", topic=topic, group=topic) as consumer:
        consumer.wait_events("received", 2)
