"""The processes of a measurement: `python -m benchmarks.peers.roles ROLE PEER ADDRESS TOPIC …`.

    flood    SECONDS BATCH            sends as fast as it can, due far away; prints a rate
    steady   SECONDS RATE MIN MAX     so many a second with delays between MIN and MAX ms
    crowd    COUNT DUE_MS BATCH       so many that are due at one instant
    make                              one message that makes the topic
    receive  COUNT SECONDS            prints how late each came, until all are there
    move                              Redis's mover; until it is ended

Each prints one line of JSON at its end.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from typing import Final

from benchmarks.peers.clients import FIRST, body, connect, due_ms_of, move, number_of
from dueline.clock import system_time_ms

FAR_MS: Final = 30 * 86_400_000
_TURN_S: Final = 0.02


def flood(peer: str, address: str, topic: str, seconds: str, batch: str) -> dict[str, float]:
    count = 0
    with connect(peer, address, topic) as client:
        size = min(int(batch), client.batch_count)
        client.send(*_messages([FAR_MS], 0))
        start_s, start_cpu_s = time.monotonic(), time.process_time()
        while time.monotonic() - start_s < float(seconds):
            client.send(*_messages([FAR_MS] * size, count))
            count += size
        spent_s = time.monotonic() - start_s
    return {"count": count, "rate": count / spent_s, "cpu_s": time.process_time() - start_cpu_s}


def steady(  # noqa: PLR0913 - words of a command line
    peer: str, address: str, topic: str, seconds: str, rate: str, min_ms: str, max_ms: str
) -> dict[str, float]:
    chance = random.Random(1)
    count, turns = 0, round(float(seconds) / _TURN_S)
    with connect(peer, address, topic) as client:
        start_s = time.monotonic()
        for turn in range(turns):
            wanted = round((turn + 1) * _TURN_S * int(rate)) - count
            delays = [chance.randrange(int(min_ms), int(max_ms)) for _ in range(wanted)]
            if delays:
                client.send(*_messages(delays, count))
            count += wanted
            time.sleep(max(start_s + (turn + 1) * _TURN_S - time.monotonic(), 0))
    return {"count": count, "behind_s": time.monotonic() - start_s - float(seconds)}


def crowd(  # noqa: PLR0913 - words of a command line
    peer: str, address: str, topic: str, count: str, due_ms: str, batch: str
) -> dict[str, float]:
    start_s, sent = time.monotonic(), 0
    with connect(peer, address, topic) as client:
        while sent < int(count):
            size = min(int(batch), client.batch_count, int(count) - sent)
            numbers = range(sent, sent + size)
            client.send([int(due_ms)] * size, [body(int(due_ms), number) for number in numbers])
            sent += size
    return {"count": sent, "seconds": time.monotonic() - start_s}


def make(peer: str, address: str, topic: str) -> dict[str, float]:
    with connect(peer, address, topic) as client:
        client.send(*_messages([0], FIRST))
    return {}


def receive(peer: str, address: str, topic: str, count: str, seconds: str) -> dict[str, object]:
    """Also through a restart of the peer, as a consumer would."""
    late: dict[bytes, int] = {}
    twice, end_s = 0, time.monotonic() + float(seconds)
    while len(late) < int(count) and time.monotonic() < end_s:
        for each, now_ms in _received(peer, address, topic, end_s):
            if number_of(each) != FIRST:
                twice += each[:26] in late
                late.setdefault(each[:26], now_ms - due_ms_of(each))
            if len(late) >= int(count):
                break
    return {"late_ms": sorted(late.values()), "twice": twice}


def _received(peer: str, address: str, topic: str, end_s: float) -> Iterator[tuple[bytes, int]]:
    """Messages and when they came, until the time is over or the peer has gone."""
    try:
        client = connect(peer, address, topic)
    except OSError:
        time.sleep(_TURN_S)
        return
    with client:
        while time.monotonic() < end_s:
            try:
                got = client.receive(1.0)
            except client.errors:
                time.sleep(_TURN_S)
                return
            now_ms = system_time_ms()
            yield from ((each, now_ms) for each in got)


def _messages(delays_ms: list[int], first: int) -> tuple[list[int], list[bytes]]:
    now_ms = system_time_ms()
    due_ms = [now_ms + delay_ms for delay_ms in delays_ms]
    return due_ms, [body(at_ms, number) for number, at_ms in enumerate(due_ms, start=first)]


ROLES: Final = {"flood": flood, "steady": steady, "crowd": crowd, "make": make, "receive": receive}


def main(role: str, peer: str, address: str, topic: str, *words: str) -> None:
    if role == "move":
        move(address, topic)
    print(json.dumps(ROLES[role](peer, address, topic, *words)))  # type: ignore[operator]


if __name__ == "__main__":
    main(*sys.argv[1:])
