"""What methods share: who calls, and answers that come back from other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.grpc.world import Call, GrpcWorld, grpc_world

from dueline.errors import InvalidRequest, LimitExceeded
from dueline.message import HOST_UNKNOWN, Message
from dueline.server.grpc.codes import Refused
from dueline.server.grpc.parts import Peer, client_id_of, resolve
from dueline.server.shares import Shares
from dueline.store import PutResult


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GrpcWorld]:
    with grpc_world(tmp_path) as world:
        yield world


def test_a_client_says_who_it_is() -> None:
    assert client_id_of(Call("me")) == "me"
    for call in (Call(None), Call("")):
        with pytest.raises(Refused, match="x-mq-client-id"):
            client_id_of(call)


def test_an_address_is_packed_if_it_is_one() -> None:
    assert Peer(host="10.1.2.3", port=258).packed == bytes([10, 1, 2, 3, 0, 0, 1, 2])
    assert Peer(host="a name", port=1).packed == HOST_UNKNOWN


def test_a_share_is_that_of_the_connection() -> None:
    shares, peer = Shares("calls", 1), Peer(host="10.1.2.3", port=1)
    with peer.take(shares), pytest.raises(LimitExceeded):
        peer.take(shares)
    peer.take(shares).leave()


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


def test_messages_are_answered_one_by_one(world: GrpcWorld) -> None:
    destination = world.parts.sending.destination("t")
    messages = [Message(topic="t", body=body) for body in (b"fits", bytes(5 << 20))]

    taken, refused = world.run(world.parts.sent(destination, messages))

    assert isinstance(taken, PutResult)
    assert isinstance(refused, Exception)
