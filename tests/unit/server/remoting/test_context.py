"""What handlers share: going on when tables are on disk, and answering what the store said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.unit.server.remoting.world import Client, RemotingWorld, remoting_world

from dueline.broker.writing import Results
from dueline.errors import InvalidRequest, Unavailable
from dueline.server.remoting.answers import OK, Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Addresses, answer_send
from dueline.store import PutResult

ILLEGAL, INVALID, FAILED, NOT_AVAILABLE = 13, 29, 1, 14


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RemotingWorld]:
    with remoting_world(tmp_path) as world:
        yield world


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("10.0.0.7", "10.0.0.7:5"),
        ("0.0.0.0", "127.0.0.1:5"),
        ("::", "127.0.0.1:5"),
        ("fe80::1", "[fe80::1]:5"),
    ],
)
def test_clients_find_the_broker(world: RemotingWorld, host: str, expected: str) -> None:
    assert Addresses(host=host, port=5).seen_from(world.client().channel) == expected


def serve_saved(world: RemotingWorld, then: Callable[[], Response | None]) -> Client:
    def handler(request: Request) -> None:
        world.broker.topics.ensure("t", queue_count=1)
        world.context.saved(request, then)

    world.serve({1: handler})
    return world.client()


def test_tables_are_on_disk_before_a_handler_goes_on(world: RemotingWorld) -> None:
    def then() -> Response:
        assert world.broker.topics.is_saved
        return Response(remark="saved")

    assert serve_saved(world, then).ask(1).remark == "saved"


@pytest.mark.parametrize(
    ("error", "code"), [(InvalidRequest("no"), INVALID), (ZeroDivisionError(), FAILED)]
)
def test_what_fails_afterwards_is_answered(
    world: RemotingWorld, error: Exception, code: int
) -> None:
    def then() -> Response:
        raise error

    assert serve_saved(world, then).ask(1).code == code


def test_saving_in_the_background_happens_if_anything_changed(world: RemotingWorld) -> None:
    world.broker.topics.ensure("t", queue_count=1)
    assert not world.broker.topics.is_saved

    world.context.save_soon()
    world.settle()

    assert world.broker.topics.is_saved


def answered(world: RemotingWorld, results: Results | BaseException) -> int:
    def answer(request: Request, accepted: list[PutResult]) -> None:
        assert all(isinstance(each, PutResult) for each in accepted)
        request.answer(OK)

    world.hub.table[2] = lambda request: partial(answer_send, request, answer, results)()
    return world.client().ask(2).code


def test_a_send_is_answered_by_what_the_store_said(world: RemotingWorld) -> None:
    (taken,) = world.send(b"a")

    assert answered(world, [taken]) == 0
    assert answered(world, [InvalidRequest("too large")]) == ILLEGAL, "the message is wrong"
    assert answered(world, InvalidRequest("no such queue")) == INVALID
    assert answered(world, Unavailable("stopping")) == NOT_AVAILABLE
    assert answered(world, [taken, Unavailable("stopping")]) == NOT_AVAILABLE
