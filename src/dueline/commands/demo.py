"""`dueline demo`: a broker, a producer and a consumer; watch delayed messages arrive.

It starts `dueline serve` in a temporary folder and on a free port, waits until the pipeline is
ready, sends a few hundred messages with all sorts of delays and prints them as they come. It ends
by itself and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import base64
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

from dueline.commands.examples import show_examples
from dueline.commands.tail import Arrival, Reader
from dueline.commands.times import show_clock, show_span
from dueline.errors import InvalidRequest, Unavailable
from dueline.flight.control import ControlClient, Outgoing, Report, Reported, Send, Sent
from dueline.schedule import parse_duration_ms

__all__ = ["configure", "run"]

TOPIC: Final = "demo"
WARM_UP_TOPIC: Final = "demo-first"
DELAY_MS_MIN: Final = 1_000
DELAY_MS_MAX: Final = 60_000
_PATIENCE_MS: Final = 15_000
_STOP_S_MAX: Final = 30
_LEVELS_MS: Final = {1: 1_000, 2: 5_000, 3: 10_000, 4: 30_000}
_SENT_AT_ONCE: Final = 100


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
            if number % 3 == 0:
                level = choices.choice(levels)
                text, properties = f"level {level}", {"DELAY": str(level)}
            else:
                delay_ms = choices.randint(DELAY_MS_MIN, self.delay_ms_max)
                text, properties = f"in {show_span(delay_ms)}", {"TIMER_DELAY_MS": str(delay_ms)}
            yield Outgoing(
                topic=TOPIC,
                body=base64.b64encode(f"message {number}, {text}".encode()).decode(),
                queue_id=number % 4,
                properties=properties,
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
    show_examples(parser, "dueline demo\ndueline demo --count 2000 --quiet")


def run(args: argparse.Namespace) -> int:
    """Show it; 1 if a message was lost, early or came twice."""
    if args.count < 1:
        raise InvalidRequest(f"count: expected 1 or more, found {args.count}")
    delay_ms_max = parse_duration_ms(args.within)
    if not DELAY_MS_MIN <= delay_ms_max <= DELAY_MS_MAX:
        raise InvalidRequest(f"within: expected 1s to 60s, found {args.within}")
    print("starting a broker in a temporary folder; Spark takes some seconds ...", flush=True)
    with _broker() as address, ControlClient(address) as client:
        _wait_until_ready(client, parse_duration_ms(args.patience) / 1000)
        reader = Reader(client, TOPIC, start="start")
        plan = Plan(count=args.count, delay_ms_max=delay_ms_max, seed=args.seed)
        due_ms = _send(client, plan)
        arrivals = _watch(reader, due_ms, plan, is_quiet=args.quiet)
    return _summarise(due_ms, arrivals)


@contextmanager
def _broker() -> Iterator[str]:
    """A broker of our own, as `dueline serve` runs it; gives its address."""
    folder = tempfile.mkdtemp(prefix="dueline-demo-")
    command = [sys.executable, "-m", "dueline", "serve", "--tethered", "--data", folder]
    process = subprocess.Popen(
        [
            *command,
            "--flight",
            "127.0.0.1:0",
            "--name-server",
            "off",
            "--remoting",
            "off",
            "--grpc",
            "off",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield _address_of(process, Path(folder))
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        shutil.rmtree(folder, ignore_errors=True)


def _address_of(process: subprocess.Popen[str], folder: Path) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        _, is_accepting, address = line.rstrip().partition("accepting on ")
        if is_accepting:
            return address
    raise Unavailable(
        f"the broker ended with status {process.wait()} before it was ready; see its log in "
        f"{folder / 'broker.log'}"
    )


def _wait_until_ready(client: ControlClient, seconds_max: float) -> None:
    """Until a first message has come through: Spark's first batch takes longer than all later ones.

    That is 10 s from the start, and much more on a machine that is busy or slow.
    """
    start_s = monotonic()
    first = Outgoing(topic=WARM_UP_TOPIC, body="", queue_id=0, properties={"TIMER_DELAY_MS": "100"})
    client.ask(Send(messages=(first,)), Sent)
    reader = Reader(client, WARM_UP_TOPIC, start="start")
    while monotonic() - start_s < seconds_max:
        if any(reader.pulls(timeout_s=1, count_max=1)):
            print(f"ready after {monotonic() - start_s:.1f} s", flush=True)
            return
        driver = client.ask(Report(), Reported).driver
        if driver.status == "waiting":
            raise Unavailable(f"Spark did not start: {driver.reason}")
    raise Unavailable(
        f"Spark was not ready after {seconds_max:g} s; is the machine very busy? Then give it more "
        "time with --patience"
    )


def _send(client: ControlClient, plan: Plan) -> dict[str, int]:
    """Send the messages; returns when each is due, by its id."""
    due_ms: dict[str, int] = {}
    messages = list(plan.messages())
    for start in range(0, len(messages), _SENT_AT_ONCE):
        part = tuple(messages[start : start + _SENT_AT_ONCE])
        for result in client.ask(Send(messages=part), Sent).results:
            if result.error is not None or result.due_ms is None:
                raise Unavailable(f"the broker refused a message: {result.error}")
            due_ms[result.unique_id] = result.due_ms
    print(
        f"sent {plan.count} messages, due within {show_span(plan.delay_ms_max)}: a third by level, "
        "the rest to the millisecond\n",
        flush=True,
    )
    return due_ms


def _watch(reader: Reader, due_ms: dict[str, int], plan: Plan, *, is_quiet: bool) -> list[Arrival]:
    """Print what comes until everything has, or should have long ago."""
    arrivals: list[Arrival] = []
    timeout_s = (plan.delay_ms_max + _PATIENCE_MS) / 1000
    for some in reader.pulls(timeout_s=timeout_s, count_max=len(due_ms)):
        for arrival in some:
            arrivals.append(arrival)
            if not is_quiet:
                print(
                    f"{show_clock(arrival.came_ms)}  late by {show_span(arrival.late_ms or 0):<8}"
                    f"  {arrival.body}",
                    flush=True,
                )
    return arrivals


def _summarise(due_ms: dict[str, int], arrivals: list[Arrival]) -> int:
    """Print how it went, by what the producer was promised; returns the exit code."""
    ids = [arrival.message.properties.get("UNIQ_KEY", "") for arrival in arrivals]
    late_ms = sorted(
        arrival.came_ms - due_ms[name] for name, arrival in zip(ids, arrivals, strict=True)
    )
    early_count = sum(late < 0 for late in late_ms)
    lost_count = len(due_ms.keys() - set(ids))
    repeated_count = len(ids) - len(set(ids))
    print(f"\n{len(arrivals)} messages arrived")
    if late_ms:
        middle, most = late_ms[len(late_ms) // 2], late_ms[len(late_ms) * 99 // 100]
        print(f"late: p50 {middle} ms, p99 {most} ms, max {late_ms[-1]} ms")
    print(f"early: {early_count}, lost: {lost_count}, twice: {repeated_count}")
    return 1 if early_count or lost_count or repeated_count else 0
