"""What methods share: who calls, and answers that come back from other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.grpc.world import Call, GrpcWorld, grpc_world

from dueline.errors import InvalidRequest
from dueline.server.grpc.codes import Refused
from dueline.server.grpc.parts import client_id_of, resolve


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GrpcWorld]:
    with grpc_world(tmp_path) as world:
        yield world


def test_a_client_says_who_it_is() -> None:
    assert client_id_of(Call("me")) == "me"
    for call in (Call(None), Call("")):
        with pytest.raises(Refused, match="x-mq-client-id"):
            client_id_of(call)


def test_a_future_is_settled_once(world: GrpcWorld) -> None:
    loop = world.inside.loop
    first: asyncio.Future[int] = loop.create_future()
    resolve(first, 1)
    resolve(first, 2)
    assert first.result() == 1

    second: asyncio.Future[int] = loop.create_future()
    resolve(second, InvalidRequest("no"))
    assert isinstance(second.exception(), InvalidRequest)

    gone: asyncio.Future[int] = loop.create_future()
    gone.cancel()
    resolve(gone, 1)
    assert gone.cancelled()


def test_new_topics_are_saved_before_anybody_is_told(world: GrpcWorld) -> None:
    world.broker.topics.ensure("t", queue_count=1)
    world.run(world.parts.saved())

    assert world.broker.topics.is_saved
