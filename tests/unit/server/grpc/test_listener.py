"""The listening side: one port, real sockets, an end."""

from __future__ import annotations

import asyncio

from tests.unit.server.grpc.test_link import HELLO, Echo, asked
from tests.unit.wire.http2.peers import DATA, GOAWAY, frames_of

from dueline.server.grpc.call import Call
from dueline.server.grpc.listener import Listener
from dueline.server.grpc.options import GrpcOptions


class Keeping(Echo):
    """Says when there is a call."""

    def __init__(self) -> None:
        super().__init__()
        self.has_call = asyncio.Event()

    def serve(self, call: Call, request: bytes | None) -> None:
        super().serve(call, request)
        self.has_call.set()


async def read_until(reader: asyncio.StreamReader, kind: int) -> list[tuple[int, bytes]]:
    """Frames up to the first of this kind, or to the end."""
    found: list[tuple[int, bytes]] = []
    data = b""
    while part := await reader.read(65_536):
        data += part
        found = [(each[0], each[3]) for each in frames_of(data)]
        if kind in [each for each, _ in found]:
            break
    return found


def test_connections_are_served_looked_after_and_ended() -> None:
    async def run() -> None:
        listener = Listener(GrpcOptions(), Echo())
        port = await listener.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HELLO + asked("Echo", "name"))
        found = await read_until(reader, DATA)
        assert found[-2][1].endswith(b"name") or found[-1][1].endswith(b"name")
        assert len(listener.links.all) == 1
        assert listener._timer is not None

        await listener.stop(1.0)

        assert [kind for kind, _ in await read_until(reader, GOAWAY)][-1] == GOAWAY
        assert await reader.read() == b""
        assert listener.links.all == {}
        writer.close()

    asyncio.run(run())


def test_calls_that_do_not_end_are_ended() -> None:
    async def run() -> None:
        service = Keeping()
        listener = Listener(GrpcOptions(), service)
        port = await listener.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HELLO + asked("Keep", "name"))
        await service.has_call.wait()

        await listener.stop(0.0)

        assert listener.links.all == {}
        assert b"grpc-status\x0214" in await reader.read()
        writer.close()

    asyncio.run(run())
