"""One connection without a socket: time passes by hand, and what is written is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.unit.wire.http2.peers import (
    CALL,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    RESET,
    SETTINGS,
    WINDOW,
    block,
    frame,
    frames_of,
    setting,
    word,
)

from dueline.server.connections import Connections
from dueline.server.grpc.call import Call
from dueline.server.grpc.framing import GrpcStatus, framed
from dueline.server.grpc.hoard import Hoard
from dueline.server.grpc.link import Link, Links
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.reception import Refusal
from dueline.server.grpc.stubs import message_class

OPTIONS = GrpcOptions(stream_count_max=10, request_size_max=100_000)
HELLO = PREFACE + frame(SETTINGS, 0, 0)
SERVICE = "/apache.rocketmq.v2.MessagingService/"
Resource = message_class("Resource")


class Socket:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.write_count = 0
        self.is_reading = True
        self.end: str | None = None

    def write(self, data: bytes) -> None:
        self.written += data
        self.write_count += 1

    def frames(self) -> list[tuple[int, int, int, bytes]]:
        found = list(frames_of(self.written))
        self.written = b""
        return found

    def get_extra_info(self, name: str) -> Any:
        return {"peername": ("10.0.0.7", 4711)}.get(name)

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.end is not None

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def close(self) -> None:
        self.end = self.end or "closed"

    def abort(self) -> None:
        self.end = "aborted"


class Echo:
    """Answers with the request, or keeps the call."""

    def __init__(self) -> None:
        self.kept: list[Call] = []

    def takes_stream(self, method: str) -> bool:
        if method not in ("Echo", "Keep", "Stream"):
            raise Refusal(f"no {method}", status=GrpcStatus.UNIMPLEMENTED)
        return method == "Stream"

    def serve(self, call: Call, request: bytes | None) -> None:
        if call.method == "Echo" and request is not None:
            call.answer(Resource.FromString(request))
        else:
            self.kept.append(call)


class World:
    """One link and its ends."""

    def __init__(self, options: GrpcOptions = OPTIONS, hoard: Hoard | None = None) -> None:
        self.service, self.socket = Echo(), Socket()
        self.links = Links(
            options=options,
            service=self.service,
            connections=Connections(10),
            hoard=hoard or Hoard(),
        )
        self.link = Link(self.links)
        self.link.connection_made(self.socket)
        self.now_s = self.link.active_s

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        self.link.look(self.now_s)

    def greet(self) -> None:
        self.link.receive(HELLO)
        self.socket.frames()


def headers(method: str, stream: int = 1, *extra: tuple[str, str]) -> bytes:
    named = [*CALL[:2], (":path", SERVICE + method), *CALL[3:], *extra]
    return frame(HEADERS, END_HEADERS, stream, block(named))


def asked(method: str, name: str, stream: int = 1) -> bytes:
    request = framed(Resource(name=name).SerializeToString())
    return headers(method, stream) + frame(DATA, END_STREAM, stream, request)


def in_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(test())  # type: ignore[arg-type]

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@in_loop
async def test_all_answers_of_a_turn_are_one_write() -> None:
    world = World()
    world.greet()
    before = world.socket.write_count

    world.link.receive(asked("Echo", "a", 1) + asked("Echo", "b", 3) + asked("Echo", "c", 5))

    assert world.socket.write_count == before + 1
    bodies = [payload for kind, _, _, payload in world.socket.frames() if kind == DATA]
    assert bodies == [framed(Resource(name=each).SerializeToString()) for each in "abc"]
    assert world.link.calls == {}


@in_loop
async def test_answers_from_outside_a_turn_are_one_write_too() -> None:
    world = World()
    world.greet()
    world.link.receive(asked("Keep", "a", 1) + asked("Keep", "b", 3))
    before = world.socket.write_count

    for call in world.service.kept:
        call.answer(Resource(name="x"))
    assert world.socket.write_count == before
    await asyncio.sleep(0)

    assert world.socket.write_count == before + 1


@in_loop
async def test_who_calls_what_is_not_there_is_told() -> None:
    world = World()
    world.greet()
    world.link.receive(headers("Nothing"))

    (_, flags, _, payload), *_ = world.socket.frames()
    assert flags == END_HEADERS | END_STREAM
    assert b"grpc-status\x0212" in payload


@in_loop
async def test_a_peer_has_its_time_for_a_handshake() -> None:
    for first in (b"", PREFACE[:5], PREFACE):
        world = World()
        if first:
            world.link.receive(first)
        world.pass_s(9.0)
        assert world.socket.end is None
        world.pass_s(2.0)
        assert world.socket.end == "aborted"
    world = World()
    world.greet()
    world.pass_s(30.0)
    assert world.socket.end is None


@in_loop
async def test_a_silent_peer_is_asked_and_then_left() -> None:
    world = World()
    world.greet()
    world.pass_s(61.0)
    await asyncio.sleep(0)
    ((kind, flags, _, _),) = world.socket.frames()
    assert (kind, flags) == (PING, 0)
    world.pass_s(19.0)
    assert world.socket.end is None
    world.pass_s(2.0)
    assert world.socket.end == "aborted"


@in_loop
async def test_half_a_request_has_its_time() -> None:
    world = World()
    world.greet()
    world.link.receive(headers("Echo") + frame(DATA, 0, 1, b"\0\0\0\0\x09half"))
    assert world.links.hoard.size_bytes == 9
    world.link.receive(headers("Echo", 3))  # not even half
    world.socket.frames()
    world.pass_s(59.0)
    assert world.socket.frames() == []
    world.pass_s(2.0)
    await asyncio.sleep(0)

    ended = [stream for kind, _, stream, _ in world.socket.frames() if kind == RESET]
    assert ended == [1, 3]
    assert world.links.hoard.size_bytes == 0
    assert world.link.calls == {}


@in_loop
async def test_a_calls_time_is_over_when_it_said() -> None:
    world = World()
    world.greet()
    request = frame(DATA, END_STREAM, 1, framed(b""))
    world.link.receive(headers("Keep", 1, ("grpc-timeout", "2S")) + request)
    gone: list[int] = []
    world.service.kept[0].on_over(lambda: gone.append(1))
    world.pass_s(1.0)
    assert gone == []
    world.pass_s(2.0)
    await asyncio.sleep(0)

    assert b"grpc-status\x014" in world.socket.written
    assert gone == [1]
    assert world.link.calls == {}


@in_loop
async def test_an_answer_that_nobody_takes_has_its_time() -> None:
    world = World()
    world.greet()
    world.link.receive(frame(SETTINGS, 0, 0, setting(4, 0)) + asked("Echo", "x" * 1_000))
    assert world.links.hoard.size_bytes > 1_000
    assert 1 in world.link.calls
    world.pass_s(61.0)
    await asyncio.sleep(0)

    assert RESET in [kind for kind, *_ in world.socket.frames()]
    assert world.links.hoard.size_bytes == 0
    assert world.link.calls == {}


@in_loop
async def test_an_answer_goes_when_the_window_opens_and_leaves_nothing() -> None:
    world = World()
    world.greet()
    world.link.receive(frame(SETTINGS, 0, 0, setting(4, 0)) + asked("Echo", "x" * 1_000))
    world.socket.frames()
    world.link.receive(frame(WINDOW, 0, 1, word(5_000)))

    assert [kind for kind, *_ in world.socket.frames()] == [DATA, HEADERS]
    assert (world.link.calls, world.link._waiting) == ({}, {})
    assert world.links.hoard.size_bytes == 0


@in_loop
async def test_a_peer_that_does_not_read_is_not_read_from_and_has_its_time() -> None:
    world = World()
    world.greet()
    reading = []
    for step in (world.link.pause_writing, world.link.resume_writing, world.link.pause_writing):
        step()
        reading.append(world.socket.is_reading)
    assert reading == [False, True, False]
    world.pass_s(61.0)

    assert world.socket.end == "aborted"


@in_loop
async def test_whoever_hoards_goes() -> None:
    world = World(hoard=Hoard(50_000))
    world.greet()
    part = b"\0\0\0\xff\xff" + bytes(10_000)
    for stream in range(1, 11, 2):
        assert world.socket.end is None
        world.link.receive(headers("Echo", stream) + frame(DATA, 0, stream, part))

    assert world.socket.end == "aborted"


@in_loop
async def test_requests_of_a_stream_are_counted_until_they_are_taken() -> None:
    world = World()
    world.greet()
    world.link.receive(headers("Stream") + frame(DATA, 0, 1, framed(b"abc") * 2))
    assert world.links.hoard.size_bytes == 6

    taken = [request async for request in _some(world.service.kept[0], 2)]
    await asyncio.sleep(0)

    assert taken == [b"abc", b"abc"]
    assert world.links.hoard.size_bytes == 0


async def _some(call: Call, count: int) -> Any:
    async for request in call.requests():
        yield request
        count -= 1
        if not count:
            return


@in_loop
async def test_calls_end_with_their_connection() -> None:
    world = World()
    world.greet()
    world.link.receive(asked("Keep", "a"))
    gone: list[int] = []
    world.service.kept[0].on_over(lambda: gone.append(1))

    world.link.connection_lost(None)
    world.service.kept[0].answer(Resource())

    assert gone == [1]
    assert world.links.all == {}
    assert world.links.connections.file_count == 0


@in_loop
async def test_a_link_that_stops_lets_its_calls_end() -> None:
    world = World()
    world.greet()
    world.link.receive(asked("Keep", "a"))
    world.link.refuse()
    assert [kind for kind, *_ in world.socket.frames()] == [GOAWAY]
    assert world.socket.end is None

    world.service.kept[0].answer(Resource())
    for _ in range(2):
        await asyncio.sleep(0)

    assert [kind for kind, *_ in world.socket.frames()] == [HEADERS, DATA, HEADERS]
    assert world.socket.end == "closed"


@in_loop
async def test_a_link_that_is_stopped_says_so_to_those_who_wait() -> None:
    world = World()
    world.greet()
    world.link.receive(asked("Keep", "a"))
    world.link.stop()

    assert b"grpc-status\x0214" in world.socket.written
    assert world.socket.end == "closed"


@in_loop
async def test_another_protocol_is_told_which_port_this_is() -> None:
    world = World()
    world.link.receive(b"GET / HTTP/1.1\r\n\r\n")

    assert b"listen.grpc" in world.socket.written
    assert world.socket.end == "closed"
