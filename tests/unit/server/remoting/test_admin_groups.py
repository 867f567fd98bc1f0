"""Groups for the tools: configured, shown with how far they are, sent elsewhere, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.reading_world import START_MS
from tests.unit.server.remoting.world import Client, RemotingWorld, body_of, remoting_world

from dueline.server.remoting.admin_groups import GroupAdmin
from dueline.server.remoting.group import GroupMembers
from dueline.wire import RequestCode

NOT_ONLINE = 206
GROUP_NOT_EXIST = 26


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    """Four messages, one a second, of which the group `g` has read one."""
    with remoting_world(tmp_path) as world:
        world.serve(GroupMembers(world.context, world.hub).table())
        world.serve(GroupAdmin(world.context, world.hub).table())
        for body in (b"a", b"b", b"c", b"d"):
            world.send(body)
            world.clock.advance(1_000)
        world.broker.progress.commit("g", "t", 0, 1)
        yield world


@pytest.fixture
def client(world: RemotingWorld) -> Client:
    return world.client()


def join(client: Client) -> None:
    consumer = {"groupName": "g", "subscriptionDataSet": [{"topic": "t", "subString": "a"}]}
    beat = {
        "clientID": "one",
        "consumerDataSet": [consumer],
        "producerDataSet": [{"groupName": "p"}],
    }
    assert client.ask(RequestCode.HEART_BEAT, body=beat).code == 0
    client.news()


def test_a_group_is_configured_and_shown(client: Client) -> None:
    update = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTION_GROUP
    get = RequestCode.GET_SUBSCRIPTION_GROUP_CONFIG
    assert client.ask(update, body={"groupName": "new", "retryMaxTimes": 3}).code == 0

    found = body_of(client.ask(get, {"group": "new"}))
    assert (found["groupName"], found["retryMaxTimes"]) == ("new", 3)
    assert client.ask(get, {"group": "nobody"}).code == GROUP_NOT_EXIST
    table = body_of(client.ask(RequestCode.GET_ALL_SUBSCRIPTION_GROUP_CONFIG))
    assert {"new", "g"} <= table["subscriptionGroupTable"].keys()


@pytest.mark.parametrize(("flag", "left"), [(True, {}), (False, {0: 1})])
def test_a_deleted_group_keeps_its_offsets_unless_it_is_told(
    world: RemotingWorld, client: Client, flag: bool, left: dict[int, int]
) -> None:
    delete = {"groupName": "g", "removeOffset": flag}
    assert client.ask(RequestCode.DELETE_SUBSCRIPTION_GROUP, delete).code == 0

    assert world.broker.group_table.get("g") is None
    assert world.broker.offsets.get("g", "t") == left


def test_who_is_here_is_told(client: Client) -> None:
    consumers = RequestCode.GET_CONSUMER_CONNECTION_LIST
    producers = RequestCode.GET_PRODUCER_CONNECTION_LIST
    assert client.ask(consumers, {"consumerGroup": "g"}).code == NOT_ONLINE
    assert client.ask(producers, {"producerGroup": "p"}).code != 0
    join(client)

    found = body_of(client.ask(consumers, {"consumerGroup": "g"}))
    (connection,) = found["connectionSet"]
    assert (connection["clientId"], connection["clientAddr"]) == ("one", "127.0.0.1:40000")
    assert found["subscriptionTable"]["t"]["subString"] == "a"
    found = body_of(client.ask(producers, {"producerGroup": "p"}))
    assert [each["clientId"] for each in found["connectionSet"]] == ["one"]


def test_progress_is_shown_for_one_group_and_for_all(client: Client) -> None:
    one = client.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "g", "topic": "t"})
    text = one.body.decode()
    assert '"brokerOffset":4' in text
    assert '"consumerOffset":1' in text
    assert f'"lastTimestamp":{START_MS}' in text

    everything = client.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": False})
    assert '"totalDiff":3' in everything.body.decode()
    assert '"10.0.0.7:10911"' in everything.body.decode()


def test_how_late_a_group_is(client: Client) -> None:
    spans = client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "t", "group": "g"})

    (first, *_) = sorted(
        body_of(spans)["consumeTimeSpanSet"], key=lambda each: each["messageQueue"]["queueId"]
    )
    assert (first["minTimeStamp"], first["maxTimeStamp"]) == (START_MS, START_MS + 3_000)
    assert first["consumeTimeStamp"] == START_MS
    assert first["delayTime"] == 3_000, "the second message has waited since its second"


def test_topics_subscriptions_and_offsets_are_listed(client: Client) -> None:
    subscription = RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER
    topics = body_of(client.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "g"}))
    assert "t" in topics["topicList"]
    asked = {"group": "g", "topic": "t"}
    assert body_of(client.ask(subscription, asked)).get("subscriptionData") is None
    join(client)
    assert body_of(client.ask(subscription, asked))["subscriptionData"]["subString"] == "a"

    offsets = client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET).body.decode()
    assert '"t@g":{0:1}' in offsets.replace('"0"', "0")


def test_a_group_is_sent_elsewhere_and_its_clients_are_told(
    world: RemotingWorld, client: Client
) -> None:
    join(client)
    reset = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    header = {"topic": "t", "group": "g", "timestamp": START_MS + 2_000, "isForce": True}

    assert client.ask(reset, {**header, "queueId": -1, "offset": -1}).code == 0
    assert world.broker.offsets.get("g", "t")[0] == 2
    (told,) = client.news()
    assert told.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET
    assert (told.ext["topic"], told.ext["group"], told.ext["isForce"]) == ("t", "g", "true")

    client.ask(reset, {**header, "queueId": 0, "offset": 1})
    assert world.broker.offsets.get("g", "t")[0] == 1
    client.ask(reset, {**header, "isForce": False})
    assert world.broker.offsets.get("g", "t")[0] == 1, "without force a group does not skip"
