"""Input that no client sends: the broker answers, stays, and serves the others meanwhile."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conftest import IS_SOAK
from tests.grpc.broker import TestBroker
from tests.grpc.calls import Caller
from tests.interop.waiting import wait_until

import grpc
from dueline.server.grpc.schema import METHODS, SERVICE
from dueline.server.grpc.stubs import build_pool, message_class

OK = 20000
OK_CALL = grpc.StatusCode.OK
CALLS_PER_METHOD = 2_000 if IS_SOAK else 40
STREAMS = 2_000 if IS_SOAK else 300
UNARY = [name for name, (_, answer) in METHODS.items() if not answer.startswith("*")]

TEXTS = ["", " ", "a", "t", "g", "%", "\x00", "ü" * 50, "x" * 300, "%RETRY%g", "%DLQ%g", "a b", "*"]
NUMBERS = [0, 1, -1, 2, 3, 7, 2**31 - 1, -(2**31)]
LONG_NUMBERS = [*NUMBERS, 2**63 - 1, -(2**63)]
# The descriptor's numbers for types: 9 text, 12 bytes, 8 truth, 2 float, 3 int64, 14 enumeration.
SCALARS: dict[int, list[Any]] = {
    9: TEXTS,
    12: [b"", b"x", b"\x1f\x8b", b"\xff" * 5_000],
    8: [True, False],
    2: [0.0, -1.0, 1e30],
    3: LONG_NUMBERS,
    14: [0, 1, 2, 3, 4, 99, -1],
}


def fill(message: Any, chance: random.Random, depth: int = 0) -> Any:
    """Set some of a message's fields to something of the right type and of no sense."""
    for field in message.DESCRIPTOR.fields:
        if chance.random() < 0.3:
            continue
        if field.type == 11:
            if depth < 6:
                fill_inner(message, field, chance, depth)
        elif field.is_repeated:
            values = [chance.choice(SCALARS.get(field.type, NUMBERS)) for _ in range(3)]
            getattr(message, field.name).extend(values)
        else:
            setattr(message, field.name, chance.choice(SCALARS.get(field.type, NUMBERS)))
    return message


def fill_inner(message: Any, field: Any, chance: random.Random, depth: int) -> None:
    inner = getattr(message, field.name)
    if field.message_type.GetOptions().map_entry:
        inner[chance.choice(TEXTS)] = chance.choice(TEXTS)
    elif field.is_repeated:
        for _ in range(chance.randrange(3)):
            fill(inner.add(), chance, depth + 1)
    else:
        inner.SetInParent()
        fill(inner, chance, depth + 1)


def held_open(command: Any, end: threading.Event) -> Iterator[Any]:
    """A stream's requests: one command, then silence."""
    yield command
    end.wait()


def serves(caller: Caller, topic: str) -> bool:
    """Can somebody else send and receive?"""
    caller.send(topic, {"body": b"alive"})
    _, messages = caller.receive(topic, long_polling_timeout={"seconds": 5})
    return [message.body for message in messages] == [b"alive"] and all(
        caller.ack(topic, message) == OK for message in messages
    )


@pytest.mark.parametrize("method", UNARY)
def test_senseless_requests_are_answered_with_a_status(
    broker: TestBroker, caller: Caller, topic: str, method: str
) -> None:
    chance = random.Random(f"{method}")
    request_class = message_class(METHODS[method][0])

    for _ in range(CALLS_PER_METHOD):
        request = fill(request_class(), chance)
        answer = caller._stub("unary_unary", method)(
            request, metadata=[("x-mq-client-id", "fuzz")], timeout=20
        )
        assert answer.status.code >= OK, request
        assert answer.status.code != 50001, (request, answer)

    assert serves(caller, topic)


def test_senseless_receives_are_answered_with_a_status(
    broker: TestBroker, caller: Caller, topic: str
) -> None:
    chance = random.Random("receive")
    request_class = message_class("ReceiveMessageRequest")

    for _ in range(CALLS_PER_METHOD):
        request = fill(request_class(), chance)
        request.long_polling_timeout.seconds = min(request.long_polling_timeout.seconds, 0)
        request.long_polling_timeout.nanos = 0
        answers = list(
            caller._stub("unary_stream", "ReceiveMessage")(
                request, metadata=[("x-mq-client-id", "fuzz")], timeout=20
            )
        )
        assert answers[0].status.code != 50001, (request, answers)

    assert serves(caller, topic)


def test_bytes_that_are_no_request_end_their_call_only(caller: Caller, topic: str) -> None:
    chance = random.Random("bytes")
    for method in UNARY:
        call = caller.channel.unary_unary(f"/{SERVICE}/{method}")
        for _ in range(10):
            noise = chance.randbytes(chance.randrange(1, 60))
            future = call.future(noise, metadata=[("x-mq-client-id", "fuzz")], timeout=20)
            # Some noise is a request, of fields that nobody knows.
            assert future.code() in (OK_CALL, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)

    assert serves(caller, topic)


def test_connections_that_speak_another_language_are_closed(
    broker: TestBroker, caller: Caller, topic: str
) -> None:
    for first in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b"\x00" * 100):
        with socket.create_connection(("127.0.0.1", broker.server.port), timeout=20) as other:
            other.sendall(first)
            other.shutdown(socket.SHUT_WR)
            while other.recv(4096):
                pass

    assert serves(caller, topic)


def test_silent_connections_do_not_stop_others(
    broker: TestBroker, caller: Caller, topic: str
) -> None:
    silent = [
        socket.create_connection(("127.0.0.1", broker.server.port), timeout=20) for _ in range(200)
    ]
    try:
        assert serves(caller, topic)
    finally:
        for each in silent:
            each.close()


def test_idle_telemetry_streams_cost_no_thread_and_leave_nothing(
    broker: TestBroker, caller: Caller, topic: str
) -> None:
    before = len(broker.server._clients)
    settings = message_class("TelemetryCommand")(
        settings={"client_type": 3, "subscription": {"group": {"name": "g"}}}
    )
    with Caller(broker.endpoint) as crowd:
        call = crowd._stub("stream_stream", "Telemetry")
        end = threading.Event()
        streams = [
            call(held_open(settings, end), metadata=[("x-mq-client-id", f"idle-{number}")])
            for number in range(STREAMS)
        ]
        for stream in streams:
            assert next(stream).status.code == OK
        assert serves(caller, topic)
        assert len(broker.server._clients) >= before + STREAMS
        end.set()
        for stream in streams:
            stream.cancel()

    wait_until(lambda: len(broker.server._clients) <= before, what="clients forgotten")


def test_schema_is_the_one_that_was_written_down() -> None:
    """The fuzzer fills what the descriptors say; so they must say something."""
    file = build_pool().FindFileByName("dueline/messaging_service.proto")

    assert len(file.message_types_by_name) > 40
    system = file.message_types_by_name["SystemProperties"].fields_by_name
    assert {name: system[name].number for name in ("tag", "delivery_timestamp")} == {
        "tag": 1,
        "delivery_timestamp": 11,
    }
