"""The client's connection over loopback, to a server that the test plays."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.unit.client.scripted import read_frame
from tests.waiting import PATIENCE_S

from dueline.client.connection import AsyncConnection, Dialling
from dueline.errors import Unavailable
from dueline.wire import Command

Play = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Use = Callable[[AsyncConnection], Awaitable[None]]


def run(play: Play, use: Use, asked: list[Command] | None = None) -> None:
    """A server that does `play` with its one connection, and a client that does `use`."""

    async def both() -> None:
        is_served = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await play(reader, writer)
            writer.close()
            is_served.set()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        how = Dialling(timeout_s=PATIENCE_S, on_request=(asked if asked is not None else []).append)
        connection = await AsyncConnection.open(f"127.0.0.1:{port}", how)
        async with asyncio.timeout(PATIENCE_S):
            await use(connection)
            await connection.close()
            await is_served.wait()
        server.close()

    asyncio.run(both())


async def until_closed(reader: asyncio.StreamReader) -> None:
    await reader.read()


def test_answers_find_their_requests_in_any_order() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = [await read_frame(reader) for _ in range(3)]
        for request in reversed(requests):
            writer.write(request.reply(code=0, body=request.body.upper()).encode())
        await until_closed(reader)

    async def use(connection: AsyncConnection) -> None:
        calls = [
            connection.call(10, body=body, timeout_s=PATIENCE_S) for body in (b"a", b"b", b"c")
        ]
        assert [each.body for each in await asyncio.gather(*calls)] == [b"A", b"B", b"C"]

    run(play, use)


def test_a_request_that_is_not_answered_in_time_is_given_up_and_the_others_are_not() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ignored, patient, last = [await read_frame(reader) for _ in range(3)]
        for request in (ignored, patient, last):  # the first of them is too late
            writer.write(request.reply(code=0, body=request.body).encode())
        await until_closed(reader)

    async def use(connection: AsyncConnection) -> None:
        patient = asyncio.ensure_future(connection.call(11, body=b"patient", timeout_s=PATIENCE_S))
        with pytest.raises(Unavailable, match=r"answer to request 10 within 0\.01 s; is it"):
            await connection.call(10, timeout_s=0.01)
        last = await connection.call(12, body=b"last", timeout_s=PATIENCE_S)
        assert ((await patient).body, last.body) == (b"patient", b"last")

    run(play, use)


def test_waiting_requests_end_with_the_connection() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_frame(reader)

    async def use(connection: AsyncConnection) -> None:
        with pytest.raises(Unavailable, match="the connection was closed"):
            await connection.call(10, timeout_s=PATIENCE_S)
        assert not connection.is_open
        with pytest.raises(Unavailable, match="the connection was closed"):
            await connection.call(10, timeout_s=PATIENCE_S)

    run(play, use)


def test_something_else_than_the_protocol_is_named() -> None:
    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await until_closed(reader)

    async def use(connection: AsyncConnection) -> None:
        with pytest.raises(Unavailable, match="is it the port of a name server or a broker"):
            await connection.call(10, timeout_s=PATIENCE_S)

    run(play, use)


def test_questions_of_the_server_are_passed_on_and_answered() -> None:
    answers: list[Command] = []
    asked: list[Command] = []

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(Command(code=40, opaque=1, flag=2).encode())
        writer.write(Command(code=307, opaque=2).encode())
        frames = [await read_frame(reader) for _ in range(2)]
        answers.extend(frame for frame in frames if frame.is_response)
        (request,) = (frame for frame in frames if not frame.is_response)
        writer.write(request.reply(code=0).encode())
        await until_closed(reader)

    async def use(connection: AsyncConnection) -> None:
        await connection.call(10, timeout_s=PATIENCE_S)

    run(play, use, asked)

    assert [command.code for command in asked] == [40, 307]
    (answer,) = answers
    assert (answer.opaque, answer.is_response, answer.code) == (2, True, 3)


def test_a_server_that_does_not_read_is_not_sent_to_without_end() -> None:
    is_over = asyncio.Event()

    async def play(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await is_over.wait()

    async def use(connection: AsyncConnection) -> None:
        body = bytes(4 << 20)
        calls = [connection.call(10, body=body, timeout_s=0.2) for _ in range(20)]
        results = await asyncio.gather(*calls, return_exceptions=True)
        is_over.set()
        assert {type(result) for result in results} == {Unavailable}
        unsent = connection._transport.get_write_buffer_size()
        assert unsent <= 2 * len(body)

    run(play, use)
