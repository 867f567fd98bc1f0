"""The name server: routes to this broker, topics, and a few values for the tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.remoting.world import Client, RemotingWorld, body_of, remoting_world

from dueline.broker import BrokerOptions
from dueline.server.remoting import namesrv as module
from dueline.server.remoting.context import Addresses
from dueline.server.remoting.namesrv import NameServer
from dueline.wire import RequestCode

TOPIC_NOT_EXIST = 17
NOT_FOUND = 22
NAMES = BrokerOptions(broker_name="shard-1", cluster_name="house")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path, NAMES) as world:
        world.serve(NameServer(world.context, world.hub).table())
        yield world


@pytest.fixture
def client(world: RemotingWorld) -> Client:
    return world.client()


def test_a_route_leads_to_this_broker(world: RemotingWorld, client: Client) -> None:
    world.broker.topics.ensure("t", queue_count=3)

    route = body_of(client.ask(RequestCode.GET_ROUTE_INFO_BY_TOPIC, {"topic": "t"}))

    (queues,), (broker,) = route["queueDatas"], route["brokerDatas"]
    assert (queues["readQueueNums"], queues["writeQueueNums"], queues["perm"]) == (3, 3, 6)
    assert (broker["brokerName"], broker["cluster"]) == ("shard-1", "house")
    assert broker["brokerAddrs"] == {"0": "10.0.0.7:10911"}


def test_no_route_is_told_with_its_own_code(world: RemotingWorld, client: Client) -> None:
    answer = client.ask(RequestCode.GET_ROUTE_INFO_BY_TOPIC, {"topic": "nowhere"})

    assert answer.code == TOPIC_NOT_EXIST
    assert world.broker.topics.get("nowhere") is None
    assert client.ask(RequestCode.GET_ROUTE_INFO_BY_TOPIC, {"topic": "TBW102"}).code == 0


def test_a_broker_that_listens_everywhere_is_where_it_was_found(
    world: RemotingWorld, client: Client
) -> None:
    for host in ("0.0.0.0", "::"):
        world.context.addresses = Addresses(host=host, port=7)
        cluster = body_of(client.ask(RequestCode.GET_BROKER_CLUSTER_INFO))
        address = cluster["brokerAddrTable"]["shard-1"]["brokerAddrs"]["0"]
        assert address == "127.0.0.1:7"
        assert cluster["clusterAddrTable"] == {"house": ["shard-1"]}


def test_topics_are_listed(world: RemotingWorld, client: Client) -> None:
    world.broker.topics.ensure("t", queue_count=3)
    by_cluster = RequestCode.GET_TOPICS_BY_CLUSTER

    listed = body_of(client.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAME_SERVER))["topicList"]
    assert "t" in listed
    assert body_of(client.ask(by_cluster, {"cluster": "house"}))["topicList"] == listed
    assert client.ask(by_cluster, {"cluster": "other"}).code != 0
    system = body_of(client.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NAME_SERVER))
    assert {"house", "shard-1", "TBW102"} <= set(system["topicList"])
    assert system["brokerAddr"] == "10.0.0.7:10911"


def test_a_topic_is_deleted_for_good(world: RemotingWorld, client: Client) -> None:
    world.broker.topics.ensure("t", queue_count=3)
    for _ in range(2):
        assert client.ask(RequestCode.DELETE_TOPIC_IN_NAME_SERVER, {"topic": "t"}).code == 0

    assert world.broker.topics.get("t") is None
    assert world.broker.topics.is_saved


def test_writing_is_stopped_and_allowed_for_this_broker_only(
    world: RemotingWorld, client: Client
) -> None:
    world.broker.topics.ensure("t", queue_count=3)
    wipe = RequestCode.WIPE_WRITE_PERMISSION_OF_BROKER
    assert client.ask(wipe, {"brokerName": "other"}).ext["wipeTopicCount"] == "0"

    def permission() -> int:
        config = world.broker.topics.get("t")
        assert config is not None
        return int(config.perm)

    assert permission() == 6
    assert int(client.ask(wipe, {"brokerName": "shard-1"}).ext["wipeTopicCount"]) > 0
    assert permission() == 4
    add = client.ask(RequestCode.ADD_WRITE_PERMISSION_OF_BROKER, {"brokerName": "shard-1"})
    assert int(add.ext["addTopicCount"]) > 0
    assert permission() == 6


def value(client: Client, code: int, key: str = "k", **ext: str) -> tuple[int, str | None]:
    answer = client.ask(code, {"namespace": "n", "key": key, **ext})
    return answer.code, answer.ext.get("value")


def test_values_are_put_found_listed_and_deleted(client: Client) -> None:
    put, get = RequestCode.PUT_KEY_VALUE_CONFIG, RequestCode.GET_KEY_VALUE_CONFIG
    assert value(client, get)[0] == NOT_FOUND
    value(client, put, value="1")
    value(client, put, value="2")

    assert value(client, get) == (0, "2")
    listed = client.ask(RequestCode.LIST_KEY_VALUES_BY_NAMESPACE, {"namespace": "n"})
    assert body_of(listed)["table"] == {"k": "2"}
    other = client.ask(RequestCode.LIST_KEY_VALUES_BY_NAMESPACE, {"namespace": "m"})
    assert other.code == NOT_FOUND
    value(client, RequestCode.DELETE_KEY_VALUE_CONFIG)
    assert value(client, get)[0] == NOT_FOUND


def test_an_order_of_queues_is_part_of_the_route(world: RemotingWorld, client: Client) -> None:
    world.broker.topics.ensure("t", queue_count=3)
    place = {"namespace": "ORDER_TOPIC_CONFIG", "key": "t", "value": "shard-1:3"}
    client.ask(RequestCode.PUT_KEY_VALUE_CONFIG, place)

    route = body_of(client.ask(RequestCode.GET_ROUTE_INFO_BY_TOPIC, {"topic": "t"}))

    assert route["orderTopicConf"] == "shard-1:3"


def test_values_are_bounded_and_what_is_replaced_or_deleted_counts_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "VALUES_SIZE_BYTES_MAX", 2_000)
    with remoting_world(tmp_path) as world:
        names = NameServer(world.context, world.hub)
        world.serve(names.table())
        client = world.client()
        put = RequestCode.PUT_KEY_VALUE_CONFIG
        for _ in range(10):
            assert value(client, put, value="x" * 1_000)[0] == 0
        assert value(client, put, key="other", value="x" * 1_000)[0] != 0
        value(client, RequestCode.DELETE_KEY_VALUE_CONFIG)
        assert names.budget.size_bytes == 0
        assert value(client, put, key="other", value="x" * 1_000)[0] == 0
