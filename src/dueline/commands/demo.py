"""`dueline demo`: a broker, a producer and a consumer; watch delayed messages arrive.

It starts `dueline serve` in a temporary folder and on free ports, waits until the pipeline is
ready, sends a few hundred messages with all sorts of delays and prints them as they come: with
`dueline.client`, as your own programs would. It ends by itself and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Final

from dueline.client import AsyncProducer, AsyncReader, Outgoing
from dueline.commands.arrival import Arrival
from dueline.commands.examples import show_examples
from dueline.commands.tail import arrivals
from dueline.commands.terminal import say, say_json
from dueline.commands.times import show_clock
from dueline.errors import InvalidRequest, Unavailable
from dueline.flight.operators import OperatorClient, Report, Reported
from dueline.times import parse_duration_ms, show_span

__all__ = ["configure", "run"]

TOPIC: Final = "demo"
WARM_UP_TOPIC: Final = "demo-first"
DELAY_MS_MIN: Final = 1_000
DELAY_MS_MAX: Final = 60_000
_PATIENCE_MS: Final = 15_000
_STOP_S_MAX: Final = 30
_LEVELS_MS: Final = {1: 1_000, 2: 5_000, 3: 10_000, 4: 30_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the demo's broker is."""

    flight: str
    name_server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to send."""

    count: int
    delay_ms_max: int
    seed: int

    def messages(self) -> Iterator[Outgoing]:
        """A third by level, the rest with a delay of their own."""
        choices = random.Random(self.seed)
        levels = [level for level, ms in _LEVELS_MS.items() if ms <= self.delay_ms_max]
        for number in range(1, self.count + 1):
            level: int | None = None
            delay: timedelta | None = None
            if number % 3 == 0:
                level = choices.choice(levels)
                text = f"level {level}"
            else:
                delay_ms = choices.randint(DELAY_MS_MIN, self.delay_ms_max)
                delay = timedelta(milliseconds=delay_ms)
                text = f"in {show_span(delay_ms)}"
            yield Outgoing(
                topic=TOPIC,
                body=f"message {number}, {text}".encode(),
                queue_id=number % 4,
                delay_level=level,
                delay=delay,
            )


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--count", type=int, default=300, metavar="N", help="messages (default: 300)"
    )
    parser.add_argument(
        "--within", default="40s", metavar="DURATION", help="the longest delay (default: 40s)"
    )
    parser.add_argument(
        "--patience", default="75s", metavar="DURATION", help="to wait for Spark (default: 75s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the delays (default: 1)")
    parser.add_argument("--quiet", action="store_true", help="print the summary only")
    parser.add_argument("--json", action="store_true", help="the summary for programs")
    show_examples(parser, "dueline demo\ndueline demo --count 2000 --quiet")


def run(args: argparse.Namespace) -> int:
    """Show it; 1 if a message was lost, early or came twice."""
    if args.count < 1:
        raise InvalidRequest(f"count: expected 1 or more, found {args.count}")
    delay_ms_max = parse_duration_ms(args.within)
    if not DELAY_MS_MIN <= delay_ms_max <= DELAY_MS_MAX:
        raise InvalidRequest(f"within: expected 1s to 60s, found {args.within}")
    plan = Plan(count=args.count, delay_ms_max=delay_ms_max, seed=args.seed)
    patience_s = parse_duration_ms(args.patience) / 1000
    # A program reads the summary alone; a person may watch beside it.
    with redirect_stdout(sys.stderr) if args.json else nullcontext():
        say("starting a broker in a temporary folder; Spark takes some seconds ...")
        with _broker() as addresses:
            due_ms, arrived = asyncio.run(_show(addresses, plan, patience_s, is_quiet=args.quiet))
    return _summarise(due_ms, arrived, as_json=args.json)


async def _show(
    addresses: Addresses, plan: Plan, patience_s: float, *, is_quiet: bool
) -> tuple[dict[str, int], list[Arrival]]:
    """When each message was due, by its id, and what came."""
    async with AsyncProducer(addresses.name_server, group=TOPIC) as producer:
        with OperatorClient(addresses.flight) as client:
            await _wait_until_ready(client, producer, addresses.name_server, patience_s)
        async with AsyncReader(addresses.name_server, TOPIC) as reader:
            due_ms = await _send(producer, plan)
            return due_ms, await _watch(reader, due_ms, plan, is_quiet=is_quiet)


@contextmanager
def _broker() -> Iterator[Addresses]:
    """A broker of our own, as `dueline serve` runs it; gives its addresses."""
    folder = tempfile.mkdtemp(prefix="dueline-demo-")
    command = [sys.executable, "-m", "dueline", "serve", "--tethered", "--data", folder]
    for flag in ("--flight", "--name-server", "--remoting"):
        command += [flag, "127.0.0.1:0"]
    process = subprocess.Popen(
        [*command, "--grpc", "off", "--http", "off"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield _addresses_of(process, Path(folder))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def _addresses_of(process: subprocess.Popen[str], folder: Path) -> Addresses:
    assert process.stdout is not None
    flight = ""
    for line in process.stdout:
        _, is_flight, address = line.rstrip().partition("accepting on ")
        flight = address if is_flight else flight
        _, is_name_server, address = line.rstrip().partition("RocketMQ name server on ")
        if is_name_server:
            return Addresses(flight=flight, name_server=address)
    raise Unavailable(
        f"the broker ended with status {process.wait()} before it was ready; see its log in "
        f"{folder / 'broker.log'}"
    )


async def _wait_until_ready(
    client: OperatorClient, producer: AsyncProducer, name_server: str, seconds_max: float
) -> None:
    """Until a first message has come through: a broker that was just started is slow.

    Nobody waits for Spark here: until it is ready, the broker carries over what falls due itself.
    """
    start_s = monotonic()
    await producer.send(WARM_UP_TOPIC, b"", delay=timedelta(seconds=1))
    async with AsyncReader(name_server, WARM_UP_TOPIC) as reader:
        while monotonic() - start_s < seconds_max:
            if await reader.receive_many(1, timeout_s=1):
                say(f"ready after {monotonic() - start_s:.1f} s")
                return
            driver = client.ask(Report(), Reported).driver
            if driver.status == "waiting":
                raise Unavailable(f"Spark did not start: {driver.reason}")
    raise Unavailable(
        f"Spark was not ready after {seconds_max:g} s; is the machine very busy? Then give it more "
        "time with --patience"
    )


async def _send(producer: AsyncProducer, plan: Plan) -> dict[str, int]:
    """Send the messages; returns when each is due, by its id."""
    due_ms: dict[str, int] = {}
    for sent in await producer.send_many(list(plan.messages())):
        if sent.due_ms is None:
            raise Unavailable(f"the broker did not delay message {sent.id}")
        due_ms[sent.id] = sent.due_ms
    say(
        f"sent {plan.count} messages, due within {show_span(plan.delay_ms_max)}: a third by level, "
        "the rest to the millisecond",
        "",
    )
    return due_ms


async def _watch(
    reader: AsyncReader, due_ms: dict[str, int], plan: Plan, *, is_quiet: bool
) -> list[Arrival]:
    """Print what comes until everything has, or should have long ago."""
    arrived: list[Arrival] = []
    timeout_s = (plan.delay_ms_max + _PATIENCE_MS) / 1000
    async for some in arrivals(reader, timeout_s=timeout_s, count_max=len(due_ms)):
        for each in some:
            arrived.append(each)
            if not is_quiet:
                late_ms = each.came_ms - due_ms.get(each.message.id, each.came_ms)
                say(f"{show_clock(each.came_ms)}  late by {show_span(late_ms):<8}  {each.body}")
    return arrived


def _summarise(due_ms: dict[str, int], arrived: list[Arrival], *, as_json: bool = False) -> int:
    """Print how it went, by what the producer was promised; returns the exit code."""
    ids = [each.message.id for each in arrived]
    late_ms = sorted(each.came_ms - due_ms[each.message.id] for each in arrived)
    early_count = sum(late < 0 for late in late_ms)
    lost_count = len(due_ms.keys() - set(ids))
    repeated_count = len(ids) - len(set(ids))
    wrong = {"early": early_count, "lost": lost_count, "twice": repeated_count}
    late = {}
    if late_ms:
        most_ms = late_ms[len(late_ms) * 99 // 100]
        late = {"p50": late_ms[len(late_ms) // 2], "p99": most_ms, "max": late_ms[-1]}
    if as_json:
        say_json({"arrived": len(arrived), "late_ms": late, **wrong})
    else:
        say("", f"{len(arrived)} messages arrived")
        if late:
            say(f"late: {', '.join(f'{name} {ms} ms' for name, ms in late.items())}")
        say(", ".join(f"{name}: {count}" for name, count in wrong.items()))
    return 1 if early_count or lost_count or repeated_count else 0
