"""Requests that no client sends: the broker answers, stays, and serves the others meanwhile."""

from __future__ import annotations

import threading

import pytest
from tests.conftest import IS_SOAK
from tests.grpc.broker import TestBroker
from tests.grpc.calls import Caller, held_open, serves
from tests.grpc.fuzzing import Fuzzer, fields_of
from tests.waiting import PATIENCE_S

from dueline.server.grpc.schema import METHODS, PACKAGE, SERVICE
from dueline.server.grpc.stubs import build_pool, message_class

OK, UNREADABLE = 20000, 40000
CALLS_PER_METHOD = 2_000 if IS_SOAK else 40
UNARY = [name for name, (_, answer) in METHODS.items() if not answer.startswith("*")]

STREAMING = [name for name, (_, answer) in METHODS.items() if answer.startswith("*")]
FUZZ = [("x-mq-client-id", "fuzz")]
FIELD_ROUNDS_MAX = 400
"""So many random requests have had every field of the largest message."""


@pytest.mark.parametrize("method", UNARY)
def test_senseless_requests_are_answered_with_a_status(
    broker: TestBroker, caller: Caller, topic: str, method: str
) -> None:
    fuzzer = Fuzzer(method)
    request_class = message_class(METHODS[method][0])

    for _ in range(CALLS_PER_METHOD):
        request = fuzzer.fill(request_class())
        answer = caller._stub("unary_unary", method)(request, metadata=FUZZ, timeout=PATIENCE_S)
        assert answer.status.code >= OK, request
        assert answer.status.code != 50001, (request, answer)

    assert serves(caller, topic)


@pytest.mark.parametrize("method", ["ReceiveMessage", "PullMessage"])
def test_senseless_receives_are_answered_with_a_status(
    broker: TestBroker, caller: Caller, topic: str, method: str
) -> None:
    fuzzer = Fuzzer(method)
    request_class = message_class(METHODS[method][0])

    for _ in range(CALLS_PER_METHOD):
        request = fuzzer.fill(request_class())
        request.long_polling_timeout.seconds = min(request.long_polling_timeout.seconds, 0)
        request.long_polling_timeout.nanos = 0
        answers = list(
            caller._stub("unary_stream", method)(request, metadata=FUZZ, timeout=PATIENCE_S)
        )
        assert answers[0].status.code >= OK, request
        assert answers[0].status.code != 50001, (request, answers)

    assert serves(caller, topic)


def test_senseless_commands_do_not_end_their_stream(caller: Caller, topic: str) -> None:
    fuzzer = Fuzzer("Telemetry")
    command_class = message_class("TelemetryCommand")
    senseless = [fuzzer.fill(command_class()) for _ in range(CALLS_PER_METHOD)]
    sound = command_class(settings={"client_type": 1, "publishing": {"topics": [{"name": topic}]}})
    asked = sum(each.WhichOneof("command") == "settings" for each in senseless)

    end = threading.Event()
    call = caller._stub("stream_stream", "Telemetry")
    stream = call(held_open(*senseless, sound, end=end), metadata=FUZZ, timeout=PATIENCE_S)
    answers = [next(stream) for _ in range(asked + 1)]
    end.set()
    stream.cancel()

    assert {answer.status.code for answer in answers[:-1]}.isdisjoint({0, 50001})
    assert answers[-1].status.code == OK
    assert answers[-1].settings.publishing.topics[0].name == topic


def test_every_field_of_every_method_is_fuzzed() -> None:
    assert {*UNARY, *STREAMING} == set(METHODS)
    assert set(STREAMING) == {"ReceiveMessage", "PullMessage", "Telemetry"}
    for method, (request, _) in METHODS.items():
        fuzzer = Fuzzer(method)
        descriptor = message_class(request.removeprefix("*")).DESCRIPTOR
        wanted = {name for name in fields_of(descriptor) if PACKAGE in name}
        for _ in range(FIELD_ROUNDS_MAX):
            if wanted <= fuzzer.seen:
                break
            fuzzer.fill(message_class(request.removeprefix("*"))())
        assert wanted <= fuzzer.seen, (method, wanted - fuzzer.seen)


@pytest.mark.parametrize("method", METHODS)
def test_bytes_that_are_no_request_are_answered_with_a_status(
    caller: Caller, topic: str, method: str
) -> None:
    """Wrong types of fields, and noise; some of it is a request, of fields that nobody knows."""
    fuzzer = Fuzzer(f"bytes for {method}")
    request, answer = (message_class(name.removeprefix("*")) for name in METHODS[method])
    kind = "unary_unary" if method in UNARY else "unary_stream"
    call = getattr(caller.channel, kind)(
        f"/{SERVICE}/{method}", response_deserializer=answer.FromString
    )

    codes = set()
    for turn in range(CALLS_PER_METHOD):
        data = fuzzer.noise() if turn % 4 == 0 else fuzzer.wrong_types(request.DESCRIPTOR)
        answered = call(data, metadata=FUZZ, timeout=PATIENCE_S)
        first = next(answered, None) if method not in UNARY else answered
        if first is not None:  # a stream that said nothing sensible ends without a word
            codes.add(first.status.code)

    assert UNREADABLE in codes
    assert codes.isdisjoint({0, 50001})
    assert serves(caller, topic)


def test_schema_is_the_one_that_was_written_down() -> None:
    """The fuzzer fills what the descriptors say; so they must say something."""
    file = build_pool().FindFileByName("dueline/messaging_service.proto")

    assert len(file.message_types_by_name) > 40
    system = file.message_types_by_name["SystemProperties"].fields_by_name
    assert {name: system[name].number for name in ("tag", "delivery_timestamp")} == {
        "tag": 1,
        "delivery_timestamp": 11,
    }
