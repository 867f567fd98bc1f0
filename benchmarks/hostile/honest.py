"""Honest clients: so many delayed messages a second, and a consumer that notes when each came.

    python -m benchmarks.hostile.honest NAME-SERVER TOPIC SECONDS RATE SEED

Prints one line of JSON: how many were acknowledged, refused, lost, early and twice, and how late
they came. It runs as a process of its own, so that nobody's processor time but the broker's and its
own is in its figures. A message that the broker refuses is sent again, as clients do.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Final

from dueline.client import AsyncProducer, AsyncReader, Outgoing
from dueline.clock import system_time_ms
from dueline.errors import BrokerError

__all__ = ["Result"]

DELAY_MS: Final = (2_000, 5_000)
_TURN_S: Final = 0.1
_PATIENCE_S: Final = 120.0
_ANSWER_S_MAX: Final = 10.0


@dataclass(slots=True, kw_only=True)
class Result:
    """What honest clients saw."""

    acknowledged: int = 0
    again: int = 0
    """Sends that were refused or not answered, and made again."""
    lost: int = 0
    early: int = 0
    twice: int = 0
    late_p50_ms: int = 0
    late_p99_ms: int = 0
    late_max_ms: int = 0
    send_p99_ms: int = 0
    send_max_ms: int = 0


@dataclass(slots=True, kw_only=True)
class Load:
    """A run under way."""

    topic: str
    seconds: float
    rate: int
    seed: int
    acknowledged: set[str] = field(default_factory=set)
    late_ms: dict[str, list[int]] = field(default_factory=dict)
    """By id, of each time that it came."""
    send_ms: list[int] = field(default_factory=list)
    again: int = 0
    is_sent: bool = False

    async def run(self, name_server: str) -> Result:
        async with (
            self._producer(name_server) as producer,
            AsyncReader(name_server, self.topic, start="start") as reader,
        ):
            reading = asyncio.create_task(self._read(reader))
            await self._send_all(producer)
            self.is_sent = True
            await reading
        return self._result()

    def _producer(self, name_server: str) -> AsyncProducer:
        # One attempt: the producer would make a copy with the same id of what was not answered.
        return AsyncProducer(
            name_server, group=f"{self.topic}-producer", attempts_max=1, timeout_s=_ANSWER_S_MAX
        )

    async def _send_all(self, producer: AsyncProducer) -> None:
        chance = random.Random(self.seed)
        start_s = time.monotonic()
        sends: set[asyncio.Task[None]] = set()
        turns = round(self.seconds / _TURN_S)
        for turn in range(turns):
            for number in range(round(self.rate * _TURN_S)):
                delay_ms = chance.randrange(*DELAY_MS)
                sends.add(asyncio.create_task(self._send(producer, f"{turn}-{number}", delay_ms)))
            pause_s = start_s + (turn + 1) * _TURN_S - time.monotonic()
            await asyncio.sleep(max(pause_s, 0))
        await asyncio.gather(*sends)

    async def _send(self, producer: AsyncProducer, name: str, delay_ms: int) -> None:
        message = Outgoing(
            topic=self.topic,
            body=name.encode(),
            delay=timedelta(milliseconds=delay_ms),
        )
        start_s = time.monotonic()
        while time.monotonic() - start_s < _PATIENCE_S:
            try:
                sent = await producer.send_one(message)
            except BrokerError:
                self.again += 1
                await asyncio.sleep(0.2)
                continue
            self.acknowledged.add(sent.id)
            self.send_ms.append(round((time.monotonic() - start_s) * 1_000))
            return

    async def _read(self, reader: AsyncReader) -> None:
        """Until everything has come, or should have long ago."""
        end_s = None
        while True:
            messages = await reader.receive_many(256, timeout_s=0.5)
            now_ms = system_time_ms()
            for message in messages:
                assert message.due_ms is not None
                self.late_ms.setdefault(message.id, []).append(now_ms - message.due_ms)
            if self.is_sent and end_s is None:
                end_s = time.monotonic() + DELAY_MS[1] / 1_000 + _PATIENCE_S
            is_complete = self.is_sent and self.acknowledged <= self.late_ms.keys()
            if is_complete or (end_s is not None and time.monotonic() > end_s):
                return

    def _result(self) -> Result:
        late_ms = sorted(late for times in self.late_ms.values() for late in times)
        send_ms = sorted(self.send_ms)
        return Result(
            acknowledged=len(self.acknowledged),
            again=self.again,
            lost=len(self.acknowledged - self.late_ms.keys()),
            early=sum(late < 0 for late in late_ms),
            twice=sum(len(times) > 1 for times in self.late_ms.values()),
            late_p50_ms=_at(late_ms, 0.5),
            late_p99_ms=_at(late_ms, 0.99),
            late_max_ms=_at(late_ms, 1),
            send_p99_ms=_at(send_ms, 0.99),
            send_max_ms=_at(send_ms, 1),
        )


def _at(values: list[int], ratio: float) -> int:
    return values[min(int(len(values) * ratio), len(values) - 1)] if values else 0


def main(name_server: str, topic: str, seconds: str, rate: str, seed: str) -> None:
    load = Load(topic=topic, seconds=float(seconds), rate=int(rate), seed=int(seed))
    print(json.dumps(asdict(asyncio.run(load.run(name_server)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
