"""One connection's requests, when they are many at once."""

import asyncio
import itertools
import json
import struct
from concurrent.futures import ThreadPoolExecutor

import pytest

from dueline.server.outbox import Outbox
from dueline.server.remoting.answers import OK, Response
from dueline.server.remoting.channel import Channel, Request
from dueline.server.remoting.hub import Hub
from dueline.server.runtime import Runtime
from dueline.wire import Command

COUNT = 200


class Transport(asyncio.Transport):
    """What a connection writes, and whether it is read from."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True
        self.written = bytearray()
        self.has_written = asyncio.Event()

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data
        self.has_written.set()

    def is_closing(self) -> bool:
        return False


def connected(hub: Hub) -> tuple[Channel, Transport]:
    channel, transport = Channel(hub), Transport()
    channel.connection_made(transport)
    return channel, transport


def test_many_requests_of_one_do_not_keep_another_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[str]:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as threads:
            hub = Hub("broker", Runtime(loop=loop, outbox=Outbox(loop), threads=threads))
            order: list[str] = []
            is_done = asyncio.Event()

            def note(request: Request) -> Response:
                order.append("greedy" if request.channel is greedy else "modest")
                if len(order) > COUNT:
                    is_done.set()
                return OK

            hub.add({1: note})
            (greedy, reading), (modest, _) = connected(hub), connected(hub)
            ticks = itertools.count()
            with monkeypatch.context() as time:
                # Each look at the clock finds it a millisecond later.
                time.setattr(loop, "time", lambda: next(ticks) / 1_000)
                greedy.data_received(
                    b"".join(Command(code=1, opaque=n).encode() for n in range(COUNT))
                )
                was_read = reading.is_read
                modest.data_received(Command(code=1, opaque=1).encode())
            await is_done.wait()
            await asyncio.sleep(0)
            assert (was_read, reading.is_read) == (False, True)
            return order

    order = asyncio.run(run())

    assert order.index("modest") < 10
    assert order.count("greedy") == COUNT


def test_an_answer_that_is_too_large_to_be_sent_is_no_refusal() -> None:
    """What was asked for is done by then, so the peer must not be told that it is not."""

    async def run() -> bytes:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as threads:
            hub = Hub("broker", Runtime(loop=loop, outbox=Outbox(loop), threads=threads))
            hub.add({1: lambda request: Response(code=0, body=bytes(17 << 20))})
            channel, transport = connected(hub)
            channel.data_received(Command(code=1, opaque=77).encode())
            await transport.has_written.wait()
            return bytes(transport.written)

    written = asyncio.run(run())

    size, header_size = struct.unpack_from(">II", written)
    assert size + 4 == len(written)
    header = json.loads(written[8 : 8 + (header_size & 0xFFFFFF)])
    assert (header["opaque"], header["code"]) == (77, 1)
    assert "larger than a frame" in header["remark"]
