"""What the 5.x port takes: sends, receives and acknowledgements, by concurrent callers.

    python -m benchmarks.grpc [--seconds 3] [--body 200] [--encrypted]
                              [--before FOLDER] [--apache]

The broker runs as a process of its own, so that its processor time is its own. The callers (`load`)
share four connections. A receive takes up to 32 messages and an acknowledgement up to 32 receipts,
as the clients do; all are counted in messages. Every send and every acknowledgement is on disk when
it is answered. So many callers have a topic of their own to receive from: a group is handed 20,000
messages of a queue and no more before it acknowledges some.

`--before`: the same with the broker of another work tree of this repository, in the same run.
`--apache`: the same with Apache's broker and proxy in one process (local mode), if Java and Maven
are there. Each row is measured with one broker after the other, while the others wait.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import platform
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.grpc.brokers import CALLERS, TOPICS, Running, apache, dueline
from benchmarks.grpc.load import Connection, connect
from dueline.server.grpc.stubs import message_class

CONNECTIONS = 4
SEND_TOPIC = {"name": "bench-send"}
FILL_COUNT = 100_000
FILL_BATCH = 250
GROUP = {"name": "bench"}
OK = 20000

_Sent = message_class("SendMessageResponse")
_Received = message_class("ReceiveMessageResponse")
_Acknowledged = message_class("AckMessageResponse")


class Bench:
    """One broker, and callers of one kind at a time."""

    def __init__(self, broker: Running, *, seconds: float, body: bytes) -> None:
        self.broker = broker
        self._seconds = seconds
        self._topic = ""
        self._receipts: list[tuple[str, str]] = []
        self._connections: list[Connection] = []
        self._end_s = 0.0
        self._count = 0
        self._is_empty = False
        self._send = _bytes(
            "SendMessageRequest",
            messages=[
                {
                    "topic": SEND_TOPIC,
                    "body": body,
                    "system_properties": {"message_id": "m0", "message_type": 1, "queue_id": 0},
                }
            ],
        )
        system = {"message_id": "m0", "message_type": 1, "queue_id": 0}
        message = {"body": body, "system_properties": system}
        self._fills = {
            topic: _bytes(
                "SendMessageRequest", messages=[{**message, "topic": {"name": topic}}] * FILL_BATCH
            )
            for topic in TOPICS
        }
        self._fill_count = 0
        self._receives = {
            topic: _bytes(
                "ReceiveMessageRequest",
                group=GROUP,
                message_queue={"topic": {"name": topic}, "id": -1},
                filter_expression={"type": 1, "expression": "*"},
                batch_size=32,
                invisible_duration={"seconds": 600},
                long_polling_timeout={"seconds": 0},
            )
            for topic in TOPICS
        }

    async def open(self, *, is_tls: bool) -> None:
        self._connections = [
            await connect(self.broker.port, is_tls=is_tls) for _ in range(CONNECTIONS)
        ]

        # Apache's proxy serves only consumers that say what they are.
        settings = {"client_type": 3, "subscription": {"group": GROUP}}
        for each in self._connections:
            each.tell("Telemetry", _bytes("TelemetryCommand", settings=settings))

    async def fill(self) -> None:
        """Messages to receive. Apache's new groups begin at the end: it comes first."""
        for self._topic in TOPICS:
            self._end_s, self._is_empty = time.monotonic() + self._seconds, False
            await self._connections[0].run(1, self._next_receive, self._received)
            self._fill_count = FILL_COUNT // FILL_BATCH
            await self._connections[0].run(4, self._next_fill, self._sent)

    def _next_fill(self) -> tuple[str, bytes] | None:
        self._fill_count -= 1
        return ("SendMessage", self._fills[self._topic]) if self._fill_count >= 0 else None

    async def measure(self, kind: str, count: int) -> tuple[float, float]:
        """Messages a second, and the broker's processor time for each, in microseconds."""
        steps = {
            "send": (self._next_send, self._sent),
            "receive": (self._next_receive, self._received),
            "acknowledge": (self._next_ack, self._acknowledged),
        }
        self._topic = f"bench-{count}"
        used = self._connections[: min(count, CONNECTIONS)]
        self._count, self._is_empty = 0, False
        start_s, start_cpu_s = time.monotonic(), self.broker.cpu_s()
        self._end_s = start_s + self._seconds
        await asyncio.gather(*(each.run(count // len(used), *steps[kind]) for each in used))
        spent_s = time.monotonic() - start_s
        cpu_us = (self.broker.cpu_s() - start_cpu_s) / max(self._count, 1) * 1e6
        return self._count / spent_s, cpu_us

    def _has_time(self) -> bool:
        return time.monotonic() < self._end_s

    def _next_send(self) -> tuple[str, bytes] | None:
        return ("SendMessage", self._send) if self._has_time() else None

    def _sent(self, method: str, messages: list[bytes]) -> None:
        answer = _Sent.FromString(messages[0])
        assert answer.status.code == OK, answer
        self._count += 1

    def _next_receive(self) -> tuple[str, bytes] | None:
        is_on = self._has_time() and not self._is_empty
        return ("ReceiveMessage", self._receives[self._topic]) if is_on else None

    def _received(self, method: str, messages: list[bytes]) -> None:
        count = 0
        for each in messages:
            answer = _Received.FromString(each)
            if answer.WhichOneof("content") == "message":
                receipt = answer.message.system_properties.receipt_handle
                self._receipts.append((self._topic, receipt))
                count += 1
        self._is_empty = not count
        self._count += count

    def _next_ack(self) -> tuple[str, bytes] | None:
        some, self._receipts = self._receipts[:32], self._receipts[32:]
        if not some or not self._has_time():
            return None
        topic = {"name": some[0][0]}
        entries = [
            {"message_id": "m0", "receipt_handle": receipt}
            for name, receipt in some
            if name == topic["name"]
        ]
        return "AckMessage", _bytes("AckMessageRequest", group=GROUP, topic=topic, entries=entries)

    def _acknowledged(self, method: str, messages: list[bytes]) -> None:
        answer = _Acknowledged.FromString(messages[0])
        assert answer.status.code == OK, answer
        self._count += len(answer.entries)


def _bytes(name: str, **fields: Any) -> bytes:
    return bytes(message_class(name)(**fields).SerializeToString())


async def run(brokers: list[Running], arguments: argparse.Namespace) -> None:
    body = b"x" * arguments.body
    benches = [Bench(each, seconds=arguments.seconds, body=body) for each in brokers]
    for bench in benches:
        await bench.open(is_tls=arguments.encrypted)
        await bench.fill()
    print("| | " + " | | ".join(bench.broker.name for bench in benches) + " | |")
    for kind in ("send", "receive", "acknowledge"):
        for count in CALLERS:
            cells = []
            for bench in benches:
                rate, cpu_us = await bench.measure(kind, count)
                cells.append(f"{rate:,.0f} | {cpu_us:,.0f}")
            print(f"| {kind}, {count} callers | " + " | ".join(cells) + " |", flush=True)


@contextlib.contextmanager
def started(arguments: argparse.Namespace) -> Iterator[list[Running]]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        here = Path(__file__).resolve().parents[2]
        running = [stack.enter_context(dueline("Dueline", here, folder / "now"))]
        if arguments.before:
            running.append(
                stack.enter_context(
                    dueline("before", arguments.before.resolve(), folder / "before")
                )
            )
        if arguments.apache:
            running.append(stack.enter_context(apache(folder / "apache")))
        yield running


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--body", type=int, default=200)
    parser.add_argument("--encrypted", action="store_true", help="call by TLS")
    parser.add_argument("--before", type=Path, help="another work tree, with its own .venv")
    parser.add_argument("--apache", action="store_true")
    arguments = parser.parse_args()
    print(f"{platform.platform()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with started(arguments) as brokers:
        asyncio.run(run(brokers, arguments))


if __name__ == "__main__":
    main()
