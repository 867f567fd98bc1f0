"""The way of every call to its method: reading, refusing, failing, and giving its share back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.grpc.world import GrpcWorld, Way, grpc_world, make

from dueline.errors import NotFound
from dueline.server.grpc import call as grpc_call
from dueline.server.grpc.codes import Code
from dueline.server.grpc.framing import GrpcStatus
from dueline.server.grpc.reception import Asked, Refusal
from dueline.server.grpc.schema import METHODS
from dueline.server.grpc.service import MessagingService


class Call(grpc_call.Call):
    """A call of one method that shows what was answered."""

    def __init__(self, method: str) -> None:
        asked = Asked(
            method=method, metadata={"x-mq-client-id": "c"}, timeout_s=None, encoding="identity"
        )
        super().__init__(Way(), 1, asked, request_size_max=1 << 20, now_s=0.0)
        self.answers: list[Any] = []

    def answer(self, message: Any) -> None:
        self.answers.append(message)
        self.end()

    def write(self, *messages: Any) -> None:
        self.answers.extend(messages)

    def finish(self) -> None:
        self.end()

    def end(self) -> None:
        for close in self._closers:
            close()
        self._closers.clear()
        self.is_over = True

    async def flushed(self) -> None:
        """At once."""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GrpcWorld]:
    with grpc_world(tmp_path) as made:
        yield made


@pytest.fixture
def service(world: GrpcWorld) -> MessagingService:
    return MessagingService(world.parts)


def served(world: GrpcWorld, service: MessagingService, method: str, request: bytes) -> Any:
    """The only answer to a call."""
    call = Call(method)

    async def serve() -> None:
        service.serve(call, request)
        if call.task is not None:
            await call.task

    world.run(serve())
    (answer,) = call.answers
    assert call.is_over
    return answer


def test_every_method_of_the_protocol_is_served(service: MessagingService) -> None:
    served = [*service._direct, *service._unary, *service._streams, "Telemetry"]

    assert sorted(served) == sorted(METHODS)
    assert [name for name in METHODS if service.takes_stream(name)] == ["Telemetry"]


def test_another_method_is_refused_by_name_and_not_at_length(service: MessagingService) -> None:
    with pytest.raises(Refusal, match=r"expected a method of apache\.rocketmq") as caught:
        service.takes_stream("x" * 1_000)

    assert caught.value.status == GrpcStatus.UNIMPLEMENTED
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("method", ["SendMessage", "QueryRoute", "ReceiveMessage"])
def test_bytes_that_are_no_request_are_refused_in_the_answer(
    world: GrpcWorld, service: MessagingService, method: str
) -> None:
    answer = served(world, service, method, b"\xff\xff\xff")

    assert answer.status.code == Code.BAD_REQUEST
    assert f"expected a {method}Request, found" in answer.status.message
    assert type(answer).DESCRIPTOR.name == f"{method}Response"


def test_a_method_answers_and_gives_its_share_back(
    world: GrpcWorld, service: MessagingService
) -> None:
    world.inside.send(b"17", topic="orders")

    answer = served(
        world, service, "QueryRoute", make("QueryRouteRequest", topic="orders").SerializeToString()
    )

    assert answer.status.code == Code.OK
    assert {each.topic.name for each in answer.message_queues} == {"orders"}
    assert world.parts.calls.count == 0


@pytest.mark.parametrize("kind", ["_direct", "_unary"])
def test_an_error_of_ours_is_the_status_and_its_words(
    world: GrpcWorld, service: MessagingService, kind: str
) -> None:
    method = {"_direct": "SendMessage", "_unary": "QueryRoute"}[kind]

    def refuse(request: Any, call: Any) -> Any:
        raise NotFound("topic: none", what="topic")

    getattr(service, kind)[method] = refuse

    answer = served(world, service, method, b"")

    assert (answer.status.code, answer.status.message) == (Code.TOPIC_NOT_FOUND, "topic: none")
    assert world.parts.calls.count == 0


@pytest.mark.parametrize("kind", ["_direct", "_unary", "_streams"])
def test_a_mistake_of_ours_is_logged_and_its_words_stay_here(
    world: GrpcWorld, service: MessagingService, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    method = {"_direct": "SendMessage", "_unary": "QueryRoute", "_streams": "PullMessage"}[kind]

    def fail(request: Any, call: Any) -> Any:
        raise ZeroDivisionError("a secret of ours")

    getattr(service, kind)[method] = fail

    answer = served(world, service, method, b"")

    assert answer.status.code == Code.INTERNAL_SERVER_ERROR
    assert answer.status.message == "the broker failed; see its log"
    assert f"{method} failed" in caplog.text
    assert "a secret of ours" in caplog.text
    assert world.parts.calls.count == 0


def test_who_may_not_is_refused_before_anything_is_done(
    world: GrpcWorld, service: MessagingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    service._direct["SendMessage"] = lambda request, call: done.append(request)

    def refuse(*given: object, **more: object) -> None:
        raise NotFound("user: none", what="topic")

    monkeypatch.setattr(world.parts.guard, "admit", refuse)

    answer = served(world, service, "SendMessage", b"")

    assert answer.status.message == "user: none"
    assert (done, world.parts.calls.count) == ([], 0)
