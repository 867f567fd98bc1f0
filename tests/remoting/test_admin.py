"""What operators' tools ask, over the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.remoting.peer import Peer, bodies_of, records_of
from tests.remoting.serving import RunningBroker
from tests.waiting import wait_until

from dueline.wire import Command, RequestCode, fastjson
from dueline.wire.admin_bodies import ConsumeStats, QueueOffsets, TopicStats


def create(peer: Peer, topic: str, **changes: str) -> Command:
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "2",
        "writeQueueNums": "2",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }
    return peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, ext | changes)


def table(answer: Command) -> dict[str, Any]:
    assert answer.code == 0, answer
    found: dict[str, Any] = json.loads(answer.body)
    return found


def test_topic_is_created_changed_and_deleted(peer: Peer) -> None:
    assert create(peer, "orders", attributes="+message.type=DELAY").code == 0
    assert create(peer, "orders", writeQueueNums="3", perm="4").code == 0
    config = table(peer.call(RequestCode.GET_TOPIC_CONFIG, {"topic": "orders"}))
    assert (config["readQueueNums"], config["writeQueueNums"], config["perm"]) == (2, 3, 4)
    assert config["attributes"] == {"message.type": "DELAY"}
    assert peer.send_message("orders").code == 16

    assert peer.call(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}).code == 0

    assert peer.call(RequestCode.GET_TOPIC_CONFIG, {"topic": "orders"}).code == 17


@pytest.mark.parametrize(
    ("topic", "changes"),
    [
        ("TBW102", {}),
        ("a b", {}),
        ("orders", {"readQueueNums": "-1"}),
        ("orders", {"readQueueNums": "9999"}),
        ("orders", {"attributes": "message.type"}),
    ],
)
def test_bad_topics_are_refused(peer: Peer, topic: str, changes: dict[str, str]) -> None:
    assert create(peer, topic, **changes).code == 29


def test_topic_and_group_statistics(peer: Peer) -> None:
    create(peer, "orders")
    for _ in range(3):
        peer.send_message("orders", queue_id=1)
    peer.pull("orders", 1, queue_id=1, group="g", commit=1)

    stats = TopicStats.decode(peer.call(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"}).body)
    progress = ConsumeStats.decode(
        peer.call(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g"}).body
    )

    spans = {
        queue.queue_id: (span.min_offset, span.max_offset)
        for queue, span in stats.offset_table.items()
    }
    assert spans == {0: (0, 0), 1: (0, 3)}
    found = {
        queue.queue_id: (each.broker_offset, each.consumer_offset)
        for queue, each in progress.offset_table.items()
    }
    assert found == {0: (0, 0), 1: (3, 1)}


def test_progress_of_all_groups(peer: Peer) -> None:
    create(peer, "orders")
    for _ in range(3):
        peer.send_message("orders")
    peer.pull("orders", 1, group="g", commit=1)

    answer = peer.call(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    found = fastjson.loads(answer.body)

    (groups,) = found["consumeStatsList"]
    (stats,) = groups["g"]
    (queue,) = [key for key in stats["offsetTable"] if json.loads(key)["queueId"] == 0]
    assert stats["offsetTable"][queue]["consumerOffset"] == 1
    assert found["totalDiff"] == 2


def test_groups_are_configured_listed_and_deleted(broker: RunningBroker, peer: Peer) -> None:
    group = {"groupName": "g", "retryMaxTimes": 3, "consumeEnable": False}
    peer.call(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP, {}, json.dumps(group).encode())
    peer.send_message("orders")
    assert peer.pull("orders", group="g").code == 16
    broker.offsets.set("g", "orders", {0: 1})
    listed = table(peer.call(RequestCode.GET_ALL_SUBSCRIPTION_GROUP_CONFIG))
    assert listed["subscriptionGroupTable"]["g"]["retryMaxTimes"] == 3

    ext = {"groupName": "g", "cleanOffset": "true"}
    peer.call(RequestCode.DELETE_SUBSCRIPTION_GROUP, ext)

    assert peer.call(RequestCode.GET_SUBSCRIPTION_GROUP_CONFIG, {"group": "g"}).code == 26
    assert broker.offsets.get("g", "orders") == {}


def test_connections_of_groups(peer: Peer) -> None:
    group = {"consumerGroup": "g"}
    assert peer.call(RequestCode.GET_CONSUMER_CONNECTION_LIST, group).code == 206
    peer.heartbeat("c1", group="g", subscriptions={"orders": "red"}, producer="p")

    consumers = table(peer.call(RequestCode.GET_CONSUMER_CONNECTION_LIST, group))
    producers = table(peer.call(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "p"}))
    who = table(peer.call(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"}))

    assert [each["clientId"] for each in consumers["connectionSet"]] == ["c1"]
    assert consumers["subscriptionTable"]["orders"]["subString"] == "red"
    assert [each["clientId"] for each in producers["connectionSet"]] == ["c1"]
    assert who == {"groupList": ["g"]}


def test_reset_moves_the_group_and_tells_its_clients(broker: RunningBroker, peer: Peer) -> None:
    create(peer, "orders")
    for _ in range(3):
        peer.send_message("orders")
    peer.heartbeat("c1", group="g", subscriptions={"orders": "*"})
    assert peer.wait_request().code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    broker.offsets.set("g", "orders", {0: 3})

    ext = {"topic": "orders", "group": "g", "timestamp": "0", "isForce": "true"}
    answer = peer.call(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, ext)

    told = peer.wait_request()
    assert told.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    for body in (answer.body, told.body):
        offsets = QueueOffsets.decode(body).offset_table
        assert {queue.queue_id: offset for queue, offset in offsets.items()} == {0: 0, 1: 0}
    assert broker.offsets.get("g", "orders") == {0: 0, 1: 0}


def test_runtime_information_has_rocketmqs_names_and_level_offsets(
    broker: RunningBroker, peer: Peer
) -> None:
    for _ in range(2):
        peer.send_message("orders", DELAY="18")
    peer.send_message("orders", b"soon", DELAY="1")
    assert bodies_of(peer.pull("orders", suspend_ms=30_000)) == [b"soon"]

    info = table(peer.call(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
    delays = table(peer.call(RequestCode.GET_ALL_DELAY_OFFSET))["offsetTable"]

    assert info["scheduleMessageOffset_18"] == "0,2"
    assert info["scheduleMessageOffset_1"] == "1,1"
    assert info["brokerVersionDesc"].startswith("Dueline")
    assert len(info["putTps"].split()) == 3
    assert all(isinstance(value, str) for value in info.values())
    assert delays == {"1": 1, "18": 0}


def test_configuration_is_shown(peer: Peer) -> None:
    text = peer.call(RequestCode.GET_BROKER_CONFIG).body.decode()

    assert "brokerName=dueline\n" in text
    assert "flushDiskType=SYNC_FLUSH\n" in text


def test_questions_are_passed_on_to_the_client(broker: RunningBroker, peer: Peer) -> None:
    with Peer(broker.address) as client:
        client.heartbeat("c1", group="g")
        assert client.wait_request().code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        ext = {"consumerGroup": "g", "clientId": "c1", "jstackEnable": "false"}
        opaque = peer.send(RequestCode.GET_CONSUMER_RUNNING_INFO, ext)

        question = client.wait_request()
        client.respond(question, b'{"properties":{}}')

        answer = peer.wait_answer(opaque)
        assert (answer.code, answer.body) == (0, b'{"properties":{}}')
        unknown = peer.call(RequestCode.GET_CONSUMER_RUNNING_INFO, ext | {"clientId": "c2"})
        assert unknown.code == 206


def test_reply_goes_to_the_client_that_waits(broker: RunningBroker, peer: Peer) -> None:
    with Peer(broker.address) as producer:
        producer.heartbeat("p1", producer="p")
        ext = {
            "a": "consumer",
            "b": "reply-topic",
            "c": "TBW102",
            "d": "4",
            "e": "0",
            "f": "0",
            "g": "5",
            "h": "0",
            "i": "REPLY_TO_CLIENT\x01p1\x02CORRELATION_ID\x017",
        }

        answer = peer.call(RequestCode.SEND_REPLY_MESSAGE_V2, ext, b"the reply")
        pushed = producer.wait_request()
        lost = peer.call(
            RequestCode.SEND_REPLY_MESSAGE_V2, ext | {"i": "REPLY_TO_CLIENT\x01gone"}, b"x"
        )

    assert answer.code == 0
    assert (pushed.code, pushed.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"the reply")
    assert "CORRELATION_ID\x017" in pushed.ext["properties"]
    assert lost.code == 1


def test_consume_queue_is_shown(peer: Peer) -> None:
    peer.send_message("orders")
    (record,) = records_of(peer.pull("orders"))
    ext = {"topic": "orders", "queueId": "0", "index": "0", "count": "10"}

    found = table(peer.call(RequestCode.QUERY_CONSUME_QUEUE, ext))

    assert [unit["physicOffset"] for unit in found["queueData"]] == [record.position]
    assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 1)


def test_stopping_broker_lets_waiting_pulls_go(broker: RunningBroker, peer: Peer) -> None:
    peer.send_message("orders")
    opaque = peer.send(RequestCode.PULL_MESSAGE, peer.pull_ext("orders", 1, suspend_ms=60_000))
    wait_until(lambda: broker.broker.meter.figures().waiting_reader_count, what="the pull to wait")

    broker.broker.refuse()

    assert peer.wait_answer(opaque).code == 19
    assert peer.send_message("orders").code == 14
