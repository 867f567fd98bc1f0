"""Queues, key index, configuration and pending messages of a store that RocketMQ 4.9.8 wrote."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from tests.golden.layout import SEGMENT, STORE, all_records, java_hash

from dueline.schedule import DEFAULT_LEVELS, DelayLevels
from dueline.store.rocketmq import RocketmqStore, level_due_ms

GOLDEN = {record["position"]: record for record in all_records()}
LEVELS = DelayLevels.parse(DEFAULT_LEVELS)
DELAYS_MS = {2: 5_000, 3: 10_000, 18: 7_200_000}
DUE_MS = 1_794_769_653_729 + 7_200_000  # the one message that was never delivered


@pytest.fixture
def store() -> RocketmqStore:
    return RocketmqStore(STORE)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(STORE, tmp_path / "store"))


def test_every_unit_points_at_its_record(store: RocketmqStore) -> None:
    pointed = []
    for topic, queue_id in store.queues():
        first, units = store.units(topic, queue_id)
        assert first == 0
        for offset, unit in enumerate(units):
            record = GOLDEN[int(unit["position"])]
            pointed.append(record["position"])
            assert record["size"] == unit["size"]
            assert (record["topic"].decode(), record["queue_id"]) == (topic, queue_id)
            assert record["queue_offset"] == offset

    assert sorted(pointed) == sorted(GOLDEN)


def test_units_keep_the_tags_hash_or_the_due_time(store: RocketmqStore) -> None:
    for topic, queue_id in store.queues():
        for unit in store.units(topic, queue_id)[1]:
            record = GOLDEN[int(unit["position"])]
            if topic == "SCHEDULE_TOPIC_XXXX":
                expected = record["store_ms"] + DELAYS_MS[int(record["map"]["DELAY"])]
            else:
                expected = java_hash(record["map"].get("TAGS", ""))
            assert unit["tags_code"] == expected


def test_due_time_from_the_record_alone_is_the_units(store: RocketmqStore) -> None:
    scanned = store.records()
    assert scanned.positions.tolist() == list(GOLDEN)
    for queue_id in (1, 2, 17):
        for unit in store.units("SCHEDULE_TOPIC_XXXX", queue_id)[1]:
            record = store.find(
                "SCHEDULE_TOPIC_XXXX", GOLDEN[int(unit["position"])]["map"]["UNIQ_KEY"]
            )[0]
            assert level_due_ms(record, LEVELS) == unit["tags_code"]


def test_index_holds_every_key_of_every_record(store: RocketmqStore) -> None:
    (index,) = store.indexes()
    expected = []
    for record in GOLDEN.values():
        keys = [record["map"].get("UNIQ_KEY", ""), *record["map"].get("KEYS", "").split()]
        expected += [(f"{record['topic'].decode()}#{key}", record) for key in keys if key]

    entries = index.entries[1:]

    assert len(entries) == len(expected)
    for entry, (name, record) in zip(entries, expected, strict=True):
        assert entry["hash"] == abs(java_hash(name))
        assert entry["position"] == record["position"]
        assert entry["seconds"] == (record["store_ms"] - index.begin_ms) // 1000


def test_index_header_and_slots(store: RocketmqStore) -> None:
    (index,) = store.indexes()

    assert len(index.slots) == 100
    assert (index.begin_ms, index.end_ms) == (1_794_769_653_687, 1_794_769_665_073)
    assert (index.begin_position, index.end_position) == (0, 3687)
    assert int((index.slots > 0).sum()) == index.used_slots
    for slot, newest in enumerate(index.slots.tolist()):
        chain = []
        while newest:
            chain.append(newest)
            assert index.entries[newest]["hash"] % 100 == slot
            newest = int(index.entries[newest]["previous"])
        members = [
            number
            for number in range(1, len(index.entries))
            if index.entries[number]["hash"] % 100 == slot
        ]
        assert chain == members[::-1]


def test_messages_are_found_by_key_and_unique_id(store: RocketmqStore) -> None:
    assert [record.position for record in store.find("TopicT", "key1")] == [0]
    assert [record.position for record in store.find("%RETRY%CG", "key1")] == [3687]
    assert [record.position for record in store.find("SCHEDULE_TOPIC_XXXX", "kd")] == [197]
    tx_delay = "7F00000113E05FFD2B274C33A81E0008"
    half = store.find("RMQ_SYS_TRANS_HALF_TOPIC", tx_delay)
    assert [record.position for record in half] == [2745, 2144]
    assert store.find("TopicT", "nobody's") == []


def test_configuration_is_read_leniently(store: RocketmqStore) -> None:
    assert store.delay_offsets() == {2: 1, 3: 1}
    offsets = store.config("consumerOffset.json")["offsetTable"]
    assert offsets["TopicT@CG"] == {"0": 2, "1": 3, "2": 3, "3": 0}
    topics = store.config("topics.json")["topicConfigTable"]
    assert topics["SCHEDULE_TOPIC_XXXX"]["writeQueueNums"] == 18


def test_one_message_is_pending_with_its_due_time(store: RocketmqStore) -> None:
    (pending,) = store.pending(levels=LEVELS, now_ms=1_794_769_666_000)

    assert (pending.level, pending.queue_offset) == (18, 0)
    assert pending.due_ms == DUE_MS
    assert pending.record.body == b"delayed-over"


def test_pending_without_progress_is_everything_delayed(copy: Path) -> None:
    (copy / "config" / "delayOffset.json").unlink()
    (copy / "config" / "delayOffset.json.bak").unlink()

    pending = RocketmqStore(copy).pending(levels=LEVELS, now_ms=1_794_769_655_100)

    assert [message.record.position for message in pending] == [197, 2414, 443]
    assert pending[0].due_ms == 1_794_769_658_725


def test_progress_is_taken_from_the_backup_if_need_be(copy: Path) -> None:
    (copy / "config" / "delayOffset.json").unlink()

    assert RocketmqStore(copy).delay_offsets() == {2: 1, 3: 1}


def test_progress_beyond_the_queue_is_corrected(copy: Path) -> None:
    (copy / "config" / "delayOffset.json").write_text('{"offsetTable":{2:900,3:-4,18:0}}')

    pending = RocketmqStore(copy).pending(levels=LEVELS, now_ms=1_794_769_666_000)

    assert [message.record.position for message in pending] == [2414, 443]


def test_clock_that_went_back_makes_it_due_now(store: RocketmqStore) -> None:
    """Due later than now plus the level's whole delay: the clock went back, deliver at once."""
    now_ms = DUE_MS - 7_200_000 - 1

    (pending,) = (
        message for message in store.pending(levels=LEVELS, now_ms=now_ms) if message.level == 18
    )

    assert pending.due_ms == now_ms


def test_level_that_is_not_in_the_table_is_one_second(store: RocketmqStore) -> None:
    short = DelayLevels.parse("1s 5s 10s")
    record = store.find("SCHEDULE_TOPIC_XXXX", "kd20")[0]

    assert level_due_ms(record, short) == record.store_ms + 1_000
    (pending,) = store.pending(levels=short, now_ms=DUE_MS - 1_000)
    assert pending.due_ms == DUE_MS
    (pending,) = store.pending(levels=short, now_ms=DUE_MS - 1_001)
    assert pending.due_ms == DUE_MS - 1_001


def test_unreadable_delayed_record_is_passed_over(copy: Path) -> None:
    segment = bytearray(SEGMENT.read_bytes())
    segment[443 + 90] ^= 1
    (copy / "commitlog" / SEGMENT.name).write_bytes(segment)

    assert RocketmqStore(copy).pending(levels=LEVELS, now_ms=1_794_769_666_000) == []


def test_filler_before_a_queues_first_unit_is_left_out(copy: Path) -> None:
    path = copy / "consumequeue" / "TopicT" / "0" / "00000000000000000000"
    filler = struct.pack(">qiq", 0, 0x7FFFFFFF, 0) * 3
    path.write_bytes(filler + path.read_bytes()[: -len(filler)])

    first, units = RocketmqStore(copy).units("TopicT", 0)

    assert first == 3
    assert units["position"].tolist() == [697, 903]
