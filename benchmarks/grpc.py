"""What the gRPC port takes: sends, receives and acknowledgements, by concurrent callers.

    python -m benchmarks.grpc [--seconds 3] [--tls auto|off] [--body 200]

The broker runs as a process of its own, so that its processor time is its own; the callers share
one asyncio loop in this process, which on a small machine is as busy as the broker. A receive takes
up to 32 messages and an acknowledgement up to 32 receipts, as the clients do; both are counted in
messages. Every send and every acknowledgement is on disk when it is answered.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
from dueline.server.grpc.schema import METHODS, SERVICE
from dueline.server.grpc.stubs import message_class

CALLERS = (1, 8, 64)
CHANNELS = 4
METADATA = (("x-mq-client-id", "bench"),)

Step = Callable[[Any, int], Awaitable[int]]


class Bench:
    """One broker, and callers of one kind at a time."""

    def __init__(self, port: int, pid: int, *, seconds: float, body: bytes) -> None:
        self._target = f"127.0.0.1:{port}"
        self._pid = pid
        self._seconds = seconds
        self._body = body
        self._receipts: list[str] = []

    async def run(self) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        channels = [
            grpc.aio.insecure_channel(self._target, options=options) for _ in range(CHANNELS)
        ]
        for count in CALLERS:
            await self._measure("send", self._send, channels, count)
            await self._measure("receive", self._receive, channels, count)
            await self._measure("ack", self._ack, channels, count)
        for channel in channels:
            await channel.close()

    async def _measure(self, name: str, step: Step, channels: list[Any], count: int) -> None:
        start_s, start_cpu_s = time.monotonic(), self._cpu_s()
        end_s = start_s + self._seconds

        async def caller(number: int) -> int:
            done = 0
            while time.monotonic() < end_s and (
                more := await step(channels[number % CHANNELS], number)
            ):
                done += more
            return done

        total = sum(await asyncio.gather(*(caller(number) for number in range(count))))
        spent_s = time.monotonic() - start_s
        cpu_us = (self._cpu_s() - start_cpu_s) / max(total, 1) * 1e6
        print(
            f"{name:8} {count:3} callers {total / spent_s:9,.0f} messages/s {cpu_us:7.0f} us each"
        )

    async def _send(self, channel: Any, number: int) -> int:
        message = {
            "topic": {"name": "bench"},
            "body": self._body,
            "system_properties": {"message_id": f"m{number}", "message_type": 1},
        }
        answer = await _unary(channel, "SendMessage", messages=[message])
        assert answer.status.code == 20000, answer
        return 1

    async def _receive(self, channel: Any, number: int) -> int:
        call = channel.unary_stream(f"/{SERVICE}/ReceiveMessage", **_codecs("ReceiveMessage"))
        request = message_class("ReceiveMessageRequest")(
            group={"name": "bench"},
            message_queue={"topic": {"name": "bench"}},
            batch_size=32,
            invisible_duration={"seconds": 600},
            long_polling_timeout={"seconds": 0},
        )
        count = 0
        async for answer in call(request, metadata=METADATA):
            if answer.WhichOneof("content") == "message":
                self._receipts.append(answer.message.system_properties.receipt_handle)
                count += 1
        return count

    async def _ack(self, channel: Any, number: int) -> int:
        some, self._receipts = self._receipts[:32], self._receipts[32:]
        if not some:
            return 0
        entries = [{"receipt_handle": receipt} for receipt in some]
        names = {"group": {"name": "bench"}, "topic": {"name": "bench"}}
        answer = await _unary(channel, "AckMessage", entries=entries, **names)
        assert answer.status.code == 20000, answer
        return len(some)

    def _cpu_s(self) -> float:
        """Processor time of the broker so far."""
        words = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


async def _unary(channel: Any, method: str, **fields: Any) -> Any:
    request = message_class(METHODS[method][0])(**fields)
    call = channel.unary_unary(f"/{SERVICE}/{method}", **_codecs(method))
    return await call(request, metadata=METADATA)


def _codecs(method: str) -> dict[str, Any]:
    request, answer = METHODS[method]
    return {
        "request_serializer": message_class(request).SerializeToString,
        "response_deserializer": message_class(answer.removeprefix("*")).FromString,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--body", type=int, default=200)
    parser.add_argument("--tls", default="auto", choices=("auto", "off"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.grpc.broker", folder, "--tls", arguments.tls]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as broker:
            assert broker.stdout is not None
            assert broker.stdin is not None
            port = json.loads(broker.stdout.readline())["port"]
            bench = Bench(port, broker.pid, seconds=arguments.seconds, body=b"x" * arguments.body)
            asyncio.run(bench.run())
            broker.stdin.close()
            broker.stdout.read()


if __name__ == "__main__":
    main()
