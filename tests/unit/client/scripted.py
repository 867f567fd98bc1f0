"""A name server and broker on loopback whose answers a test writes, to play what others answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from tests.unit.wire.codecs import decode_command
from tests.waiting import PATIENCE_S

from dueline.wire import Command

Answers = Mapping[int, Callable[[Command], Command | None]]


@dataclass
class Scripted:
    """Answers by request code; what has no answer gets none."""

    answers: Answers
    requests: list[Command] = field(default_factory=list)
    address: str = ""

    def codes(self) -> list[int]:
        return [request.code for request in self.requests]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Its address, while it runs."""
        served: list[asyncio.Task[None]] = []

        def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            served.append(asyncio.create_task(self._serve(reader, writer)))

        server = await asyncio.start_server(begin, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield self.address
        finally:
            server.close()
            for task in served:
                task.cancel()
            await asyncio.gather(*served, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while request := await read_frame(reader):
                self.requests.append(request)
                answers = self.answers.get(request.code)
                answer = answers(request) if answers is not None else None
                if answer is not None and not request.is_oneway:
                    writer.write(answer.encode())
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    def route(self, request: Command) -> Command:
        """The answer to 105: two queues of every topic, here."""
        body = {
            "brokerDatas": [
                {"brokerName": "b", "cluster": "c", "brokerAddrs": {"0": self.address}}
            ],
            "queueDatas": [
                {
                    "brokerName": "b",
                    "perm": 6,
                    "readQueueNums": 2,
                    "writeQueueNums": 2,
                    "topicSysFlag": 0,
                }
            ],
            "filterServerTable": {},
        }
        return request.reply(code=0, body=json.dumps(body).encode())


async def read_frame(reader: asyncio.StreamReader) -> Command:
    """The next command, cut by its own length."""
    prefix = await reader.readexactly(4)
    return decode_command(prefix + await reader.readexactly(int.from_bytes(prefix, "big")))
