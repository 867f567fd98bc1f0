"""Transactions over the 4.x port: decided by producers, asked for when they are not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.remoting.world import Client, RemotingWorld, remoting_world

from dueline.broker.writing import Results
from dueline.message import Message
from dueline.server.remoting.group import GroupMembers
from dueline.server.remoting.transaction import TransactionEnds
from dueline.store import PutResult
from dueline.wire import RequestCode

COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        world.serve(GroupMembers(world.context, world.hub).table())
        world.serve(TransactionEnds(world.context, world.hub).table())
        world.broker.topics.ensure("t", queue_count=1)
        yield world


def half(world: RemotingWorld) -> PutResult:
    """Send a message whose transaction is open."""
    answers: list[Results | BaseException] = []
    destination = world.context.sending.destination("t")
    message = Message(
        topic="t",
        body=b"the body",
        properties={"TRAN_MSG": "true", "PGROUP": "p", "UNIQ_KEY": "AB" * 16},
        sys_flag=4,
    )
    world.context.sending.send(destination, [message], answers.append, size_bytes=8)
    world.settle()
    (results,) = answers
    assert isinstance(results, list)
    (result,) = results
    assert isinstance(result, PutResult)
    return result


def end(client: Client, sent: PutResult, decision: int, group: str = "p") -> int:
    ext = {
        "producerGroup": group,
        "tranStateTableOffset": sent.queue_offset,
        "commitLogOffset": sent.position,
        "commitOrRollback": decision,
        "msgId": "AB" * 16,
    }
    return client.ask(RequestCode.END_TRANSACTION, ext).code


def visible(world: RemotingWorld) -> int:
    return world.store.offset_range("t", 0)[1]


def test_a_commit_shows_the_message_and_a_rollback_never_does(world: RemotingWorld) -> None:
    client = world.client()
    first, second = half(world), half(world)
    assert visible(world) == 0

    assert end(client, first, ROLLBACK) == 0
    assert visible(world) == 0
    assert end(client, second, COMMIT) == 0
    assert visible(world) == 1


def test_who_does_not_know_decides_nothing(world: RemotingWorld) -> None:
    client, sent = world.client(), half(world)

    assert end(client, sent, UNKNOWN) == 0
    assert visible(world) == 0
    assert end(client, sent, COMMIT) == 0
    assert visible(world) == 1


def test_another_group_decides_nothing(world: RemotingWorld) -> None:
    client, sent = world.client(), half(world)

    end(client, sent, COMMIT, group="others")

    assert visible(world) == 0


def test_producers_of_the_group_are_asked(world: RemotingWorld) -> None:
    client = world.client()
    sent = half(world)
    body = {"clientID": "one", "producerDataSet": [{"groupName": "p"}]}
    client.ask(RequestCode.HEART_BEAT, body=body)
    client.news()
    world.clock.advance(600_000)

    world.broker.asking.turn(world.clock.now_ms())

    (asked,) = client.news()
    assert asked.code == RequestCode.CHECK_TRANSACTION_STATE
    assert asked.ext["commitLogOffset"] == str(sent.position)
    assert (asked.ext["topic"], asked.ext["transactionId"]) == ("t", "AB" * 16)
    assert b"the body" in asked.body
