"""Operators' commands against a running broker: what a consumer could not handle comes again."""

from __future__ import annotations

import json
import queue
from pathlib import Path
from typing import Any

import pytest
from tests.remoting.serving import RunningBroker
from tests.waiting import PATIENCE_S, wait_until

from dueline import cli
from dueline.broker import BrokerOptions
from dueline.broker.retries import RetryOptions
from dueline.client import Consumer, Producer, Received, SimpleConsumer, Taken


class Operator:
    """Runs commands and reads their JSON."""

    def __init__(self, broker: RunningBroker, capsys: pytest.CaptureFixture[str]) -> None:
        self._broker = broker
        self._capsys = capsys

    def __call__(self, *words: str) -> list[dict[str, Any]]:
        self._capsys.readouterr()
        found = cli.main([*words, "--json", "--name-server", self._broker.name_server])
        captured = self._capsys.readouterr()
        assert (found, captured.err) == (0, "")
        return [json.loads(line) for line in captured.out.splitlines()]

    def dead_letter(self) -> dict[str, Any]:
        table = self._broker.broker.group_table
        wait_until(lambda: table.get("billing"), "the group")
        (letter,) = wait_until(lambda: self("dead-letters", "billing"), "a dead letter")
        return letter


def test_a_dead_letter_is_resent_to_its_group_as_what_it_was(
    broker: RunningBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = Operator(broker, capsys)

    def fail(message: Received) -> None:
        raise RuntimeError("no")

    with Producer(broker.name_server) as producer:
        sent = producer.send("orders", b"17", keys="order-17")
    with Consumer(broker.name_server, "orders", "billing", fail, attempts_max=0):
        letter = operator.dead_letter()
    assert (letter["id"], letter["body"], letter["topic"]) == (sent.id, "17", "orders")
    (resent,) = operator("dead-letters", "billing", "--resend", "order-17")
    assert resent["id"] == sent.id

    came: queue.Queue[Received] = queue.Queue()
    other: queue.Queue[Received] = queue.Queue()
    with (
        Consumer(broker.name_server, "orders", "billing", came.put),
        Consumer(broker.name_server, "orders", "audit", other.put),
    ):
        message = came.get(timeout=PATIENCE_S)
        other.get(timeout=PATIENCE_S)
        (group,) = operator("groups", "--group", "billing")
    assert (message.topic, message.body, message.id) == ("orders", b"17", sent.id)
    assert (came.qsize(), other.qsize()) == (0, 0)
    assert len(group["clients"]) == 1


def test_a_dead_letter_is_sent_to_its_topic_anew_for_consumers_that_read_no_retries(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = BrokerOptions(retries=RetryOptions(attempt_count_max=1))
    with RunningBroker(tmp_path, rules=rules) as broker:
        operator = Operator(broker, capsys)
        with Producer(broker.name_server) as producer:
            sent = producer.send("orders", b"17", keys="order-17", properties={"colour": "red"})
        with SimpleConsumer(broker.name_server, "orders", "billing") as consumer:

            def take() -> list[Taken]:
                return consumer.receive(timeout_s=1)

            (taken,) = wait_until(take, "the message")
            consumer.release(taken)
            # Who asks for it next finds out that it was tried often enough.
            assert consumer.receive_now() == []
            assert operator.dead_letter()["id"] == sent.id
            operator("dead-letters", "billing", "--resend-all", "--to-topic")
            (again,) = wait_until(take, "the message again")
            consumer.ack(again)

    assert (again.message.topic, again.message.body) == ("orders", b"17")
    assert (again.message.keys, again.message.attempt) == (("order-17",), 0)
    assert again.message.properties["colour"] == "red"
