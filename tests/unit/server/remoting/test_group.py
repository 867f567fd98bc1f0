"""Members of groups: who is there, who is told of changes, who holds which queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.remoting.world import Client, RemotingWorld, body_of, remoting_world

from dueline.server.remoting import group as module
from dueline.server.remoting.group import GroupMembers
from dueline.wire import RequestCode

INVALID = 29
PARSE_FAILED = 23


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        world.serve(GroupMembers(world.context, world.hub).table())
        yield world


def beat(client: Client, name: str, *topics: str, group: str = "g", **more: Any) -> Any:
    subscriptions = [{"topic": topic, "subString": "*"} for topic in topics]
    consumer = {"groupName": group, "subscriptionDataSet": subscriptions}
    body = {"clientID": name, "consumerDataSet": [consumer], **more}
    return client.ask(RequestCode.HEART_BEAT, body=body)


def members(client: Client, group: str = "g") -> list[str]:
    answer = client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    return sorted(body_of(answer)["consumerIdList"]) if answer.code == 0 else []


def told(client: Client) -> list[int]:
    return [each.code for each in client.news()]


def test_clients_are_members_from_their_heartbeat_on(world: RemotingWorld) -> None:
    one, two = world.client(port=1), world.client(port=2)
    assert members(one) == []

    answer = beat(one, "one", "t")
    beat(two, "two", "t")

    assert (answer.code, answer.ext["IS_SUB_CHANGE"]) == (0, "true")
    assert members(one) == ["one", "two"]
    assert world.broker.group_table.get("g") is not None


def test_all_members_are_told_when_one_comes_or_goes(world: RemotingWorld) -> None:
    one, two = world.client(port=1), world.client(port=2)
    beat(one, "one", "t")
    told(one)
    beat(two, "two", "t")
    assert told(one) == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
    assert told(two) == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]

    beat(two, "two", "t")
    assert told(one) == [], "nothing has changed"

    two.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "two", "consumerGroup": "g"})
    assert told(one) == [RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]
    assert members(one) == ["one"]


def test_a_group_may_be_left_alone(world: RemotingWorld) -> None:
    config = world.broker.group_table.find("g")
    world.broker.consumer_groups.configure(
        type(config)(group_name="g", notify_consumer_ids_changed_enable=False)
    )
    one, two = world.client(port=1), world.client(port=2)
    beat(one, "one", "t")
    beat(two, "two", "t")

    assert told(one) == []


def test_a_connection_that_breaks_takes_its_clients_with_it(world: RemotingWorld) -> None:
    one, two = world.client(port=1), world.client(port=2)
    beat(one, "one", "t")
    beat(two, "two", "t")

    two.leave()

    assert members(one) == ["one"]


def test_silent_clients_expire(tmp_path: Path) -> None:
    with remoting_world(tmp_path) as world:
        family = GroupMembers(world.context, world.hub)
        world.serve(family.table())
        one, two = world.client(port=1), world.client(port=2)
        beat(one, "one", "t")
        world.clock.advance(100_000)
        beat(two, "two", "t")
        world.clock.advance(100_000)
        family.expire()

        assert members(two) == ["two"]


def test_a_short_heartbeat_keeps_what_was_said_before(world: RemotingWorld) -> None:
    client = world.client()
    beat(client, "one", "t", "u")
    beat(client, "one", withoutSub=True)
    group = world.broker.groups.get("g")
    assert group is not None
    assert set(group.subscriptions) >= {"t", "u"}

    beat(client, "one", "u")
    assert set(group.subscriptions) == {"u"}


def test_one_request_has_bounds(world: RemotingWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("GROUP_COUNT_MAX", "SUBSCRIPTION_COUNT_MAX", "QUEUE_COUNT_MAX"):
        monkeypatch.setattr(module, limit, 2)
    client = world.client()
    producers = [{"groupName": f"p{number}"} for number in range(2)]

    assert beat(client, "one", "a", "b").code == 0
    assert beat(client, "one", "a", "b", "c").code == INVALID
    assert beat(client, "one", producerDataSet=producers).code == INVALID
    assert lock(client, "one", 0, 1, 2).code == INVALID


def lock(client: Client, name: str, *queue_ids: int, code: int = 41) -> Any:
    queues = [{"topic": "t", "brokerName": "x", "queueId": each} for each in queue_ids]
    body = {"clientId": name, "consumerGroup": "g", "mqSet": queues}
    return client.ask(code, body=body)


def held(answer: Any) -> list[int]:
    return sorted(each["queueId"] for each in body_of(answer)["lockOKMQSet"])


def test_a_queue_has_one_holder_until_it_lets_go(world: RemotingWorld) -> None:
    client = world.client()

    assert held(lock(client, "one", 0, 1)) == [0, 1]
    assert held(lock(client, "two", 1, 2)) == [2]
    lock(client, "one", 1, code=RequestCode.UNLOCK_BATCH_MESSAGE_QUEUE)
    assert held(lock(client, "two", 0, 1)) == [1]


@pytest.mark.parametrize(
    ("kind", "text", "code"),
    [
        ("TAG", "a || b", 0),
        ("SQL92", "a > 1", 0),
        ("SQL92", "a >", PARSE_FAILED),
        ("JSON", "x", PARSE_FAILED),
    ],
)
def test_filters_are_tried_before_they_are_used(
    world: RemotingWorld, kind: str, text: str, code: int
) -> None:
    subscription = {"topic": "t", "subString": text, "expressionType": kind}
    body = {"clientId": "one", "group": "g", "subscriptionData": subscription}

    assert world.client().ask(RequestCode.CHECK_CLIENT_CONFIG, body=body).code == code
