"""The broker itself for the tools: figures, settings, queues, and questions to its clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.reading_world import START_MS
from tests.unit.server.remoting.world import Client, RemotingWorld, body_of, remoting_world

from dueline.message import message_id, pack_host
from dueline.server.remoting.admin_broker import BrokerAdmin
from dueline.server.remoting.group import GroupMembers
from dueline.wire import Command, RequestCode

NOT_ONLINE = 206


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        world.serve(GroupMembers(world.context, world.hub).table())
        world.serve(BrokerAdmin(world.context, world.hub).table())
        yield world


@pytest.fixture
def client(world: RemotingWorld) -> Client:
    return world.client()


def test_figures_have_the_names_that_tools_print(world: RemotingWorld, client: Client) -> None:
    world.send(b"a")
    world.send(b"b", TIMER_DELAY_MS="60000")
    world.send(b"c", DELAY="2")
    world.clock.advance(10_000)

    table = body_of(client.ask(RequestCode.GET_BROKER_RUNTIME_INFO))["table"]

    assert table["bootTimestamp"] == str(START_MS)
    assert table["runtime"] == "[ 10 seconds ]"
    assert table["pendingMessages"] == table["timerCongestNum"] == "2"
    assert table["nextDueMs"] == str(START_MS + 5_000)
    assert table["earliestMessageTimeStamp"] == str(START_MS)
    assert int(table["commitLogMaxOffset"]) > int(table["commitLogMinOffset"]) == 0
    assert table["scheduleMessageOffset_2"] == "0,1"


def test_settings_are_lines(world: RemotingWorld, client: Client, tmp_path: Path) -> None:
    lines = client.ask(RequestCode.GET_BROKER_CONFIG).body.decode().splitlines()
    found = dict(line.split("=", 1) for line in lines)

    assert found["listenPort"] == "10911"
    assert found["flushDiskType"] == "ASYNC_FLUSH"
    assert found["mappedFileSizeCommitLog"] == str(1 << 18)
    assert found["storePathRootDir"].startswith(str(tmp_path))
    assert found["autoCreateTopicEnable"] == "true"


def test_units_of_a_queue_are_shown_in_part(world: RemotingWorld, client: Client) -> None:
    sent = world.send(b"a", b"b", b"c")
    header = {"topic": "t", "queueId": 0, "index": 1, "count": 1, "consumerGroup": "g"}

    found = body_of(client.ask(RequestCode.QUERY_CONSUME_QUEUE, header))

    assert (found["minQueueIndex"], found["maxQueueIndex"]) == (0, 3)
    assert [each["physicOffset"] for each in found["queueData"]] == [sent[1].position]


def test_levels_say_how_far_they_are(world: RemotingWorld, client: Client) -> None:
    world.send(b"c", DELAY="2")

    assert "2" in client.ask(RequestCode.GET_ALL_DELAY_OFFSET).body.decode()


def consumer(world: RemotingWorld) -> Client:
    """A client of the group `g`, named `one`."""
    found = world.client(port=50_000)
    body = {"clientID": "one", "consumerDataSet": [{"groupName": "g"}]}
    found.ask(RequestCode.HEART_BEAT, body=body)
    found.news()
    return found


def pass_on(world: RemotingWorld, asker: Client, code: int, **ext: object) -> list[Command]:
    """Ask without waiting: the answer is another client's."""
    command = Command(code=code, opaque=77, ext={name: str(each) for name, each in ext.items()})
    asker.channel.data_received(command.encode())
    return asker.read()


def test_a_question_is_passed_on_and_its_answer_back(world: RemotingWorld, client: Client) -> None:
    other = consumer(world)
    info = RequestCode.GET_CONSUMER_RUNNING_INFO
    assert pass_on(world, client, info, consumerGroup="g", clientId="one") == []

    (asked,) = other.news()
    assert asked.code == info
    other.channel.data_received(asked.reply(code=0, body=b"all is well").encode())

    (answer,) = client.read()
    assert (answer.opaque, answer.code, answer.body) == (77, 0, b"all is well")


def test_a_message_is_handed_to_a_client_that_is_named(
    world: RemotingWorld, client: Client
) -> None:
    (sent,) = world.send(b"the body")
    other = consumer(world)
    options = world.broker.store_options
    name = message_id(pack_host(options.host, options.port), sent.position)
    directly = RequestCode.CONSUME_MESSAGE_DIRECTLY
    pass_on(world, client, directly, consumerGroup="g", clientId="one", msgId=name)

    (asked,) = other.news()
    assert b"the body" in asked.body


def test_a_client_that_is_not_here_or_goes_is_told(world: RemotingWorld, client: Client) -> None:
    info = RequestCode.GET_CONSUMER_RUNNING_INFO
    answer = client.ask(info, {"consumerGroup": "g", "clientId": "one"})
    assert answer.code == NOT_ONLINE

    other = consumer(world)
    pass_on(world, client, info, consumerGroup="g", clientId="one")
    other.leave()

    (answer,) = client.read()
    assert answer.code != 0
    assert "has gone" in (answer.remark or "")
