"""Topics for the tools: made, changed, shown with what they hold, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.broker.reading_world import START_MS
from tests.unit.server.remoting.world import RemotingWorld, body_of, remoting_world

from dueline.server.remoting.admin_topics import TopicAdmin
from dueline.wire import Command, RequestCode

INVALID = 29
TOPIC_NOT_EXIST = 17


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        world.serve(TopicAdmin(world.context, world.hub).table())
        yield world


def create(world: RemotingWorld, **fields: object) -> Command:
    ext = {
        "topic": "t",
        "defaultTopic": "TBW102",
        "readQueueNums": 4,
        "writeQueueNums": 2,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        **fields,
    }
    return world.client().ask(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)


def config(world: RemotingWorld, topic: str = "t") -> Any:
    answer = world.client().ask(RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
    return body_of(answer) if answer.code == 0 else answer.code


def test_a_topic_is_made_and_shown(world: RemotingWorld) -> None:
    assert create(world, attributes="+message.type=FIFO").code == 0

    found = config(world)
    assert (found["readQueueNums"], found["writeQueueNums"], found["perm"]) == (4, 2, 6)
    assert found["attributes"] == {"message.type": "FIFO"}
    listed = body_of(world.client().ask(RequestCode.GET_ALL_TOPIC_CONFIG))
    assert listed["topicConfigTable"]["t"]["readQueueNums"] == 4
    assert config(world, "nowhere") == TOPIC_NOT_EXIST


def test_attributes_are_added_and_removed_by_their_signs(world: RemotingWorld) -> None:
    create(world, attributes="+message.type=FIFO")
    assert create(world).code == 0
    assert config(world)["attributes"] == {"message.type": "FIFO"}

    create(world, attributes="-message.type")
    assert not config(world).get("attributes")


@pytest.mark.parametrize("text", ["message.type=FIFO", "+message.type", "+=x", "-", "+a=b,c"])
def test_other_attributes_are_refused(world: RemotingWorld, text: str) -> None:
    assert create(world, attributes=text).code == INVALID
    assert config(world) == TOPIC_NOT_EXIST


def test_queues_are_shown_with_what_they_hold(world: RemotingWorld) -> None:
    create(world)
    world.send(b"a")
    world.clock.advance(1_000)
    world.send(b"b")

    answer = world.client().ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "t"})

    # The queues are keys that are objects, as RocketMQ's JSON writes them.
    text = answer.body.decode()
    assert text.count('"queueId"') == 4
    assert f'"lastUpdateTimestamp":{START_MS + 1_000}' in text
    assert '"maxOffset":2' in text


def test_a_topic_is_deleted_at_once_and_for_good(world: RemotingWorld) -> None:
    create(world)
    for _ in range(2):
        delete = world.client().ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "t"})
        assert delete.code == 0

    assert config(world) == TOPIC_NOT_EXIST
    assert world.broker.topics.is_saved


def test_system_topics_and_readers_are_listed(world: RemotingWorld) -> None:
    client = world.client()
    system = body_of(client.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER))["topicList"]
    assert "TBW102" in system

    who = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO
    assert body_of(client.ask(who, {"topic": "t"}))["groupList"] == []
