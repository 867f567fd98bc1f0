"""The store by itself: `make bench`, or `python -m benchmarks.store [--quick]`.

200-byte bodies. Every figure that writes is also given as a ratio to writing the same bytes raw,
with the same number of fsyncs, in the same run: absolute times depend on the machine and its
neighbours, ratios much less.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from dueline.clock import Clock
from dueline.message import Message
from dueline.server.writer import Writer
from dueline.store import Corner, Store, Window, restore
from dueline.store.corner import SEQ_MAX

BODY = os.urandom(200)
TWO_MONTHS_MS = 60 * 86_400_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--folder", help="where to put the stores (default: the temporary folder)")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        _child(*arguments.child)
        return
    scale = 10 if arguments.quick else 1
    root = Path(tempfile.mkdtemp(prefix="dueline-bench-", dir=arguments.folder))
    try:
        _throughput(root, 1_000_000 // scale)
        _concurrent_puts(root, 64, 60_000 // scale)
        for count in (1_000_000 // scale, 10_000_000 // scale):
            _many_pending(root, count)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _throughput(root: Path, count: int) -> None:
    path = root / "throughput"
    now_ms = Clock().now_ms()
    clock = [now_ms]
    store = Store.open(path, clock=Clock(lambda: clock[0]))
    batch = 10_000
    tables = [_table(batch, now_ms, seed) for seed in range(count // batch)]
    seconds = _timed(lambda: [store.put_many(table) for table in tables])
    raw = _raw(root, store.stats()["delay_log"]["end"], len(tables))
    _line("put_many, delayed, one fsync per 10,000", count, seconds, raw)
    corner = Corner(due_ms=now_ms + 2 * TWO_MONTHS_MS, seq=SEQ_MAX, end=count)
    plan = _timed(lambda: store.window(corner))
    _line("window planning (units)", count, plan)
    windows = _windows(store, now_ms, 16_384)  # as many rows as the pipeline takes at once
    batches = []
    read = _timed(lambda: batches.extend([store.read_window(window) for window in windows]))
    _line("window read (records to Arrow)", count, read)
    decode = _timed(lambda: [restore.messages(batch) for batch in batches])
    check = _timed(lambda: [restore.damaged(batch) for batch in batches])
    _line("window decode to Arrow, read + every field", count, read + decode)
    _line("check of every byte", count, check)
    deliveries: list[pa.RecordBatch] = []
    encode = _timed(lambda: deliveries.extend([restore.deliveries(batch) for batch in batches]))
    _line("restore to deliverable records", count, encode)
    before = store.stats()["commit_log"]["end"]
    groups = [deliveries[start : start + 6] for start in range(0, len(deliveries), 6)]
    deliver = _timed(lambda: [store.deliver(group) for group in groups])
    raw = _raw(root, store.stats()["commit_log"]["end"] - before, len(groups))
    _line("deliver, one fsync per 98,304", count, deliver, raw)
    clock[0] += 2 * TWO_MONTHS_MS
    _line("open the gate (all due at once)", count, _timed(store.open_gate))
    store.close()
    shutil.rmtree(path)


def _windows(store: Store, now_ms: int, rows: int) -> list[Window]:
    """Neighbouring windows that together cover everything, without delivering in between."""
    windows = []
    whole = store.window(Corner(due_ms=now_ms + 2 * TWO_MONTHS_MS, seq=SEQ_MAX, end=1 << 40))
    for after, until in whole.split(max(1, len(whole) // rows)):
        windows.append(store.window(whole.end, after=after, until=until))
    return windows


def _concurrent_puts(root: Path, callers: int, count: int) -> None:
    """Callers with one message in flight each, as coroutines over a writer."""
    each = count // callers
    for kind, properties in (
        ("delayed", {"TIMER_DELAY_MS": "3600000", "KEYS": "order-1"}),
        ("ordinary", {"KEYS": "order-1"}),
    ):
        path = root / f"concurrent-{kind}"
        store = Store.open(path)
        message = Message(topic="orders", body=BODY, properties=properties)
        seconds = _timed(functools.partial(_by_coroutines, store, message, callers, each))
        log = "delay_log" if kind == "delayed" else "commit_log"
        raw = _raw(root, store.stats()[log]["end"], each)
        name = f"single puts, {kind}, {callers} coroutines, sync"
        _line(name, each * callers, seconds, raw)
        store.close()
        shutil.rmtree(path)


def _by_coroutines(store: Store, message: Message, callers: int, each: int) -> None:
    async def put(loop: asyncio.AbstractEventLoop, writer: Writer) -> None:
        for _ in range(each):
            future = loop.create_future()
            writer.submit([message], functools.partial(_answer, loop, future))
            await future

    async def put_all() -> None:
        loop = asyncio.get_running_loop()
        writer = Writer(
            store.put_all,
            count_max=1 << 20,
            size_bytes_max=1 << 30,
            on_failure=lambda *_: os._exit(1),
        )
        writer.start()
        await asyncio.gather(*(put(loop, writer) for _ in range(callers)))
        writer.stop()

    asyncio.run(put_all())


def _answer(
    loop: asyncio.AbstractEventLoop, future: asyncio.Future[object], answer: object
) -> None:
    loop.call_soon_threadsafe(future.set_result, answer)


def _many_pending(root: Path, count: int) -> None:
    path = root / f"pending-{count}"
    for stage in ("fill", "clean", "killed"):
        subprocess.run(
            [sys.executable, "-m", "benchmarks.store", "--child", stage, str(path), str(count)],
            check=stage != "killed",
        )
    disk = sum(file.stat().st_blocks * 512 for file in path.rglob("*") if file.is_file())
    print(f"{count:>12,} pending   disk per message  {disk / count:8.0f} bytes")
    shutil.rmtree(path)


def _child(stage: str, folder: str, count_text: str) -> None:
    count = int(count_text)
    path = Path(folder)
    if stage == "fill":
        store = Store.open(path)
        now_ms = Clock().now_ms()
        for seed in range(count // 10_000):
            store.put_many(_table(10_000, now_ms, seed))
        print(f"{count:>12,} pending   memory after fill {_memory()}")
        os._exit(1 if store.pending_count() != count else _closed(store))
    started = time.perf_counter()
    store = Store.open(path)
    opened = time.perf_counter() - started
    label = "clean stop" if stage == "clean" else "kill"
    print(f"{count:>12,} pending   reopen after {label:<10} {opened:8.2f} s   memory {_memory()}")
    assert store.pending_count() == count + (0 if stage == "clean" else 250_000)
    if stage == "clean":
        seconds = _timed(lambda: store.survey().pending_by_bucket(3_600_000))
        print(f"{count:>12,} pending   by hour               {seconds:8.2f} s   memory {_memory()}")
        seconds = _timed(lambda: store.survey().pending_by_topic())
        print(f"{count:>12,} pending   by topic              {seconds:8.2f} s")
        for seed in range(25):  # a tail that no checkpoint covers
            store.put_many(_table(10_000, Clock().now_ms(), seed))
        os._exit(0)  # as a kill: nothing is closed
    store.close()


def _closed(store: Store) -> int:
    store.close()
    return 0


def _table(count: int, now_ms: int, seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    due_ms = now_ms + 1000 + random.integers(0, TWO_MONTHS_MS, count)
    return pa.table(
        {
            "topic": pa.array(["orders"] * count),
            "body": pa.array([BODY] * count, pa.binary()),
            "deliver_at_ms": pa.array(due_ms),
            "keys": pa.array([f"order-{seed * count + row}" for row in range(count)]),
        }
    )


def _raw(root: Path, size_bytes: int, syncs: int) -> float:
    """Seconds to write as many bytes to a file of known length with as many fsyncs."""
    path = root / "raw"
    part = os.urandom(max(1, size_bytes // max(1, syncs)))
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, size_bytes)
    started = time.perf_counter()
    for number in range(max(1, syncs)):
        os.pwrite(descriptor, part, number * len(part))
        os.fdatasync(descriptor)
    seconds = time.perf_counter() - started
    os.close(descriptor)
    path.unlink()
    return seconds


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _line(name: str, count: int, seconds: float, raw: float | None = None) -> None:
    ratio = "" if raw is None else f"   {seconds / raw:6.1f} x raw writes with the same fsyncs"
    print(f"{name:<48} {count / seconds:>12,.0f} /s{ratio}", flush=True)


def _memory() -> str:
    fields = dict(
        line.split(":", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":" in line
    )
    total, anonymous = (int(fields[name].split()[0]) // 1024 for name in ("VmRSS", "RssAnon"))
    return f"{total} MB resident ({anonymous} MB of it not mapped files)"


if __name__ == "__main__":
    main()
