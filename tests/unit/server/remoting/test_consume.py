"""A consumer that could not handle a message sends it back, and it comes again later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.remoting.world import RemotingWorld, remoting_world

from dueline.server.remoting.consume import SendBacks
from dueline.wire import Command, RequestCode

OLD, NEW = 100, 409


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        world.serve(SendBacks(world.context).table())
        world.broker.consumer_groups.ensure("g")
        yield world


def send_back(world: RemotingWorld, position: int, attempts_max: int, version: int = NEW) -> int:
    client = world.client()
    ext = {
        "offset": str(position),
        "group": "g",
        "delayLevel": "0",
        "maxReconsumeTimes": str(attempts_max),
    }
    command = Command(
        code=RequestCode.CONSUMER_SEND_MESSAGE_BACK, opaque=1, ext=ext, version=version
    )
    client.channel.data_received(command.encode())
    (answer,) = client.read()
    return int(answer.code)


def dead_letters(world: RemotingWorld) -> int:
    return world.store.offset_range("%DLQ%g", 0)[1]


def test_it_waits_for_its_next_attempt(world: RemotingWorld) -> None:
    (sent,) = world.send(b"a")

    assert send_back(world, sent.position, 16) == 0

    assert world.store.pending_count() == 1
    assert dead_letters(world) == 0


@pytest.mark.parametrize(
    ("attempts_max", "version", "dead"), [(0, NEW, 1), (0, OLD, 0), (-1, NEW, 0)]
)
def test_new_clients_say_how_often_it_may_be_tried(
    world: RemotingWorld, attempts_max: int, version: int, dead: int
) -> None:
    (sent,) = world.send(b"a")

    assert send_back(world, sent.position, attempts_max, version) == 0

    assert (dead_letters(world), world.store.pending_count()) == (dead, 1 - dead)


def test_what_is_not_there_is_refused(world: RemotingWorld) -> None:
    assert send_back(world, 1 << 30, 16) != 0
    assert world.store.pending_count() == 0
