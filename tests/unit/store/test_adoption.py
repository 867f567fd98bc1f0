"""Records of RocketMQ in our logs: their bytes, their queues, and after a crash."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.golden.layout import SEGMENT, all_records, java_hash, parse
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    carry_over,
    int64s,
    open_store,
    read_all,
)
from tests.unit.store.recording import make_record

from dueline.message import Message
from dueline.store import Files, Store
from dueline.store import record as records
from dueline.store.adoption import waiting_rows
from dueline.testing import FaultyFiles, PowerCut

DATA = SEGMENT.read_bytes()
GOLDEN = [one for one in all_records() if not one["topic"].startswith(b"RMQ")]
ORDINARY = [one for one in GOLDEN if one["topic"] == b"TopicT"]
DELAYED = [one for one in GOLDEN if one["topic"] == b"SCHEDULE_TOPIC_XXXX"]
KEPT = ("crc", "flag", "born_ms", "born_host", "born_port", "reconsume_times", "body", "sys_flag")


def raw(golden: list[dict[str, Any]]) -> pa.BinaryArray:
    return pa.array(
        [DATA[one["position"] : one["position"] + one["size"]] for one in golden], pa.binary()
    )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path, Wall())


def stored(store: Store, position: int) -> dict[str, Any]:
    """A record of the commit log, read by the second description of the layout."""
    record = store.record_at(position)
    data = bytes(store._core.commit.read(position, record.size_bytes))
    return parse(data)


def test_visible_records_keep_all_but_their_place(store: Store) -> None:
    assert store.adopt_visible(raw(ORDINARY)) == len(ORDINARY)

    for queue_id in range(3):
        there = [one for one in ORDINARY if one["queue_id"] == queue_id]
        here = [stored(store, one.position) for one in read_all(store, "TopicT", queue_id)]
        for old, new in zip(there, here, strict=True):
            assert {name: old[name] for name in KEPT} == {name: new[name] for name in KEPT}
            assert (old["map"], old["topic"]) == (new["map"], new["topic"])
            assert new["queue_offset"] == old["queue_offset"]
            assert new["store_ms"] == START_MS


def test_visible_records_are_found_by_key_and_filtered_by_tag(store: Store) -> None:
    store.adopt_visible(raw(ORDINARY))

    (found,) = store.query("TopicT", "kb1")
    queue = store._core.queues.get("TopicT", 0)

    assert found.body == b"batch1"
    assert queue is not None
    assert queue.read(0, 9)["tags_code"].tolist() == [java_hash("TagC")] * 2


def test_waiting_records_keep_all_but_topic_and_due_time(store: Store) -> None:
    due_ms = int64s(*(START_MS + number for number in range(len(DELAYED))))

    store.adopt_waiting(raw(DELAYED), due_ms)

    for old, due in zip(DELAYED, due_ms.tolist(), strict=True):
        key = old["map"]["UNIQ_KEY"]
        found = next(one for one in store.find_delayed(key) if one.due_ms == due)
        assert (found.topic, found.queue_id) == (
            old["map"]["REAL_TOPIC"],
            int(old["map"]["REAL_QID"]),
        )
        new = parse(records.seal(found.record))
        assert {name: old[name] for name in KEPT} == {name: new[name] for name in KEPT}
        assert new["map"] == {**old["map"], "TIMER_OUT_MS": str(due)}


def test_waiting_records_are_delivered_as_their_own_topic(store: Store) -> None:
    due_ms = np.full(len(DELAYED), START_MS - 5, dtype=np.int64)
    store.adopt_waiting(raw(DELAYED), due_ms)

    carry_over(store)

    assert [one.body for one in read_all(store, "TopicT", 2)] == [b"delayed"]
    assert [one.body for one in read_all(store, "TopicT", 3)] == [b"delayed-over"]
    (retried,) = read_all(store, "%RETRY%CG")
    assert (retried.body, retried.reconsume_times) == (b"hello world", 1)


def test_old_due_time_of_a_timer_is_replaced() -> None:
    text = b"TIMER_OUT_MS\x01111\x02REAL_TOPIC\x01t\x02REAL_QID\x010\x02UNIQ_KEY\x01u"
    record = make_record(mark=0, properties=text)

    rows = waiting_rows(pa.array([record.encode()]), int64s(222), store_host=bytes(8))

    made = records.decode(rows.data.tobytes())
    assert (
        made.properties
        == b"TIMER_OUT_MS\x01222\x02REAL_TOPIC\x01t\x02REAL_QID\x010\x02UNIQ_KEY\x01u"
    )
    assert (rows.names, rows.topic.tolist(), rows.queue_id.tolist()) == (["t"], [0], [0])


def test_ipv6_hosts_are_kept(store: Store) -> None:
    hosts = {"born_host": bytes(range(20)), "store_host": bytes(range(20, 40))}
    record = make_record(mark=0, sys_flag=0x30, topic=b"orders", queue_id=0, **hosts)

    store.adopt_visible(pa.array([record.encode()]))

    (found,) = read_all(store)
    assert (found.born_host, found.store_host) == (hosts["born_host"], hosts["store_host"])


def test_new_queue_begins_where_it_is_told(store: Store, tmp_path: Path) -> None:
    store.put(Message(topic="old", body=b"0"))

    nexts = store.begin_queues({("TopicT", 0): 25, ("TopicT", 9): 4, ("old", 0): 77})

    assert nexts == {("TopicT", 0): 25, ("TopicT", 9): 4, ("old", 0): 1}
    store.adopt_visible(raw(ORDINARY))
    assert store.offset_range("TopicT", 0) == (25, 27)
    store.close()
    with open_store(tmp_path, Wall()) as again:
        assert again.offset_range("TopicT", 9) == (4, 4)
        assert [one.queue_offset for one in read_all(again, "TopicT", 0)] == [25, 26]


@pytest.mark.parametrize("lost", ["", "checkpoint.json", "consumequeue"])
def test_queue_that_begins_late_survives_a_crash(tmp_path: Path, lost: str) -> None:
    files = FaultyFiles()
    store = Store.open(tmp_path, SMALL, clock=Wall().clock(), files=files)
    store.begin_queues({("TopicT", queue_id): 25 for queue_id in range(3)})
    store.adopt_visible(raw(ORDINARY[:3]))
    store.checkpoint()
    store.adopt_visible(raw(ORDINARY[3:]))
    files.restart()
    for path in [each for each in tmp_path.rglob("*") if lost and each.is_file()]:
        if lost in str(path.relative_to(tmp_path)):
            path.unlink()

    with Store.open(tmp_path, SMALL, clock=Wall().clock(), files=Files()) as again:
        for queue_id in range(3):
            count = sum(one["queue_id"] == queue_id for one in ORDINARY)
            found = read_all(again, "TopicT", queue_id)
            assert [one.queue_offset for one in found] == list(range(25, 25 + count))


@pytest.mark.parametrize("midway", [False, True])
def test_batch_is_there_as_a_whole_or_not_at_all(tmp_path: Path, midway: bool) -> None:
    seen = set()
    for number in range(1, 40):
        files = FaultyFiles()
        path = tmp_path / str(number)
        store = Store.open(path, SMALL, clock=Wall().clock(), files=files)
        store.adopt_visible(raw(ORDINARY[:2]))
        files.stop_at(files.operation_count + number, midway=midway)
        with contextlib.suppress(PowerCut):
            store.adopt_visible(raw(ORDINARY))
        files.power_cut(number) if number % 2 else files.restart()
        with open_store(path, Wall()) as again:
            seen.add(sum(len(read_all(again, "TopicT", queue_id)) for queue_id in range(3)))

    assert seen == {2, 2 + len(ORDINARY)}
