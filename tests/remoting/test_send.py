"""Sends: what is accepted, where it goes, and how refusals are told."""

from __future__ import annotations

import json

import pytest
from tests.interop.remoting import Connection
from tests.remoting.peer import Peer, bodies_of, properties_of, records_of
from tests.remoting.serving import RunningBroker

from dueline.message import encode_properties
from dueline.wire import RequestCode, Serialization
from dueline.wire.batch import BatchMessage, encode_batch


def test_send_creates_the_topic_and_says_where_the_message_is(
    broker: RunningBroker, peer: Peer
) -> None:
    first = peer.send_message("orders", b"one", TAGS="a", UNIQ_KEY="U1")
    second = peer.send_message("orders", b"two")

    assert (first.code, second.code) == (0, 0)
    assert first.ext["queueId"] == "0"
    assert (first.ext["queueOffset"], second.ext["queueOffset"]) == ("0", "1")
    assert first.ext["transactionId"] == "U1"
    assert len(first.ext["msgId"]) == 32
    (one, _) = records_of(peer.pull("orders"))
    assert (one.body, one.topic) == (b"one", b"orders")
    assert properties_of(one) == {"TAGS": "a", "UNIQ_KEY": "U1"}
    assert broker.broker.topics.find("orders").write_queue_nums == 4


def test_created_topic_is_on_disk_before_the_answer(broker: RunningBroker, peer: Peer) -> None:
    peer.send_message("orders")

    written = json.loads((broker.store.path / "config" / "topics.json").read_bytes())

    assert "orders" in written["topicConfigTable"]


@pytest.mark.parametrize("serialization", list(Serialization))
def test_long_names_and_both_serializations(
    broker: RunningBroker, serialization: Serialization
) -> None:
    ext = {
        "producerGroup": "p",
        "topic": "orders",
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "2",
        "sysFlag": "0",
        "bornTimestamp": "5",
        "flag": "3",
        "properties": "KEYS\x01k\x02",
    }
    with Connection(broker.address, serialization=serialization) as connection:
        answer = connection.call(RequestCode.SEND_MESSAGE, ext, b"hello")

    assert answer.code == 0
    assert answer.serialization is serialization
    assert answer.ext["queueId"] == "2"


@pytest.mark.parametrize(
    ("topic", "queue_id", "properties", "code"),
    [
        ("bad topic", 0, {}, 29),
        ("", 0, {}, 29),
        ("SCHEDULE_TOPIC_XXXX", 0, {}, 16),
        ("RMQ_SYS_TRANS_HALF_TOPIC", 0, {}, 16),
        ("orders", 4, {}, 29),
        ("%RETRY%nobody", 0, {}, 26),
        ("orders", 0, {"DELAY": "soon"}, 13),
        ("orders", 0, {"TIMER_DELAY_SEC": str(100 * 366 * 86_400)}, 13),
    ],
)
def test_refusals_have_rocketmqs_codes_and_a_reason(
    peer: Peer, topic: str, queue_id: int, properties: dict[str, str], code: int
) -> None:
    answer = peer.send_message(topic, queue_id=queue_id, names=properties)

    assert answer.code == code
    assert answer.remark


def test_body_over_the_limit_is_refused(peer: Peer) -> None:
    answer = peer.send_message("orders", bytes(4 * 1024 * 1024 + 1))

    assert answer.code == 13
    assert "4194304" in (answer.remark or "")


def test_negative_queue_means_any(peer: Peer) -> None:
    answer = peer.send_message("orders", queue_id=-1)

    assert answer.code == 0
    assert 0 <= int(answer.ext["queueId"]) < 4


def test_oneway_is_stored_and_not_answered(peer: Peer) -> None:
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}
    oneway = peer.send(RequestCode.SEND_MESSAGE_V2, ext, b"oneway", flag=2)

    answer = peer.pull("orders-not", suspend_ms=0)  # answered later than the oneway would be
    found = peer.send_message("orders", b"after")

    assert answer.opaque > oneway
    assert found.ext["queueOffset"] == "1"
    assert bodies_of(peer.pull("orders")) == [b"oneway", b"after"]


def test_batch_is_stored_message_by_message(peer: Peer) -> None:
    batch = encode_batch(
        BatchMessage(body=b"%d" % i, properties=encode_properties({"TAGS": f"t{i}"}))
        for i in range(3)
    )
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "5", "h": "0"}

    answer = peer.call(RequestCode.SEND_BATCH_MESSAGE, {**ext, "m": "true"}, batch)

    assert answer.code == 0
    assert len(set(answer.ext["msgId"].split(","))) == 3
    found = records_of(peer.pull("orders", queue_id=1))
    assert [record.body for record in found] == [b"0", b"1", b"2"]
    assert [properties_of(record)["TAGS"] for record in found] == ["t0", "t1", "t2"]


@pytest.mark.parametrize(
    "change", [{"f": "4"}, {"i": "DELAY\x013"}, {"b": "%RETRY%g"}], ids=["half", "delay", "retry"]
)
def test_batch_that_rocketmq_refuses_is_refused(peer: Peer, change: dict[str, str]) -> None:
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}

    answer = peer.call(
        RequestCode.SEND_BATCH_MESSAGE, ext | change, encode_batch([BatchMessage(body=b"x")])
    )

    assert answer.code == 13


def test_torn_batch_is_refused_and_nothing_is_stored(peer: Peer) -> None:
    peer.send_message("orders", b"first")
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}
    batch = encode_batch([BatchMessage(body=b"one"), BatchMessage(body=b"two")])

    answer = peer.call(RequestCode.SEND_BATCH_MESSAGE, ext, batch[:-1])

    assert answer.code == 29
    assert bodies_of(peer.pull("orders")) == [b"first"]


@pytest.mark.parametrize(
    "bad", [{"TIMER_DELAY_MS": "9" * 15}, {"DELAY": "x"}, {"LONG": "x" * 32_750}]
)
def test_batch_with_one_message_that_cannot_be_stored_is_stored_not_at_all(
    peer: Peer, bad: dict[str, str]
) -> None:
    ext = {"a": "p", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "5", "h": "0"}
    batch = encode_batch(
        BatchMessage(body=body, properties=encode_properties(properties))
        for body, properties in ((b"good", {}), (b"bad", bad), (b"late", {"DELAY": "18"}))
    )

    answer = peer.call(RequestCode.SEND_BATCH_MESSAGE, ext, batch)
    peer.send_message("orders", b"after")

    assert answer.code != 0
    assert bodies_of(peer.pull("orders")) == [b"after"]


def test_client_cannot_say_what_only_the_broker_knows(peer: Peer) -> None:
    peer.send_message(
        "orders", UNIQ_KEY="u", REAL_TOPIC="other", REAL_QID="7", TIMER_OUT_MS="1", WAIT="true"
    )

    (record,) = records_of(peer.pull("orders"))

    assert properties_of(record) == {"UNIQ_KEY": "u"}


def test_retry_send_too_often_is_a_dead_letter(peer: Peer) -> None:
    peer.heartbeat("c", group="g", subscriptions={"orders": "*"})

    answer = peer.send_message("%RETRY%g", b"bad", attempts=17, DELAY="9", RETRY_TOPIC="orders")

    assert answer.code == 0
    (record,) = records_of(peer.pull("%DLQ%g"))
    assert record.body == b"bad"
    assert "DELAY" not in properties_of(record)
