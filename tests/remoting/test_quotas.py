"""Quotas over the 4.x protocol: slow down, and to whom it is said."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.remoting.serving import RunningBroker
from tests.waiting import wait_until

from dueline.broker.quotas import Quotas, parse_rules
from dueline.client import Producer
from dueline.errors import LimitExceeded
from dueline.wire import Command, FrameDecoder, RequestCode, ResponseCode


def broker_with(folder: Path, **rules: str) -> RunningBroker:
    found = {name.replace("_", ":", 1): text for name, text in rules.items()}
    return RunningBroker(folder, quotas=Quotas(parse_rules(found)))


def test_greedy_topic_is_told_to_slow_down_and_the_other_is_not(tmp_path: Path) -> None:
    with (
        broker_with(tmp_path, topic_greedy="sends:20") as broker,
        Producer(broker.name_server, attempts_max=1) as producer,
    ):
        refusals = []
        for number in range(200):
            try:
                producer.send("greedy", b"x")
            except LimitExceeded as error:
                refusals.append(error)
            producer.send("modest", str(number).encode())

        assert refusals
        assert {each.details["code"] for each in refusals} == {ResponseCode.SYSTEM_BUSY}
        assert "20 messages a second" in refusals[0].message
        assert broker.broker.quotas.limited() == {"topic greedy": len(refusals)}


def test_delayed_messages_that_wait_are_bounded_by_topic(tmp_path: Path) -> None:
    with (
        broker_with(tmp_path, topic_later="pending:3") as broker,
        Producer(broker.name_server, attempts_max=1) as producer,
    ):
        for _ in range(3):
            producer.send("later", b"x", delay="1h")
        with pytest.raises(LimitExceeded, match="3 delayed messages that wait"):
            producer.send("later", b"x", delay="1h")
        producer.send("later", b"x")


def test_topics_that_sends_create_are_bounded(tmp_path: Path) -> None:
    with (
        broker_with(tmp_path, **{"address_*": "topics:2"}) as broker,
        Producer(broker.name_server, attempts_max=1) as producer,
    ):
        for name in ("a", "b", "a"):
            producer.send(name, b"x")
        with pytest.raises(LimitExceeded, match="2 new topics an hour"):
            producer.send("c", b"x")

        assert broker.broker.topics.get("c") is None


def test_polls_of_an_address_are_bounded(tmp_path: Path) -> None:
    with broker_with(tmp_path, **{"address_127.0.0.2": "polls:1"}) as broker:
        with Producer(broker.name_server) as producer:
            producer.send("letters", b"x", queue_id=0)

        assert answered_code(broker, "127.0.0.2", count=2) == ResponseCode.SYSTEM_BUSY
        assert "address 127.0.0.2" in broker.broker.quotas.limited()


def answered_code(broker: RunningBroker, source: str, *, count: int) -> int:
    """The first answer to so many pulls that wait for a minute, all from one address."""
    host, _, port = broker.address.partition(":")
    ext = {
        "consumerGroup": "readers",
        "topic": "letters",
        "queueId": "0",
        "queueOffset": "1",
        "maxMsgNums": "1",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": "60000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    with socket.create_connection((host, int(port)), 60, source_address=(source, 0)) as one:
        for opaque in range(count):
            one.sendall(Command(code=RequestCode.PULL_MESSAGE, opaque=opaque, ext=ext).encode())
        decoder = FrameDecoder()
        answers: list[Command] = []

        def has_answer() -> bool:
            answers.extend(map(Command.decode, decoder.feed(one.recv(65_536))))
            return bool(answers)

        wait_until(has_answer, "an answer")
    return answers[0].code
