"""Replies go to the client that waits for them, and are not stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.reading_world import START_MS
from tests.unit.server.remoting.world import Client, RemotingWorld, remoting_world

from dueline.message import encode_properties
from dueline.server.remoting.group import GroupMembers
from dueline.server.remoting.reply import Replies
from dueline.wire import Command, RequestCode


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        world.serve(GroupMembers(world.context, world.hub).table())
        world.serve(Replies(world.context).table())
        yield world


def producer(world: RemotingWorld) -> Client:
    found = world.client(port=50_000)
    body = {"clientID": "asker", "producerDataSet": [{"groupName": "p"}]}
    found.ask(RequestCode.HEART_BEAT, body=body)
    return found


def reply(client: Client, to: str) -> Command:
    properties = encode_properties({"REPLY_TO_CLIENT": to, "x": "1"}).decode()
    ext = {"a": "g", "b": "t", "c": "TBW102", "d": 4, "e": 3, "f": 0, "g": 17, "h": 0}
    return client.ask(RequestCode.SEND_REPLY_MESSAGE_V2, {**ext, "i": properties}, b"the reply")


def test_a_reply_reaches_the_one_that_waits(world: RemotingWorld) -> None:
    asker = producer(world)

    answer = reply(world.client("10.1.2.3", 9), "asker")

    assert (answer.code, answer.ext["queueId"]) == (0, "3")
    (told,) = asker.news()
    assert (told.code, told.body) == (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, b"the reply")
    assert told.ext["bornHost"].startswith("10.1.2.3")
    assert told.ext["storeTimestamp"] == str(START_MS)
    assert told.ext["bornTimestamp"] == "17"
    assert world.broker.topics.get("t") is None


def test_a_reply_to_nobody_is_refused(world: RemotingWorld) -> None:
    client = world.client()
    unknown = reply(client, "asker")
    asker = producer(world)
    asker.transport.abort()
    closing = reply(client, "asker")
    asker.leave()
    gone = reply(client, "asker")

    for answer in (unknown, closing, gone):
        assert answer.code == 1
        assert "expected a client 'asker' that is connected" in (answer.remark or "")
