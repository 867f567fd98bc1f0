"""The way in: who is let through, who is told why not, and what a flood of newcomers can take."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import wait_until

from dueline.server.connections import Connections
from dueline.server.tls import Entrance, Tls, TlsOptions
from dueline.server.tls.entrance import EntranceOptions

HELLO = b"\x16\x03\x01"
"""How TLS begins."""


class Echo(asyncio.Protocol):
    """Answers with what it got, and remembers on what kind of connection."""

    def __init__(self, seen: list[bool]) -> None:
        self._seen = seen
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._seen.append(transport.get_extra_info("sslcontext") is not None)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


class World:
    """A port with an entrance."""

    def __init__(self, folder: Path, mode: str, options: EntranceOptions | None = None) -> None:
        self.seen: list[bool] = []
        plain = EntranceOptions(name="echo", make=lambda: Echo(self.seen))
        self.connections = Connections(1_000)
        self.entrance = Entrance(
            replace(options or plain, make=plain.make),
            Tls(TlsOptions(mode=mode), folder),
            self.connections,
        )
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(self.entrance, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            self.entrance.close()

    async def open(self, *, secured: bool = False) -> Any:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=context if secured else None
        )


async def said(world: World, first: bytes, *, secured: bool = False) -> bytes:
    """What comes back to a client that says this."""
    reader, writer = await world.open(secured=secured)
    writer.write(first)
    try:
        return bytes(await reader.read(1_024))
    finally:
        writer.close()


async def end_of(reader: asyncio.StreamReader) -> bool:
    """Whether the connection ends without a byte, in order or not."""
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


async def until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, condition, "a condition")


@pytest.mark.parametrize("secured", [True, False])
def test_permissive_port_hands_both_kinds_over_with_their_first_bytes(
    tmp_path: Path, secured: bool
) -> None:
    async def run() -> None:
        world = World(tmp_path, "permissive")
        async with world.serving():
            assert await said(world, b"hello", secured=secured) == b"hello"
            assert world.seen == [secured]
            assert not world.entrance.newcomers

    asyncio.run(run())


def test_port_without_tls_answers_with_an_alert(tmp_path: Path) -> None:
    async def run() -> None:
        world = World(tmp_path, "disabled")
        async with world.serving():
            alert = await said(world, HELLO)

            assert alert[0] == 0x15  # a record of this type is an alert
            assert alert[5] == 2  # and this one is fatal
            assert world.entrance.counts.refused == 1
            assert await said(world, b"hello") == b"hello"

    asyncio.run(run())


def test_port_with_tls_only_has_words_for_plain_text(tmp_path: Path) -> None:
    async def run() -> None:
        options = EntranceOptions(
            name="echo", make=asyncio.Protocol, refuse_plain=lambda first: b"no: " + first
        )
        world = World(tmp_path, "enforcing", options)
        async with world.serving():
            assert await said(world, b"hello") == b"no: hello"
            assert await said(world, b"hello", secured=True) == b"hello"
            assert world.seen == [True]

    asyncio.run(run())


def test_who_says_nothing_is_closed(tmp_path: Path) -> None:
    async def run() -> None:
        options = EntranceOptions(name="echo", make=asyncio.Protocol, first_byte_s_max=0.02)
        world = World(tmp_path, "permissive", options)
        async with world.serving():
            reader, writer = await world.open()

            assert await end_of(reader)
            await until(lambda: world.connections.file_count == 0)
            writer.close()

    asyncio.run(run())


@pytest.mark.parametrize("first", [HELLO, HELLO + b"\x02\x00" + bytes(512)], ids=["half", "wrong"])
def test_handshake_that_does_not_end_is_ended(tmp_path: Path, first: bytes) -> None:
    async def run() -> None:
        options = EntranceOptions(name="echo", make=asyncio.Protocol, handshake_s_max=0.05)
        world = World(tmp_path, "permissive", options)
        async with world.serving():
            _, writer = await world.open()
            writer.write(first)

            await until(lambda: world.entrance.counts.failed == 1)
            assert world.entrance.handshakes.count == 0
            assert world.connections.file_count == 0
            assert not world.entrance.newcomers
            assert world.seen == []
            writer.close()

    asyncio.run(run())


def test_handshakes_at_a_time_are_bounded(tmp_path: Path) -> None:
    async def run() -> None:
        options = EntranceOptions(name="echo", make=asyncio.Protocol, handshake_count_max=3)
        world = World(tmp_path, "permissive", options)
        async with world.serving():
            peers = [await world.open() for _ in range(8)]
            for _, writer in peers:
                writer.write(HELLO)

            await until(lambda: world.entrance.counts.refused == 5)
            assert world.entrance.handshakes.count == 3
            for _, writer in peers:
                writer.close()
            await until(lambda: world.entrance.handshakes.count == 0)
            assert await said(world, b"hello", secured=True) == b"hello"

    asyncio.run(run())


def test_newcomer_beyond_the_budget_of_files_is_closed(tmp_path: Path) -> None:
    async def run() -> None:
        world = World(tmp_path, "permissive")
        world.connections.note_other(1_000)
        async with world.serving():
            reader, writer = await world.open()
            writer.write(b"hello")

            assert await end_of(reader)
            writer.close()
            assert world.seen == []

    asyncio.run(run())
