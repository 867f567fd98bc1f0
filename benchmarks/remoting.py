"""The 4.x protocol: `make bench-remoting`, or `python -m benchmarks.remoting [--quick]`.

A broker in a process of its own, with every acknowledged send synced to disk, and raw connections
in this one: 200-byte bodies, one message in flight on 1, 8 and 64 connections, many in flight on
one, batches, and pulls of 32. Prints messages a second and the broker's processor time for each.
`--address HOST:PORT` measures another broker instead, such as Apache's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.remoting.serving import SMALL, Broker

from dueline.message import encode_properties
from dueline.wire import Command, RequestCode
from dueline.wire.batch import BatchMessage, encode_batch
from dueline.wire.headers import PullRequest, SendRequest

TOPIC = "bench"
BODY = b"x" * 200
BATCH_COUNT = 64
PULL_COUNT = 32
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PROPERTIES = {"TAGS": "a", "UNIQ_KEY": "7F00000113E05FFD2B274C33A79D0000"}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    parser.add_argument("--address", help="a broker that runs already")
    parser.add_argument("--pid", type=int, help="its process, for processor time")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        _serve()
        return
    if args.address is not None:
        asyncio.run(_measure(args.address, args.pid, 10 if args.quick else 1))
        return
    with _broker() as (address, pid):
        asyncio.run(_measure(address, pid, 10 if args.quick else 1))


def _serve() -> None:
    """The broker's process: says where it is, and ends with its input."""
    sys.setswitchinterval(0.001)
    segment_size_bytes = 1 << 28
    options = type(SMALL)(commit_segment_size_bytes=segment_size_bytes)
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder), options=options) as broker:
        print(broker.address, flush=True)
        sys.stdin.read()


@contextmanager
def _broker() -> Iterator[tuple[str, int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.remoting", "--serve"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.stdin.close()
        process.wait(60)


async def _measure(address: str, pid: int | None, divisor: int) -> None:
    send = _send_request()
    batch = _batch_request()
    await _round_trips(address, send, 1, 1)
    print(f"{'':34} {'messages/s':>12} {'processor µs each':>18}")
    for count, connections in ((2_000, 1), (8_000, 8), (16_000, 64)):
        name = f"send, {connections} connections, 1 in flight"
        await _row(name, address, pid, send, connections, count // divisor, 1, 1)
    await _row(
        "send, 1 connection, 256 in flight", address, pid, send, 1, 20_000 // divisor, 256, 1
    )
    name = f"batches of {BATCH_COUNT}, 8 connections"
    await _row(name, address, pid, batch, 8, 1_600 // divisor, 1, BATCH_COUNT)
    name = f"pulls of {PULL_COUNT}, 8 connections"
    await _row(name, address, pid, _pull_request(), 8, 4_000 // divisor, 1, PULL_COUNT)


async def _row(  # noqa: PLR0913 - a row of the table
    name: str,
    address: str,
    pid: int | None,
    request: bytes,
    connections: int,
    count: int,
    in_flight: int,
    messages_each: int,
) -> None:
    each = max(count // connections, 1)
    before_s, start_s = _cpu_s(pid), time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for _ in range(connections):
            tasks.create_task(_round_trips(address, request, each, in_flight))
    took_s = time.perf_counter() - start_s
    total = each * connections * messages_each
    cpu_us = (_cpu_s(pid) - before_s) / total * 1e6
    print(f"{name:34} {total / took_s:12,.0f} {cpu_us:18.0f}", flush=True)


async def _round_trips(address: str, request: bytes, count: int, in_flight: int) -> None:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 22)
    sent = min(in_flight, count)
    writer.write(request * sent)
    for _ in range(count):
        size = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(size)
        if sent < count:
            writer.write(request)
            sent += 1
    writer.close()


def _header(*, is_batch: bool) -> dict[str, str]:
    return SendRequest(
        producer_group="bench",
        topic=TOPIC,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=1,
        flag=0,
        properties="" if is_batch else encode_properties(PROPERTIES).decode(),
        batch=is_batch,
    ).encode_short()


def _send_request() -> bytes:
    ext = _header(is_batch=False)
    return Command(code=RequestCode.SEND_MESSAGE_V2, opaque=1, ext=ext, body=BODY).encode()


def _batch_request() -> bytes:
    one = BatchMessage(body=BODY, properties=encode_properties(PROPERTIES))
    body = encode_batch([one] * BATCH_COUNT)
    ext = _header(is_batch=True)
    return Command(code=RequestCode.SEND_BATCH_MESSAGE, opaque=1, ext=ext, body=body).encode()


def _pull_request() -> bytes:
    header = PullRequest(
        consumer_group="bench",
        topic=TOPIC,
        queue_id=0,
        queue_offset=0,
        max_msg_nums=PULL_COUNT,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
    )
    return Command(code=RequestCode.PULL_MESSAGE, opaque=1, ext=header.encode()).encode()


def _cpu_s(pid: int | None) -> float:
    if pid is None:
        return 0.0
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / TICKS_PER_S


if __name__ == "__main__":
    main()
