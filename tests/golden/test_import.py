"""The golden store, taken over: every message that RocketMQ owed is delivered when it is due."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.golden.layout import STORE, all_records, parse
from tests.unit.store.making import QuickFiles

from dueline.schedule import DEFAULT_LEVELS
from dueline.store import Store, StoreOptions, restore
from dueline.store import record as records
from dueline.takeover import Options, Source, take_over
from dueline.takeover.moving import Destination
from dueline.testing import ManualClock

RECORDS = all_records()
SMALL = StoreOptions(
    commit_segment_size_bytes=16_384, delay_segment_size_bytes=16_384, queue_file_units=50
)
DELAYS_MS = {2: 5_000, 3: 10_000, 18: 7_200_000}
END_MS = 1_794_769_666_000  # a moment after the broker's last record


def expected() -> list[dict[str, Any]]:
    """Delayed messages in due order, by the second description of the layout alone."""
    found = [one for one in RECORDS if one["topic"] == b"SCHEDULE_TOPIC_XXXX"]
    for one in found:
        one["due_ms"] = one["store_ms"] + DELAYS_MS[int(one["map"]["DELAY"])]
    return sorted(found, key=lambda one: int(one["due_ms"]))


def read(store: Store, topic: str, queue_id: int) -> list[dict[str, Any]]:
    start, _ = store.offset_range(topic, queue_id)
    result = store.read(topic, queue_id, start)
    found = []
    for view in result.records:
        position = records.decode(bytes(view)).position
        base = position - position % SMALL.commit_segment_size_bytes
        segment = store.path / "commitlog" / f"{base:020d}"
        found.append(parse(segment.read_bytes(), position - base))
    return found


@pytest.mark.parametrize("is_progress_lost", [False, True])
def test_every_pending_message_is_delivered_at_its_due_time(
    tmp_path: Path, is_progress_lost: bool
) -> None:
    source_path = Path(shutil.copytree(STORE, tmp_path / "source"))
    owed = expected()[2:]
    if is_progress_lost:
        # The copies of the other two stand in the log: they were delivered all the same.
        for name in ("delayOffset.json", "delayOffset.json.bak"):
            (source_path / "config" / name).unlink()
    clock = ManualClock(END_MS)
    to = Destination(folder=tmp_path / "data", store=SMALL, clock=clock, files=QuickFiles())
    with Source(source_path) as source:
        take_over(source, to, Options(levels=DEFAULT_LEVELS, assume_pending=is_progress_lost))

    with Store.open(to.folder / "store", SMALL, clock=clock, files=QuickFiles()) as store:
        assert store.pending_count() == len(owed) == 1
        for old in owed:
            topic, queue_id = old["map"]["REAL_TOPIC"], int(old["map"]["REAL_QID"])
            corner = store.next_corner(until_ms=1 << 60, row_count_max=100)
            store.deliver([restore.deliveries(store.read_window(store.window(corner)))])
            clock.wall_ms = old["due_ms"] - 1
            assert store.open_gate() == 0
            clock.wall_ms = old["due_ms"]
            assert store.open_gate() == 1
            (new,) = read(store, topic, queue_id)
            for name in ("body", "born_ms", "born_host", "born_port", "flag", "sys_flag", "crc"):
                assert new[name] == old[name], name
            assert new["map"] == {**old["map"], "TIMER_OUT_MS": str(old["due_ms"])}
            assert new["store_ms"] == old["due_ms"]


def test_all_messages_come_in_the_order_of_their_queues(tmp_path: Path) -> None:
    clock = ManualClock(END_MS)
    to = Destination(folder=tmp_path / "data", store=SMALL, clock=clock, files=QuickFiles())
    with Source(STORE) as source:
        take_over(source, to, Options(messages="all"))

    with Store.open(to.folder / "store", SMALL, clock=clock, files=QuickFiles()) as store:
        for topic, queue_id in (("TopicT", 0), ("TopicT", 1), ("TopicT", 2), ("%RETRY%CG", 0)):
            old = [
                one
                for one in RECORDS
                if (one["topic"].decode(), one["queue_id"]) == (topic, queue_id)
            ]
            new = read(store, topic, queue_id)
            assert [one["queue_offset"] for one in new] == [one["queue_offset"] for one in old]
            assert [one["body"] for one in new] == [one["body"] for one in old]
            assert [one["map"] for one in new] == [one["map"] for one in old]
