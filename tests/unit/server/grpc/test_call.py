"""A call: requests as they come, answers as they go, and its end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.unit.server.grpc.world import Way
from tests.unit.wire.http2.peers import (
    DATA,
    END_HEADERS,
    HEADERS,
    PREFACE,
    RESET,
    SETTINGS,
    WINDOW,
    frame,
    frames_of,
    word,
)
from tests.unit.wire.http2.peers import (
    call as headers_of,
)

from dueline.errors import LimitExceeded
from dueline.server.grpc.call import Call
from dueline.server.grpc.framing import GrpcStatus, Unreadable, framed
from dueline.server.grpc.reception import Asked
from dueline.server.grpc.stubs import message_class

ASKED = Asked(method="SendMessage", metadata={"a": "b"}, timeout_s=2.0, encoding="identity")
MESSAGE = message_class("Resource")(name="orders")


@pytest.fixture
def way() -> Way:
    way = Way()
    way.http2.receive(PREFACE + frame(SETTINGS, 0, 0) + headers_of(flags=END_HEADERS))
    way.http2.output()
    return way


def begun(way: Way) -> Call:
    return Call(way, 1, ASKED, request_size_max=100, now_s=50.0)


def kinds(way: Way) -> list[int]:
    return [kind for kind, *_ in frames_of(way.http2.output())]


def test_a_call_says_what_it_is_about(way: Way) -> None:
    call = begun(way)

    assert (call.method, call.metadata, call.deadline_s) == ("SendMessage", {"a": "b"}, 52.0)
    assert call.peer is way.peer


def test_an_answer_is_headers_data_and_trailers_and_the_only_one(way: Way) -> None:
    call, ended = begun(way), []
    call.on_over(lambda: ended.append(1))
    call.on_data(framed(b"request"), True)
    assert call.request() == b"request"

    call.answer(MESSAGE)
    call.answer(MESSAGE)
    call.fail(GrpcStatus.INTERNAL, "too late")

    found = list(frames_of(way.http2.output()))
    assert [kind for kind, *_ in found] == [HEADERS, DATA, HEADERS, RESET]
    assert found[1][3] == framed(b"\x12\x06orders")
    assert ended == [1]


def test_many_answers_are_written_together(way: Way) -> None:
    call = begun(way)
    call.write(MESSAGE, MESSAGE, MESSAGE)

    found = [payload for kind, _, _, payload in frames_of(way.http2.output()) if kind == DATA]

    assert found == [framed(b"\x12\x06orders") * 3]


@pytest.mark.parametrize("count", [0, 2])
def test_one_request_is_one(way: Way, count: int) -> None:
    call = begun(way)
    call.on_data(framed(b"x") * count, True)
    with pytest.raises(Unreadable, match=f"found {count}"):
        call.request()


def test_half_a_request_is_none(way: Way) -> None:
    call = begun(way)
    call.on_data(framed(b"abcdef")[:7], False)
    assert call.is_half
    assert call.buffered_bytes == 7
    with pytest.raises(Unreadable, match="a part"):
        call.on_data(b"", True)


def test_requests_of_a_stream_are_credited_when_they_are_taken(way: Way) -> None:
    call, taken = begun(way), []

    async def take() -> None:
        async for request in call.requests():
            taken.append(request)  # noqa: PERF401 - seen as they come

    async def run() -> None:
        task = asyncio.ensure_future(take())
        await asyncio.sleep(0)
        call.on_data(framed(b"one") + framed(b"two"), False)
        assert WINDOW not in kinds(way)
        for _ in range(3):
            await asyncio.sleep(0)
        assert taken == [b"one", b"two"]
        assert kinds(way) == [WINDOW]
        call.on_data(b"", True)
        await task

    asyncio.run(run())


def test_flushed_waits_for_the_client(way: Way) -> None:
    call = begun(way)
    large = message_class("Resource")(name="x" * 70_000)

    async def run() -> None:
        call.write(large)
        call.finish()
        task = asyncio.ensure_future(call.flushed())
        await asyncio.sleep(0)
        call.look()
        await asyncio.sleep(0)
        assert not task.done()
        way.http2.receive(frame(WINDOW, 0, 0, word(1 << 20)) + frame(WINDOW, 0, 1, word(1 << 20)))
        call.look()
        await task

    asyncio.run(run())


def test_a_client_that_does_not_read_is_not_written_to_for_ever(way: Way) -> None:
    call = begun(way)
    large: Any = message_class("Resource")(name="x" * 600_000)
    for _ in range(2):
        call.push(large)

    with pytest.raises(LimitExceeded, match="a client that reads"):
        call.push(large)


def test_what_takes_too_long_is_ended_one_way_or_the_other(way: Way) -> None:
    silent = begun(way)
    silent.give_up(GrpcStatus.DEADLINE_EXCEEDED, "too long")
    assert kinds(way) == [HEADERS, HEADERS, RESET]

    way.http2.receive(headers_of(3, flags=END_HEADERS))
    call = Call(way, 3, ASKED, request_size_max=100, now_s=0.0)
    call.write(message_class("Resource")(name="x" * 70_000))
    way.http2.output()
    call.give_up(GrpcStatus.DEADLINE_EXCEEDED, "too long")
    assert kinds(way) == [RESET]
    assert way.http2.queued_bytes == 0
