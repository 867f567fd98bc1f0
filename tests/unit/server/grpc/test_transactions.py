"""Transactions of 5.x producers: ended by their id, or refused by the code that says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.grpc.world import Call, GrpcWorld, grpc_world, make

from dueline.message import Message, message_id, pack_host
from dueline.server.grpc.codes import Code, Refused
from dueline.server.grpc.transactions import GrpcTransactions
from dueline.store import PutResult

COMMIT, ROLLBACK = 1, 2


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GrpcWorld]:
    with grpc_world(tmp_path) as world:
        world.broker.topics.ensure("t", queue_count=1)
        yield world


def half(world: GrpcWorld) -> str:
    """Send a message whose transaction is open; the transaction's id."""
    properties = {"TRAN_MSG": "true", "PGROUP": "", "UNIQ_KEY": "AB" * 16}
    message = Message(topic="t", body=b"the body", properties=properties, sys_flag=4)
    (sent,) = world.sent(message)
    assert isinstance(sent, PutResult)
    options = world.broker.store_options
    return message_id(pack_host(options.host, options.port), sent.position)


def end(world: GrpcWorld, methods: GrpcTransactions, name: str, resolution: int) -> Any:
    request = make("EndTransactionRequest", topic="t", transaction_id=name, resolution=resolution)
    return world.run(methods.end_transaction(request, Call()))


def visible(world: GrpcWorld) -> int:
    return world.inside.store.offset_range("t", 0)[1]


def test_a_commit_shows_the_message_and_a_rollback_never_does(world: GrpcWorld) -> None:
    methods = GrpcTransactions(world.parts)
    first, second = half(world), half(world)

    assert end(world, methods, first, ROLLBACK).status.code == Code.OK
    assert visible(world) == 0
    assert end(world, methods, second, COMMIT).status.code == Code.OK
    assert visible(world) == 1


def test_what_is_no_decision_or_no_transaction_is_refused(world: GrpcWorld) -> None:
    methods, name = GrpcTransactions(world.parts), half(world)
    options = world.broker.store_options
    nowhere = message_id(pack_host(options.host, options.port), 1 << 30)
    for transaction, resolution, code in (
        (name, 0, Code.BAD_REQUEST),
        ("no id", COMMIT, Code.INVALID_TRANSACTION_ID),
        (nowhere, COMMIT, Code.INVALID_TRANSACTION_ID),
    ):
        with pytest.raises(Refused) as caught:
            end(world, methods, transaction, resolution)
        assert caught.value.code == code
    assert visible(world) == 0
