"""Receiving, acknowledging, keeping longer, giving up; and what clients say about themselves."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.grpc.broker import TestBroker
from tests.grpc.calls import Caller
from tests.waiting import PATIENCE_S, wait_until

import grpc
from dueline.broker.inflight import log as receipt_log
from dueline.server.grpc.stubs import message_class

OK, NOTHING, BAD_HANDLE = 20000, 40401, 40013


class Telemetry:
    """A client's telemetry stream that stays open."""

    def __init__(self, caller: Caller, **settings: Any) -> None:
        self._commands: queue.Queue[Any] = queue.Queue()
        self._commands.put(message_class("TelemetryCommand")(settings=settings))
        self.answers = caller.telemetry(iter(self._commands.get, None))

    def first(self) -> Any:
        return next(self.answers)

    def close(self) -> None:
        self._commands.put(None)


@pytest.fixture
def push_consumer(caller: Caller) -> Iterator[Telemetry]:
    stream = Telemetry(caller, client_type=2, subscription={"group": {"name": "g"}})
    stream.first()
    yield stream
    stream.close()


def test_settings_come_back_with_the_brokers_values(caller: Caller) -> None:
    producer = Telemetry(caller, client_type=1, publishing={"topics": [{"name": "t"}]})
    consumer = Telemetry(caller, client_type=3, subscription={"group": {"name": "g"}})
    try:
        answer = producer.first()
        assert answer.status.code == OK
        assert answer.settings.publishing.max_body_size == 4 * 1024 * 1024
        assert answer.settings.backoff_policy.exponential_backoff.initial.nanos > 0
        answer = consumer.first()
        assert answer.status.code == OK
        assert answer.settings.subscription.long_polling_timeout.seconds == 20
        assert answer.settings.backoff_policy.max_attempts == 2
        assert len(answer.settings.backoff_policy.customized_backoff.next) == 18
    finally:
        producer.close()
        consumer.close()


def test_settings_of_neither_kind_are_refused(caller: Caller) -> None:
    stream = Telemetry(caller, client_type=1)

    assert stream.first().status.code == 40015
    stream.close()


def test_client_without_an_id_is_refused(broker: TestBroker, topic: str) -> None:
    with Caller(broker.endpoint, client_id=None) as nobody:
        assert nobody.receive(topic)[0] == 40017
        assert nobody.call("Heartbeat").status.code == 40017
        stream = Telemetry(nobody, client_type=1)
        assert stream.first().status.code == 40017
        stream.close()


def test_route_sends_clients_back_to_where_they_came_from(caller: Caller, topic: str) -> None:
    endpoints = {"scheme": 3, "addresses": [{"host": "broker.example", "port": 99}]}

    answer = caller.call("QueryRoute", topic={"name": topic}, endpoints=endpoints)

    assert answer.status.code == OK
    assert [each.id for each in answer.message_queues] == [0, 1, 2, 3]
    for each in answer.message_queues:
        assert each.broker.endpoints.addresses[0].host == "broker.example"
        assert sorted(each.accept_message_types) == [1, 2, 3, 4]
        assert each.permission == 4
    assigned = caller.call("QueryAssignment", topic={"name": topic}, group={"name": "g"})
    assert len(assigned.assignments) == 1


def test_acknowledged_message_is_gone(caller: Caller, topic: str) -> None:
    caller.send(topic, {})
    _, (message,) = caller.receive(topic)

    assert caller.ack(topic, message) == OK
    assert caller.ack(topic, message) == OK
    assert caller.receive(topic, group="g")[0] == NOTHING


def test_groups_receive_independently(caller: Caller, topic: str) -> None:
    caller.send(topic, {})

    assert len(caller.receive(topic, group="one")[1]) == 1
    assert len(caller.receive(topic, group="two")[1]) == 1


@pytest.mark.parametrize("handle", ["", "x", "AAAA" * 9, "é", "=" * 500])
def test_bad_receipt_is_refused(caller: Caller, topic: str, handle: str) -> None:
    assert caller.ack_handle(topic, handle) == BAD_HANDLE
    changed = caller.call(
        "ChangeInvisibleDuration",
        group={"name": "g"},
        topic={"name": topic},
        receipt_handle=handle,
        invisible_duration={"seconds": 1},
    )
    assert (changed.status.code, changed.receipt_handle) == (BAD_HANDLE, handle)


def test_mixed_acknowledgements_are_answered_one_by_one(caller: Caller, topic: str) -> None:
    caller.send(topic, {})
    _, (message,) = caller.receive(topic)

    answer = caller.call(
        "AckMessage",
        group={"name": "g"},
        topic={"name": topic},
        entries=[
            {"receipt_handle": message.system_properties.receipt_handle},
            {"receipt_handle": "bad"},
        ],
    )

    assert answer.status.code == 30000
    assert [each.status.code for each in answer.entries] == [OK, BAD_HANDLE]


def test_only_wanted_tags_are_received(caller: Caller, topic: str) -> None:
    for tag in ("a", "b", "c"):
        caller.send(topic, {"body": tag.encode(), "system": {"tag": tag}})

    found = caller.receive(topic, filter_expression={"type": 1, "expression": "a || c"})[1]

    assert sorted(message.body for message in found) == [b"a", b"c"]


def test_sql_condition_chooses_by_properties(caller: Caller, topic: str) -> None:
    for price in ("5", "15"):
        caller.send(topic, {"body": price.encode(), "user_properties": {"price": price}})

    condition = {"type": 2, "expression": "price > 10"}
    found = caller.receive(topic, filter_expression=condition)[1]

    assert [message.body for message in found] == [b"15"]
    bad = {"type": 2, "expression": "price >"}
    assert caller.receive(topic, filter_expression=bad)[0] == 40010


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"invisible_duration": {"nanos": 1}}, 40011),
        ({"invisible_duration": {"seconds": 13 * 3_600}}, 40011),
        ({"invisible_duration": {"seconds": -1}}, 40011),
        ({"long_polling_timeout": {"seconds": 3_600}}, 40018),
        ({"batch_size": 0}, 40000),
        ({"group": ""}, 40003),
        ({"group": "a b"}, 40003),
    ],
)
def test_bad_receive_is_refused(
    caller: Caller, topic: str, fields: dict[str, Any], code: int
) -> None:
    assert caller.receive(topic, **fields)[0] == code


def test_waiting_receive_is_woken_by_a_message(caller: Caller, topic: str) -> None:
    found: list[tuple[int, list[Any]]] = []
    waiting = threading.Thread(
        target=lambda: found.append(caller.receive(topic, long_polling_timeout={"seconds": 15}))
    )
    waiting.start()
    caller.send(topic, {"body": b"news"})
    waiting.join(PATIENCE_S)

    assert [message.body for message in found[0][1]] == [b"news"]


def test_waiting_receive_is_woken_when_a_message_becomes_visible(
    caller: Caller, topic: str
) -> None:
    caller.send(topic, {})
    assert len(caller.receive(topic, invisible_duration={"nanos": 300_000_000})[1]) == 1

    _, (again,) = caller.receive(topic, long_polling_timeout={"seconds": 15})

    assert again.system_properties.delivery_attempt == 2


def test_cancelled_receive_takes_nothing_with_it(caller: Caller, topic: str) -> None:
    for _ in range(10):
        call = caller.stream(
            "ReceiveMessage",
            group={"name": "g"},
            message_queue={"topic": {"name": topic}},
            batch_size=32,
            invisible_duration={"seconds": 600},
            long_polling_timeout={"seconds": 15},
        )
        call.cancel()
    caller.send(topic, {})

    _, (message,) = caller.receive(topic, long_polling_timeout={"seconds": 15})

    assert message.system_properties.delivery_attempt == 1


def test_push_consumer_that_refuses_without_a_pause_gets_one(
    broker: TestBroker, caller: Caller, topic: str, push_consumer: Telemetry
) -> None:
    caller.send(topic, {})
    _, (message,) = caller.receive(topic, auto_renew=True)
    before_ms = broker.store.clock.now_ms()

    changed = caller.call(
        "ChangeInvisibleDuration",
        group={"name": "g"},
        topic={"name": topic},
        receipt_handle=message.system_properties.receipt_handle,
        invisible_duration={"nanos": 5_000_000},
    )

    assert changed.status.code == OK
    visible_ms = broker.inflight.next_visible_ms("g", topic)
    assert visible_ms is not None
    assert visible_ms >= before_ms + 1_000


def test_messages_of_a_client_that_terminates_come_again(
    broker: TestBroker, caller: Caller, topic: str, push_consumer: Telemetry
) -> None:
    caller.send(topic, {})
    assert len(caller.receive(topic, auto_renew=True)[1]) == 1

    caller.call("NotifyClientTermination", group={"name": "g"})

    _, (again,) = caller.receive(topic, long_polling_timeout={"seconds": 15})
    assert again.system_properties.delivery_attempt == 2


def test_messages_of_a_client_that_vanishes_come_again(
    broker: TestBroker, caller: Caller, topic: str
) -> None:
    caller.send(topic, {})
    with Caller(broker.endpoint, client_id="vanishing") as other:
        Telemetry(other, client_type=2, subscription={"group": {"name": "g"}}).first()
        assert len(other.receive(topic, auto_renew=True)[1]) == 1

    _, (again,) = caller.receive(topic, long_polling_timeout={"seconds": 15})
    assert again.system_properties.delivery_attempt == 2


def test_message_goes_to_the_dead_letters_after_its_last_attempt(
    caller: Caller, topic: str
) -> None:
    caller.send(topic, {"body": b"poison", "system": {"message_id": "P1"}})
    for attempt in (1, 2):
        brief = {"nanos": 100_000_000}
        _, (message,) = caller.receive(
            topic, group=f"{topic}-g", invisible_duration=brief, long_polling_timeout={"seconds": 9}
        )
        assert message.system_properties.delivery_attempt == attempt
    caller.receive(topic, group=f"{topic}-g", long_polling_timeout={"seconds": 1})

    _, (dead,) = caller.receive(f"%DLQ%{topic}-g", long_polling_timeout={"seconds": 9})

    assert dead.body == b"poison"
    assert dead.system_properties.message_id == "P1"
    assert dead.system_properties.dead_letter_queue.topic == topic


def test_forwarded_message_goes_to_the_dead_letters(caller: Caller, topic: str) -> None:
    caller.send(topic, {"body": b"poison"})
    _, (message,) = caller.receive(topic, group=f"{topic}-g")

    answer = caller.call(
        "ForwardMessageToDeadLetterQueue",
        group={"name": f"{topic}-g"},
        topic={"name": topic},
        receipt_handle=message.system_properties.receipt_handle,
    )

    assert answer.status.code == OK
    assert len(caller.receive(f"%DLQ%{topic}-g")[1]) == 1
    assert caller.ack(topic, message, group=f"{topic}-g") == OK


def test_forwarding_that_is_not_acknowledged_is_no_refusal(
    caller: Caller, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead letter is written by then: the client must not think that it is not."""
    caller.send(topic, {"body": b"poison"})
    _, (message,) = caller.receive(topic, group=f"{topic}-g")
    with monkeypatch.context() as full:
        full.setattr(receipt_log, "GATHERED_COUNT_MAX", -1)

        answer = caller.call(
            "ForwardMessageToDeadLetterQueue",
            group={"name": f"{topic}-g"},
            topic={"name": topic},
            receipt_handle=message.system_properties.receipt_handle,
        )

    assert answer.status.code == 50001, answer.status.message
    assert "the dead letter is written" in answer.status.message
    assert len(caller.receive(f"%DLQ%{topic}-g")[1]) == 1


def test_encrypted_and_plain_clients_share_the_port(broker: TestBroker, topic: str) -> None:
    made = broker.folder / "tls" / "certificate.pem"
    credentials = grpc.ssl_channel_credentials(root_certificates=made.read_bytes())

    with Caller(broker.endpoint, credentials=credentials) as secure:
        assert secure.send(topic, {"body": b"secret"}).status.code == OK
    with Caller(broker.endpoint) as plain:
        _, (message,) = plain.receive(topic)

    assert message.body == b"secret"
    assert (broker.folder / "tls" / "key.pem").stat().st_mode & 0o077 == 0


def test_store_knows_the_clients_address(broker: TestBroker, caller: Caller, topic: str) -> None:
    caller.send(topic, {})

    _, (message,) = caller.receive(topic)

    host, _, port = message.system_properties.born_host.rpartition(":")
    listener = broker.server.listener
    assert listener is not None
    assert (host, int(port)) in {(link.peer.host, link.peer.port) for link in listener.links.all}


def test_no_call_is_left_waiting(broker: TestBroker) -> None:
    """After everything above: long polls that ended have left nothing behind."""
    wait_until(lambda: len(broker.broker.reading.watches) == 0, what="no waiting receives")
