"""Routes: queues with what may be done with them, at the address that the client came by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.grpc.world import Call, GrpcWorld, grpc_world, make

from dueline.broker.topics import TopicConfig
from dueline.errors import InvalidRequest
from dueline.server.grpc.routes import Routes, accepted_types, endpoints_of, topic_of

NONE, READ, WRITE, READ_WRITE = 1, 2, 3, 4
NORMAL, FIFO, DELAY, TRANSACTION = 1, 2, 3, 4
V4, V6, NAME = 1, 2, 3


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GrpcWorld]:
    with grpc_world(tmp_path) as world:
        yield world


def topic(world: GrpcWorld, read: int, write: int, perm: int = 6) -> None:
    config = TopicConfig(topic_name="t", read_queue_nums=read, write_queue_nums=write, perm=perm)
    world.broker.topics.configure(config, {})


def route(world: GrpcWorld, **fields: Any) -> Any:
    request = make("QueryRouteRequest", topic="t", **fields)
    return world.run(Routes(world.parts).query_route(request, Call()))


@pytest.mark.parametrize(
    ("read", "write", "perm", "expected"),
    [
        (2, 2, 6, [READ_WRITE, READ_WRITE]),
        (2, 1, 6, [READ_WRITE, READ]),
        (1, 2, 6, [READ_WRITE, WRITE]),
        (2, 1, 4, [READ, READ]),
        (1, 2, 4, [READ, NONE]),
    ],
)
def test_each_queue_says_what_may_be_done_with_it(
    world: GrpcWorld, read: int, write: int, perm: int, expected: list[int]
) -> None:
    topic(world, read, write, perm)

    queues = route(world).message_queues

    assert [(queue.id, queue.permission) for queue in queues] == list(enumerate(expected))
    assert {queue.broker.name for queue in queues} == {world.broker.options.broker_name}


def test_a_client_is_sent_back_to_where_it_came_from(world: GrpcWorld) -> None:
    topic(world, 1, 1)
    own = route(world).message_queues[0].broker.endpoints.addresses[0]
    assert (own.host, own.port) == ("127.0.0.1", 8081)

    there = route(world, endpoints=endpoints_of("proxy:99")).message_queues[0]
    assert there.broker.endpoints == endpoints_of("proxy:99")


def test_a_topic_is_made_and_saved_by_being_asked_for(world: GrpcWorld) -> None:
    assert len(route(world).message_queues) > 0

    assert world.broker.topics.get("t") is not None
    assert world.broker.topics.is_saved


def test_one_assignment_stands_for_all_queues_unless_order_matters(world: GrpcWorld) -> None:
    topic(world, 3, 3)
    request = make("QueryAssignmentRequest", topic="t", group="g")

    def assigned() -> list[int]:
        answer = world.run(Routes(world.parts).query_assignment(request, Call()))
        return [each.message_queue.id for each in answer.assignments]

    assert assigned() == [-1]
    config = world.broker.group_table.find("g")
    world.broker.consumer_groups.configure(
        type(config)(group_name="g", consume_message_orderly=True)
    )
    assert assigned() == [0, 1, 2]


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (None, [NORMAL, FIFO, DELAY, TRANSACTION]),
        ({"message.type": "delay"}, [DELAY]),
        ({"message.type": "MIXED"}, [NORMAL, FIFO, DELAY, TRANSACTION]),
    ],
)
def test_a_topic_takes_every_type_unless_it_has_one(
    attributes: dict[str, str] | None, expected: list[int]
) -> None:
    config = TopicConfig(
        topic_name="t", read_queue_nums=1, write_queue_nums=1, attributes=attributes
    )

    assert accepted_types(config) == expected


@pytest.mark.parametrize(
    ("address", "scheme", "host"),
    [("10.0.0.1:7", V4, "10.0.0.1"), ("[fe80::1]:7", V6, "fe80::1"), ("a.b:7", NAME, "a.b")],
)
def test_addresses_have_their_scheme(address: str, scheme: int, host: str) -> None:
    found = endpoints_of(address)

    assert found.scheme == scheme
    assert [(each.host, each.port) for each in found.addresses] == [(host, 7)]


def test_a_topics_name_is_one() -> None:
    assert topic_of(make("QueryRouteRequest", topic="t").topic) == "t"
    with pytest.raises(InvalidRequest):
        topic_of(make("QueryRouteRequest", topic="not a name").topic)
