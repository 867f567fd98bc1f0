"""A port: each request has one answer, whatever its handler does, and the bounds of all hold."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.remoting.world import RemotingWorld, remoting_world

from dueline.errors import InvalidRequest, RemoteProtocolError
from dueline.server.remoting import hub as module
from dueline.server.remoting.answers import OK, Response
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.hub import blocking, decoded
from dueline.server.remoting.limits import Limits
from dueline.wire import Command
from dueline.wire.bodies import ConsumerList

BUSY, NOT_SUPPORTED, FAILED, INVALID = 2, 3, 1, 29


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        yield world


def refuse(request: Request) -> Response:
    raise InvalidRequest("not so")


def fail(request: Request) -> Response:
    raise ZeroDivisionError


def test_a_handler_answers_or_its_error_does(
    world: RemotingWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.serve({1: lambda request: OK, 2: refuse, 3: fail})
    world.serve({12: blocking(world.hub, refuse), 13: blocking(world.hub, fail)})
    client = world.client()

    codes = [client.ask(code).code for code in (1, 2, 3, 12, 13, 99)]

    assert codes == [0, INVALID, FAILED, INVALID, FAILED, NOT_SUPPORTED]
    assert [each.levelno for each in caplog.records] == [logging.ERROR] * 2, "mistakes of ours"
    assert (world.hub.request_count, world.hub.request_size_bytes) == (0, 0)


def test_two_handlers_of_one_code_are_our_mistake(world: RemotingWorld) -> None:
    world.serve({1: refuse})
    with pytest.raises(AssertionError, match="two handlers"):
        world.serve({1: fail})


@pytest.mark.parametrize("limit_bytes", [0, 1 << 20])
def test_a_body_is_read_here_or_in_a_thread(
    world: RemotingWorld, monkeypatch: pytest.MonkeyPatch, limit_bytes: int
) -> None:
    monkeypatch.setattr(module, "LIGHT_SIZE_BYTES", limit_bytes)

    def handle(request: Request, body: ConsumerList) -> Response:
        return Response(body=",".join(body.consumer_id_list).encode())

    world.serve({1: decoded(world.hub, ConsumerList, handle)})
    client = world.client()

    assert client.ask(1, body={"consumerIdList": ["a", "b"]}).body == b"a,b"
    assert client.ask(1, body=b"no JSON").code != 0


def test_requests_beyond_the_bound_are_refused_until_others_are_answered(tmp_path: Path) -> None:
    with remoting_world(tmp_path, limits=Limits(total_request_count_max=2)) as world:
        kept: list[Request] = []
        world.serve({1: kept.append})
        clients = [world.client(port=port) for port in (1, 2, 3)]
        for client in clients:
            client.channel.data_received(Command(code=1, opaque=9).encode())
        answers = [client.read() for client in clients]
        assert [[each.code for each in found] for found in answers] == [[], [], [BUSY]]

        kept[0].answer(OK)
        kept[0].answer(OK)
        assert [each.code for each in clients[0].read()] == [0], "once"
        clients[2].channel.data_received(Command(code=1, opaque=10).encode())
        assert clients[2].read() == []
        assert len(kept) == 3


def test_connections_are_bounded_and_their_places_come_back(tmp_path: Path) -> None:
    with remoting_world(tmp_path, limits=Limits(connection_count_max=2)) as world:
        gone: list[Channel] = []
        world.hub.on_leave.append(gone.append)
        first, second, third = (world.client(port=port) for port in (1, 2, 3))
        assert [each.transport.is_gone for each in (first, second, third)] == [False, False, True]
        assert (len(world.hub.channels), world.hub.refused_count) == (2, 1)

        third.leave()
        assert gone == []
        first.leave()
        assert gone == [first.channel]
        assert not world.client(port=4).transport.is_gone


def test_unfinished_frames_are_bounded_over_all_connections(tmp_path: Path) -> None:
    with remoting_world(tmp_path, limits=Limits(held_size_bytes_max=150)) as world:
        half = Command(code=1, opaque=1, body=bytes(1_000)).encode()[:100]
        first, second = world.client(port=1), world.client(port=2)
        first.channel.data_received(half)
        second.channel.data_received(half)

        assert [each.transport.is_gone for each in (first, second)] == [False, True]


def test_peers_of_another_protocol_are_counted_and_some_are_logged(
    world: RemotingWorld, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    channel = world.client().channel
    for _ in range(30):
        world.hub.count_violation(channel, RemoteProtocolError("what is this?"))

    assert world.hub.violation_count == 30
    assert len(caplog.records) == 10
