"""A broker's data folder with one of everything, as a broker that was stopped leaves it."""

from __future__ import annotations

import json
import shutil
import struct
import zlib
from pathlib import Path

from tests.crash.script import STEPS, Driver

from dueline.store import Files
from dueline.wire.admin_bodies import (
    DataVersion,
    GroupConfigBody,
    GroupConfigs,
    TopicConfigBody,
    TopicConfigs,
)

STEP_COUNT = len(STEPS) - 12  # before the last long wait: visible, pending and at the gate
PENDING_COUNT = 100


def make_data(path: Path) -> Path:
    """Run the scripted store, and put a broker's small files beside it."""
    driver = Driver(path / "store", Files())
    driver.open()
    for step in STEPS[:STEP_COUNT]:
        step.action(driver)
    driver.put_many("late", [60_000 + n for n in range(PENDING_COUNT)])
    driver.put_all(*((f"last{number}", number % 2, 0) for number in range(70)))
    ends = {queue: driver.store.offset_range(*queue)[1] for queue in driver.store.queues()}
    driver.close()
    config = path / "store" / "config"
    config.mkdir()
    topics = {
        name: TopicConfigBody(topic_name=name, read_queue_nums=4, write_queue_nums=4)
        for name in ("t", "x")
    }
    version = DataVersion(counter=2, timestamp=1)
    (config / "topics.json").write_bytes(
        TopicConfigs(data_version=version, topic_config_table=topics).encode()
    )
    groups = {"g": GroupConfigBody(group_name="g")}
    (config / "subscriptionGroup.json").write_bytes(
        GroupConfigs(data_version=version, subscription_group_table=groups).encode()
    )
    offsets = {"t@g": {str(queue): end for (topic, queue), end in ends.items() if topic == "t"}}
    (path / "consumerOffset.json").write_text(json.dumps({"offsetTable": offsets}))
    (path / "receipts.log").write_bytes(receipts(3))
    return path


def receipts(frame_count: int) -> bytes:
    """A file of receipts: a lane, and one change per frame."""
    lane = struct.pack(">cIIQBB", b"L", 0, 0, 0, 1, 1) + b"gt"
    changes = [lane, *(struct.pack(">cIQ", b"C", 0, n) for n in range(1, frame_count))]
    frames = b"".join(struct.pack(">II", len(one), zlib.crc32(one)) + one for one in changes)
    return b"DUEPOP01" + bytes(4) + frames + bytes(100)


def snapshot_of(path: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file's bytes, time of change and mode."""
    return {
        str(file.relative_to(path)): (
            file.read_bytes(),
            file.stat().st_mtime_ns,
            file.stat().st_mode,
        )
        for file in sorted(path.rglob("*"))
        if file.is_file()
    }


def copy_of(path: Path, target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(path, target)
    return target
