"""SendMessage and RecallMessage: what is taken, what is refused and with which code."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from tests.grpc.broker import TestBroker
from tests.grpc.calls import Caller

from dueline.broker.topics import TopicConfig

OK = 20000
NOW_S = 1_800_000_000


def _now_ms(broker: TestBroker) -> int:
    return broker.store.clock.now_ms()


def test_sent_message_is_received_as_it_was(caller: Caller, topic: str) -> None:
    sent = caller.send(
        topic,
        {
            "body": b"\x00body\xff",
            "user_properties": {"colour": "grün", "empty": "-"},
            "system": {
                "message_id": "M1",
                "tag": "a",
                "keys": ["k1", "k2"],
                "born_host": "somewhere",
                "born_timestamp": {"seconds": NOW_S},
                "trace_context": "trace",
            },
        },
    )
    assert (sent.status.code, sent.entries[0].message_id) == (OK, "M1")
    assert sent.entries[0].recall_handle == ""

    _, (message,) = caller.receive(topic)

    system = message.system_properties
    assert (message.topic.name, message.body) == (topic, b"\x00body\xff")
    assert dict(message.user_properties) == {"colour": "grün", "empty": "-"}
    assert (system.message_id, system.tag, list(system.keys)) == ("M1", "a", ["k1", "k2"])
    assert (system.born_host, system.born_timestamp.seconds) == ("somewhere", NOW_S)
    assert (system.message_type, system.body_encoding, system.delivery_attempt) == (1, 1, 1)
    # printf '\\0body\\377' | md5sum
    assert system.body_digest.checksum == "B7102B8490A8DA9161D2149DFE88295F"
    assert system.trace_context == "trace"


def test_zipped_body_arrives_unzipped(caller: Caller, topic: str) -> None:
    body = b"again and " * 1_000

    caller.send(topic, {"body": gzip.compress(body), "system": {"body_encoding": 2}})

    _, (message,) = caller.receive(topic)
    assert message.body == body
    assert message.system_properties.body_encoding == 1


BAD: dict[str, tuple[int, dict[str, Any]]] = {
    "no body": (41302, {"body": b""}),
    "large body": (41301, {"body": b"x" * (4 * 1024 * 1024 + 1)}),
    "bomb": (41301, {"body": gzip.compress(b"\0" * (64 << 20)), "system": {"body_encoding": 2}}),
    "no gzip": (40016, {"body": b"not gzip", "system": {"body_encoding": 2}}),
    "cut gzip": (40016, {"body": gzip.compress(b"x" * 99)[:-9], "system": {"body_encoding": 2}}),
    "no id": (40009, {"system": {"message_id": ""}}),
    "id with space": (40009, {"system": {"message_id": "a b"}}),
    "tag with bar": (40004, {"system": {"tag": "a|b"}}),
    "blank tag": (40004, {"system": {"tag": " "}}),
    "key with control": (40005, {"system": {"keys": ["a\x01b"]}}),
    "blank key": (40005, {"system": {"keys": [" "]}}),
    "blank group": (40006, {"system": {"message_group": " "}}),
    "long group": (40006, {"system": {"message_group": "g" * 65}}),
    "reserved property": (40007, {"user_properties": {"KEYS": "x"}}),
    "delay as property": (40007, {"user_properties": {"DELAY": "3"}}),
    "control in property": (40007, {"user_properties": {"a": "\x02"}}),
    "many properties": (43101, {"user_properties": {str(n): "x" for n in range(129)}}),
    "large properties": (43101, {"user_properties": {"a": "x" * 20_000}}),
    "unknown type": (50100, {"system": {"message_type": 5}}),
    "too far": (40012, {"system": {"delivery_timestamp": {"seconds": 253_402_300_000}}}),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_message_is_refused_with_its_code(caller: Caller, topic: str, name: str) -> None:
    code, message = BAD[name]

    answer = caller.send(topic, message)

    assert answer.status.code == code, answer
    assert answer.status.message or answer.entries[0].status.message
    assert caller.receive(topic)[1] == []


@pytest.mark.parametrize("name", ["", "a b", "ü", "x" * 128, "RMQ_SYS_TRANS_HALF_TOPIC"])
def test_bad_topic_is_refused(caller: Caller, name: str) -> None:
    assert caller.send(name, {}).status.code == 40002
    assert caller.call("QueryRoute", topic={"name": name}).status.code == 40002


def test_messages_of_two_topics_are_refused(caller: Caller) -> None:
    messages = [
        {"topic": {"name": name}, "body": b"x", "system_properties": {"message_id": "i"}}
        for name in ("one", "two")
    ]

    assert caller.call("SendMessage", messages=messages).status.code == 40000
    assert caller.call("SendMessage").status.code == 40000


def test_each_message_of_a_request_is_answered(caller: Caller, topic: str) -> None:
    far = {"system": {"message_id": "far", "delivery_timestamp": {"seconds": 253_402_300_000}}}

    answer = caller.send(topic, {"system": {"message_id": "good"}}, far)

    assert answer.status.code == 30000
    assert [(each.message_id, each.status.code) for each in answer.entries] == [
        ("good", OK),
        ("far", 40012),
    ]


def test_time_in_the_past_means_at_once(caller: Caller, topic: str) -> None:
    for seconds in (-62_135_596_800, 0, 1):
        system = {"message_type": 3, "delivery_timestamp": {"seconds": seconds}}
        assert caller.send(topic, {"system": system}).status.code == OK

    assert len(caller.receive(topic)[1]) == 3


def test_years_ahead_are_accepted_and_wait(broker: TestBroker, caller: Caller, topic: str) -> None:
    years_s = _now_ms(broker) // 1_000 + 9 * 365 * 86_400
    system = {"message_id": topic, "message_type": 3, "delivery_timestamp": {"seconds": years_s}}

    entry = caller.send(topic, {"system": system}).entries[0]

    (found,) = broker.store.find_delayed(topic)
    assert (entry.status.code, found.due_ms) == (OK, years_s * 1_000)


def test_delayed_message_comes_on_time(broker: TestBroker, caller: Caller, topic: str) -> None:
    due_ms = _now_ms(broker) + 700
    at = {"seconds": due_ms // 1_000, "nanos": due_ms % 1_000 * 1_000_000}
    caller.send(topic, {"system": {"message_type": 3, "delivery_timestamp": at}})

    assert caller.receive(topic)[1] == []
    _, (message,) = caller.receive(topic, long_polling_timeout={"seconds": 10})

    assert _now_ms(broker) >= due_ms
    assert message.system_properties.delivery_timestamp.ToMilliseconds() == due_ms
    assert message.system_properties.message_type == 3


def test_recall_has_a_definite_answer(broker: TestBroker, caller: Caller, topic: str) -> None:
    def delayed(message_id: str, delay_ms: int) -> str:
        due_ms = _now_ms(broker) + delay_ms
        at = {"seconds": due_ms // 1_000, "nanos": due_ms % 1_000 * 1_000_000}
        system = {"message_id": message_id, "message_type": 3, "delivery_timestamp": at}
        return str(caller.send(topic, {"system": system}).entries[0].recall_handle)

    def recall(handle: str) -> Any:
        return caller.call("RecallMessage", topic={"name": topic}, recall_handle=handle)

    early = delayed(f"{topic}-early", 60_000)
    soon = delayed(f"{topic}-soon", 300)
    _, (message,) = caller.receive(topic, long_polling_timeout={"seconds": 10})
    assert message.system_properties.message_id == f"{topic}-soon"

    done = recall(early)
    assert (done.status.code, done.message_id) == (OK, f"{topic}-early")
    assert recall(early).status.code == OK  # asked again: it is so
    assert recall(soon).status.code == 42800
    unknown = early.encode()
    assert recall("!" + early).status.code == 40000
    assert recall(unknown.decode()[:-8]).status.code in (40000, 40401)
    other = caller.call("RecallMessage", topic={"name": "other"}, recall_handle=early)
    assert other.status.code == 40000


def test_topic_with_a_type_takes_no_other(broker: TestBroker, caller: Caller, topic: str) -> None:
    config = TopicConfig(
        topic_name=topic,
        read_queue_nums=1,
        write_queue_nums=1,
        attributes={"message.type": "DELAY"},
    )
    broker.broker.topics.put(config)

    assert caller.send(topic, {}).status.code == 40014
    (queue,) = caller.call("QueryRoute", topic={"name": topic}).message_queues
    assert list(queue.accept_message_types) == [3]


def test_message_group_stays_in_one_queue(caller: Caller, topic: str) -> None:
    for number in range(20):
        group = "ab"[number % 2]
        caller.send(topic, {"body": group.encode(), "system": {"message_group": group}})

    queues: dict[bytes, set[int]] = {b"a": set(), b"b": set()}
    for _ in range(10):
        for message in caller.receive(topic)[1]:
            queues[message.body].add(message.system_properties.queue_id)
            caller.ack(topic, message)
    assert all(len(found) == 1 for found in queues.values())
