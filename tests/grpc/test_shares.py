"""One client that takes all there is: the others get their share of calls, streams and polls."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.grpc.broker import TestBroker
from tests.grpc.calls import Caller, held_open, serves
from tests.waiting import PATIENCE_S, wait_until

import grpc
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.stubs import message_class

OK, TOO_MANY, NOT_FOUND = 20000, 42900, 40401
SCARCE = GrpcOptions(
    address="127.0.0.1:0", call_count_max=20, poll_count_max=6, stream_count_max=40
)


@pytest.fixture
def scarce(tmp_path: Path) -> Iterator[TestBroker]:
    with TestBroker(tmp_path, SCARCE) as broker:
        yield broker


def poll(caller: Caller, topic: str) -> Any:
    return caller.stream(
        "ReceiveMessage",
        timeout_s=PATIENCE_S,
        group={"name": "g"},
        message_queue={"topic": {"name": topic}},
        filter_expression={"type": 1, "expression": "*"},
        batch_size=1,
        invisible_duration={"seconds": 10},
        long_polling_timeout={"seconds": 40},
    )


def test_the_oldest_poll_of_the_busiest_makes_room(scarce: TestBroker) -> None:
    with Caller(scarce.endpoint) as greedy, Caller(scarce.endpoint, client_id="m") as modest:
        assert serves(modest, "orders")
        polls: list[Any] = []
        for count in range(1, 7):  # one after the other
            polls.append(poll(greedy, "idle"))
            wait_until(lambda n=count: scarce.polls_waiting == n, what="a poll")  # type: ignore[misc]
        assert next(poll(greedy, "idle")).status.code == TOO_MANY

        waiting = poll(modest, "orders")

        assert next(polls[0]).status.code == NOT_FOUND
        greedy.send("orders", {"body": b"for the modest one"})
        assert next(waiting).status.code == OK
        for each in polls:
            each.cancel()


def test_streams_of_one_client_do_not_keep_the_others_out(scarce: TestBroker) -> None:
    settings = message_class("TelemetryCommand")(
        settings={"client_type": 3, "subscription": {"group": {"name": "g"}}}
    )
    end = threading.Event()
    with Caller(scarce.endpoint) as greedy, Caller(scarce.endpoint, client_id="m") as modest:
        assert serves(modest, "orders")
        streams = []
        for _ in range(20):  # one after the other
            streams.append(greedy.telemetry(held_open(settings, end=end)))
            assert next(streams[-1]).status.code == OK
        assert next(greedy.telemetry(held_open(settings, end=end))).status.code == TOO_MANY

        assert serves(modest, "orders")

        assert next(streams[0]).status.code == TOO_MANY, "the oldest made room"
        assert list(streams[0]) == []
        assert streams[-1].is_active()
        end.set()
        for each in streams:
            each.cancel()


def test_calls_of_one_connection_are_bounded(scarce: TestBroker) -> None:
    """What is over the bound waits at the client, and nobody else notices."""
    with Caller(scarce.endpoint) as greedy, Caller(scarce.endpoint, client_id="m") as modest:
        polls = [poll(greedy, "idle") for _ in range(60)]

        assert serves(modest, "orders")

        for each in polls:
            each.cancel()
        with pytest.raises(grpc.RpcError):
            next(polls[-1])
