"""`dueline import` as a process that is killed again and again."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tests.unit.store.making import QuickFiles
from tests.unit.takeover.making import FakeBroker
from tests.waiting import PATIENCE_S, wait_until

from dueline.store import Store, StoreOptions, restore
from dueline.store.imports import Imports

COUNT = 30_000
KILLS = 3
SIZES = StoreOptions(
    commit_segment_size_bytes=1 << 20, delay_segment_size_bytes=1 << 20, queue_file_units=1_000
)

pytestmark = pytest.mark.slow


def start(source: Path, data: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dueline", "import", str(source), "--data", str(data),
         "--set", "store.commit_segment_size=1MiB", "--set", "store.delay_segment_size=1MiB",
         "--set", "store.queue_file_units=1000"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def written(data: Path) -> int:
    """How many segments there are: the one thing that grows while an import runs."""
    return sum(len(list((data / "store" / log).glob("0*"))) for log in ("commitlog", "delaylog"))


def wait_progress(process: subprocess.Popen[str], data: Path, *, segments: int) -> None:
    """Return when so many more segments are there, or the process has ended."""
    enough = written(data) + segments
    wait_until(lambda: written(data) >= enough or process.poll() is not None, "progress")


def arrived(data: Path) -> Counter[bytes]:
    """The bodies of everything that is there, visible or waiting."""
    with Store.open(data / "store", SIZES, files=QuickFiles()) as store:
        while True:
            corner = store.next_corner(until_ms=1 << 60, row_count_max=10_000)
            window = store.window(corner)
            if not len(window):
                break
            store.deliver([restore.deliveries(store.read_window(window))])
        store.open_gate()
        bodies: Counter[bytes] = Counter()
        for topic, queue_id in store.queues():
            offset, end = store.offset_range(topic, queue_id)
            while offset < end:
                batch, offset = store.read_rows(
                    topic, queue_id, offset, count_max=5_000, size_bytes_max=8 << 20
                )
                data_ = batch.column("record").to_pylist()
                bodies.update(
                    one[88 : 88 + int(np.frombuffer(one[84:88], ">u4")[0])] for one in data_
                )
    return bodies


def test_killed_import_is_finished_by_the_next(tmp_path: Path) -> None:
    fake = FakeBroker(tmp_path / "source", segment_size=1 << 20, file_units=2_000)
    for number in range(COUNT):
        body = b"%d" % number
        if number % 2:
            fake.message("orders", number % 4, body)
        else:
            fake.delayed("orders", number % 4, body, 1 + number % 5)
    fake.save()
    data = tmp_path / "data"
    rng = random.Random(3)
    killed = 0
    for _ in range(KILLS):
        process = start(fake.path, data)
        wait_progress(process, data, segments=rng.randrange(1, 4))
        killed += process.poll() is None
        process.kill()
        process.communicate()
    process = start(fake.path, data)
    output, _ = process.communicate(timeout=PATIENCE_S)

    assert process.returncode == 0, output
    assert killed, "every run was over before it could be killed"
    assert Imports(data, QuickFiles()).unfinished is None
    assert arrived(data) == Counter(b"%d" % number for number in range(COUNT))
