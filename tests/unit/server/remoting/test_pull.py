"""Pulls of one consumer: its header is remembered, and what it may read is asked each time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.server.remoting.world import Client, RemotingWorld, remoting_world

from dueline.message import Message
from dueline.server.remoting import pull
from dueline.server.remoting.pull import Pulls
from dueline.store import layout
from dueline.store.files import File
from dueline.wire import Command, RequestCode

TAGS = ("a", "b")


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        world.serve(Pulls(world.context, world.hub).table())
        world.broker.topics.ensure("orders", queue_count=1)
        world.store.put_all(
            [
                Message(topic="orders", body=b"%d" % number, properties={"TAGS": TAGS[number % 2]})
                for number in range(6)
            ]
        )
        yield world


@pytest.fixture
def client(world: RemotingWorld) -> Client:
    return world.client()


def asked(client: Client, offset: object, **changes: object) -> Command:
    ext: dict[str, object] = {
        "consumerGroup": "readers",
        "topic": "orders",
        "queueId": 0,
        "queueOffset": offset,
        "maxMsgNums": 2,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subVersion": 0,
        "subscription": "*",
    }
    return client.ask(RequestCode.PULL_MESSAGE, {**ext, **changes})


def bodies(answer: Command) -> list[bytes]:
    """Bodies are behind 84 bytes and their length, in what these tests write."""
    found = []
    for record in layout.split(memoryview(answer.body)):
        size = int.from_bytes(record[84:88], "big")
        found.append(bytes(record[88 : 88 + size]))
    return found


def test_pulls_that_differ_in_their_offset_read_on(client: Client) -> None:
    answers = [asked(client, offset) for offset in (0, 2, 4, 6)]

    assert [bodies(answer) for answer in answers] == [[b"0", b"1"], [b"2", b"3"], [b"4", b"5"], []]
    assert [answer.code for answer in answers] == [0, 0, 0, 19]
    assert [answer.ext["nextBeginOffset"] for answer in answers] == ["2", "4", "6", "6"]
    assert all(answer.ext["maxOffset"] == "6" for answer in answers)


def test_each_part_of_a_header_counts(client: Client) -> None:
    assert bodies(asked(client, 0)) == [b"0", b"1"]

    assert bodies(asked(client, 0, maxMsgNums=3)) == [b"0", b"1", b"2"]
    assert bodies(asked(client, 0, subscription="b", maxMsgNums=4)) == [b"1", b"3"]
    assert bodies(asked(client, 0, maxMsgNums=6, maxMsgBytes=1)) == [b"0"]
    assert asked(client, 0, queueId=1).code == 29
    assert asked(client, 0, topic="nowhere").code == 17
    assert asked(client, 0, sysFlag=0).code == 24, "the group has no client with a heartbeat"
    assert bodies(asked(client, 0)) == [b"0", b"1"]


def test_what_may_be_read_is_asked_each_time(world: RemotingWorld, client: Client) -> None:
    assert asked(client, 0).code == 0
    table = world.broker.group_table

    table.put(replace(table.find("readers"), consume_enable=False))
    assert asked(client, 0).code == 16

    table.put(replace(table.find("readers"), consume_enable=True))
    assert asked(client, 0).code == 0


@pytest.mark.parametrize("name", ["queueOffset", "commitOffset"])
@pytest.mark.parametrize("wrong", ["1x", None, str(1 << 63)])
def test_a_known_header_with_a_wrong_offset_is_refused(
    client: Client, name: str, wrong: str | None
) -> None:
    assert asked(client, 0).code == 0

    answer = asked(client, 0, **{name: wrong})

    assert answer.code == 29
    assert name in (answer.remark or "")
    assert asked(client, 0).code == 0


def test_an_offset_is_committed_as_far_as_there_are_messages(
    world: RemotingWorld, client: Client
) -> None:
    for said, kept in ((3, 3), (99, 6)):
        asked(client, 0, sysFlag=5, commitOffset=said)
        assert world.broker.offsets.get("readers", "orders") == {0: kept}


def test_few_and_short_headers_are_remembered(
    world: RemotingWorld, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull, "HEAD_COUNT_MAX", 3)
    pulls = Pulls(world.context, world.hub)
    world.hub.table.update(pulls.table())

    for count in range(1, 9):
        assert len(bodies(asked(client, 0, maxMsgNums=count))) == min(count, 6)
        assert len(pulls._heads) <= 3
    before = len(pulls._heads)
    asked(client, 0, subscription="b ||" * 300 + "b")
    asked(client, 0, subscription="a = 1", expressionType="SQL92")  # it may become large

    assert len(pulls._heads) == before


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_pull_that_is_far_behind_stays_in_the_loop_if_its_messages_are_in_memory(
    world: RemotingWorld, client: Client, monkeypatch: pytest.MonkeyPatch, is_cached: bool
) -> None:
    monkeypatch.setattr(pull, "FAR_BEHIND", 1)
    monkeypatch.setattr(File, "is_cached", lambda file, start, end: is_cached)
    moved: list[object] = []
    in_thread = world.hub.in_thread

    def note(request: object, work: object) -> None:
        moved.append(request)
        in_thread(request, work)  # type: ignore[arg-type]

    monkeypatch.setattr(world.hub, "in_thread", note)

    assert bodies(asked(client, 0)) == [b"0", b"1"]
    assert len(moved) == (0 if is_cached else 1)
    assert bodies(asked(client, 0, subscription="b")) == [b"1"], "it may have to read on"
    assert len(moved) == (1 if is_cached else 2)
    assert bodies(asked(client, 5)) == [b"5"], "not far behind"
    assert len(moved) == (1 if is_cached else 2)
