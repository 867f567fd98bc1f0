"""Dueline's own clients show who they are by the environment."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.access.people import ADMIN, CLERK, WRONG, addresses, guarded
from tests.waiting import PATIENCE_S

from dueline import cli
from dueline.client import Consumer, Producer, Reader, SimpleConsumer
from dueline.credentials import Credentials
from dueline.errors import BrokerError
from dueline.server.process import BrokerProcess


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    folder: Path = tmp_path_factory.mktemp("clients")
    with guarded(folder) as broker:
        yield broker


@pytest.fixture
def as_user(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("DUELINE_BROKER", broker.address)
    monkeypatch.setenv("DUELINE_NAME_SERVER", addresses(broker)[1])
    return monkeypatch


def _send(broker: BrokerProcess, topic: str) -> None:
    with Producer(addresses(broker)[1]) as producer:
        producer.send(topic, b"body")


def test_the_python_client_signs(broker: BrokerProcess, as_user: pytest.MonkeyPatch) -> None:
    as_user.setenv("DUELINE_TOKEN", CLERK.token)
    _send(broker, "orders")
    with pytest.raises(BrokerError, match="expected the right to"):
        _send(broker, "payments")
    as_user.setenv("DUELINE_TOKEN", WRONG.token)
    with pytest.raises(BrokerError, match="one of them does not"):
        _send(broker, "orders")
    as_user.delenv("DUELINE_TOKEN")
    with pytest.raises(BrokerError, match="access control is on"):
        _send(broker, "orders")


def test_credentials_that_are_given_count_before_those_of_the_environment(
    broker: BrokerProcess, as_user: pytest.MonkeyPatch
) -> None:
    as_user.setenv("DUELINE_TOKEN", WRONG.token)
    names, topic = addresses(broker)[1], "orders-given"

    with Producer(names, credentials=CLERK) as producer:
        producer.send(topic, b"body")
    with Reader(names, topic, group="readers", credentials=CLERK) as reader:
        assert next(iter(reader)).body == b"body"
    with SimpleConsumer(names, topic, "readers", credentials=CLERK) as simple:
        (taken,) = simple.receive(1, timeout_s=PATIENCE_S)
        simple.ack(taken)
    bodies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    with Consumer(
        names, topic, "readers-too", lambda each: bodies.put(each.body), credentials=CLERK
    ):
        assert bodies.get(timeout=PATIENCE_S) == b"body"
    with pytest.raises(BrokerError, match="one of them does not"):
        _send(broker, topic)


@pytest.mark.parametrize(
    ("words", "who", "code"),
    [
        (("stats",), ADMIN, 0),
        (("stats",), CLERK, 2),
        (("stats",), None, 2),
        (("topics",), ADMIN, 0),
        (("topics",), WRONG, 2),
        (("send", "orders", "x"), CLERK, 0),
        (("user",), ADMIN, 0),
        (("user", "add", "mine", "--super"), CLERK, 2),
        (("audit",), ADMIN, 0),
        (("audit",), CLERK, 2),
    ],
)
def test_commands_are_somebody(
    as_user: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    who: Credentials | None,
    code: int,
) -> None:
    if who is not None:
        as_user.setenv("DUELINE_TOKEN", who.token)

    assert cli.main(words) == code, capsys.readouterr().err
    if code:
        assert "expected" in capsys.readouterr().err
