"""Routes, as strict compact JSON, and what tools ask of a name server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.interop.remoting import Connection
from tests.remoting.peer import Peer
from tests.remoting.serving import RunningBroker

from dueline.broker import BrokerOptions
from dueline.broker.topics import TopicOptions
from dueline.wire import Command, RequestCode


@pytest.fixture
def names(broker: RunningBroker) -> Iterator[Connection]:
    with Connection(broker.name_server) as connected:
        yield connected


def route(names: Connection, topic: str) -> Command:
    return names.call(RequestCode.GET_ROUTE_INFO_BY_TOPIC, {"topic": topic})


def test_route_has_the_bytes_that_go_cuts_by_hand(broker: RunningBroker, names: Connection) -> None:
    assert route(names, "orders").code == 17

    with Peer(broker.address) as peer:
        peer.send_message("orders")
    answer = route(names, "orders")

    assert answer.code == 0
    assert f'"brokerAddrs":{{"0":"{broker.address}"}}'.encode() in answer.body
    found = json.loads(answer.body)
    assert found["queueDatas"] == [
        {
            "brokerName": "dueline",
            "perm": 6,
            "readQueueNums": 4,
            "writeQueueNums": 4,
            "topicSysFlag": 0,
        }
    ]


def test_default_topic_says_that_sends_create_topics(names: Connection) -> None:
    assert json.loads(route(names, "TBW102").body)["queueDatas"][0]["perm"] == 7


def test_operator_can_forbid_it(tmp_path: Path) -> None:
    options = BrokerOptions(topics=TopicOptions(auto_create=False))
    with (
        RunningBroker(tmp_path, rules=options) as broker,
        Connection(broker.name_server) as names,
        Peer(broker.address) as peer,
    ):
        assert route(names, "TBW102").code == 17
        assert peer.send_message("orders").code == 17


def test_cluster_and_topic_lists(broker: RunningBroker, names: Connection) -> None:
    with Peer(broker.address) as peer:
        peer.send_message("orders")

    cluster = json.loads(names.call(RequestCode.GET_BROKER_CLUSTER_INFO).body)
    topics = json.loads(names.call(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER).body)
    by_cluster = names.call(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "DefaultCluster"})
    other = names.call(RequestCode.GET_TOPICS_BY_CLUSTER, {"cluster": "other"})

    assert cluster["clusterAddrTable"] == {"DefaultCluster": ["dueline"]}
    assert cluster["brokerAddrTable"]["dueline"]["brokerAddrs"] == {"0": broker.address}
    assert "orders" in topics["topicList"]
    assert json.loads(by_cluster.body) == topics
    assert other.code == 1


def test_values_by_namespace(names: Connection) -> None:
    key = {"namespace": "n", "key": "k"}
    assert names.call(RequestCode.GET_KEY_VALUE_CONFIG, key).code == 22

    names.call(RequestCode.PUT_KEY_VALUE_CONFIG, {**key, "value": "v"})
    found = names.call(RequestCode.GET_KEY_VALUE_CONFIG, key)
    listed = names.call(RequestCode.LIST_KEY_VALUES_BY_NAMESPACE, {"namespace": "n"})
    names.call(RequestCode.DELETE_KEY_VALUE_CONFIG, key)

    assert found.ext == {"value": "v"}
    assert json.loads(listed.body) == {"table": {"k": "v"}}
    assert names.call(RequestCode.GET_KEY_VALUE_CONFIG, key).code == 22


def test_permission_to_write_can_be_taken_and_given(
    broker: RunningBroker, names: Connection
) -> None:
    with Peer(broker.address) as peer:
        peer.send_message("orders")
        name = {"brokerName": "dueline"}

        names.call(RequestCode.WIPE_WRITE_PERMISSION_OF_BROKER, name)
        assert peer.send_message("orders").code == 16
        assert peer.pull("orders").code == 0

        names.call(RequestCode.ADD_WRITE_PERMISSION_OF_BROKER, name)
        assert peer.send_message("orders").code == 0


def test_unknown_request_is_told_so(names: Connection) -> None:
    answer = names.call(4711)

    assert answer.code == 3
    assert "4711" in (answer.remark or "")
