"""Heartbeats, rebalancing, offsets and locks, over the wire."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.remoting import Connection
from tests.remoting.peer import Peer
from tests.remoting.serving import RunningBroker

from dueline.wire import Command, RequestCode


@pytest.fixture
def other(broker: RunningBroker) -> Iterator[Peer]:
    with Peer(broker.address) as connected:
        yield connected


def members(peer: Peer, group: str = "g") -> list[str] | None:
    answer = peer.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    return list(json.loads(answer.body)["consumerIdList"]) if answer.code == 0 else None


def test_heartbeat_makes_the_group_its_retry_topic_and_a_member(
    broker: RunningBroker, peer: Peer
) -> None:
    assert members(peer) is None

    answer = peer.heartbeat("c1", group="g", subscriptions={"orders": "*"})

    assert answer.code == 0
    assert answer.ext["IS_SUPPORT_HEART_BEAT_V2"] == "true"
    assert members(peer) == ["c1"]
    with Connection(broker.name_server) as names:
        assert names.call(RequestCode.GET_ROUTE_INFO_BY_TOPIC, {"topic": "%RETRY%g"}).code == 0


def test_every_member_is_told_of_every_change(peer: Peer, other: Peer) -> None:
    peer.heartbeat("c1", group="g")
    assert _told(peer) == "g"

    other.heartbeat("c2", group="g")
    assert (_told(peer), _told(other)) == ("g", "g")
    assert members(peer) == members(other) == ["c1", "c2"]

    other.close()
    assert _told(peer) == "g"
    assert members(peer) == ["c1"]


def test_goodbye_is_told(peer: Peer, other: Peer) -> None:
    peer.heartbeat("c1", group="g")
    other.heartbeat("c2", group="g")
    for _ in range(2):
        _told(peer)

    other.call(RequestCode.UNREGISTER_CLIENT, {"clientID": "c2", "consumerGroup": "g"})

    assert _told(peer) == "g"
    assert members(peer) == ["c1"]


def test_malformed_heartbeat_is_answered_and_the_connection_lives(peer: Peer) -> None:
    assert peer.call(RequestCode.HEART_BEAT, {}, b"{").code == 29
    assert peer.call(RequestCode.HEART_BEAT, {}, b"[]").code == 29
    assert peer.heartbeat("c1").code == 0


def _told(peer: Peer) -> str:
    request = peer.wait_request()
    assert request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert request.is_oneway
    return request.ext["consumerGroup"]


# Offsets


def offset_of(peer: Peer, **changes: str) -> Command:
    ext = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    return peer.call(RequestCode.QUERY_CONSUMER_OFFSET, ext | changes)


def test_new_group_on_a_young_queue_starts_at_its_beginning(peer: Peer) -> None:
    peer.send_message("orders")

    assert offset_of(peer).ext["offset"] == "0"
    assert offset_of(peer, setZeroIfNotFound="false").code == 22


def test_committed_offset_is_remembered_over_a_restart(tmp_path: Path) -> None:
    with RunningBroker(tmp_path) as broker, Peer(broker.address) as peer:
        peer.send_message("orders")
        ext = {"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "1"}
        peer.send(RequestCode.UPDATE_CONSUMER_OFFSET, ext, flag=2)
        assert offset_of(peer).ext["offset"] == "1"

    with RunningBroker(tmp_path) as broker, Peer(broker.address) as peer:
        assert offset_of(peer).ext["offset"] == "1"


@pytest.mark.parametrize(
    ("change", "code"), [({"topic": "nowhere"}, 17), ({"queueId": "9"}, 29), ({}, 0)]
)
def test_commit_is_checked(peer: Peer, change: dict[str, str], code: int) -> None:
    peer.send_message("orders")
    ext = {"consumerGroup": "g", "topic": "orders", "queueId": "0", "commitOffset": "1"}

    assert peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, ext | change).code == code


def test_ends_of_a_queue_and_times(broker: RunningBroker, peer: Peer) -> None:
    queue = {"topic": "orders", "queueId": "0"}
    for _ in range(3):
        peer.send_message("orders")
    stored = broker.store.query("orders", "none")
    assert stored == []
    first_ms = int(peer.call(RequestCode.GET_EARLIEST_MESSAGE_STORE_TIME, queue).ext["timestamp"])

    def search(timestamp_ms: int) -> str:
        ext = queue | {"timestamp": str(timestamp_ms)}
        return peer.call(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext).ext["offset"]

    assert peer.call(RequestCode.GET_MAX_OFFSET, queue).ext["offset"] == "3"
    assert peer.call(RequestCode.GET_MIN_OFFSET, queue).ext["offset"] == "0"
    assert search(first_ms) == "0"
    assert search(first_ms + 1_000_000) == "3"


# Locks


def lock(peer: Peer, client_id: str, code: int = RequestCode.LOCK_BATCH_MESSAGE_QUEUE) -> Command:
    queues = [{"brokerName": "dueline", "queueId": i, "topic": "orders"} for i in range(2)]
    body = {"clientId": client_id, "consumerGroup": "g", "mqSet": queues}
    return peer.call(code, {}, json.dumps(body).encode())


def test_queue_has_one_owner_at_a_time(peer: Peer, other: Peer) -> None:
    held = json.loads(lock(peer, "c1").body)["lockOKMQSet"]
    assert sorted(queue["queueId"] for queue in held) == [0, 1]
    assert json.loads(lock(other, "c2").body)["lockOKMQSet"] == []

    lock(peer, "c1", RequestCode.UNLOCK_BATCH_MESSAGE_QUEUE)

    assert len(json.loads(lock(other, "c2").body)["lockOKMQSet"]) == 2
