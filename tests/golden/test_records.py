"""Every record that Apache RocketMQ 4.9.8 wrote, and records of ours by RocketMQ's layout."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.golden.layout import SEGMENT, all_records, java_hash, parse

from dueline.message import Message, UniqueIds, decode_properties, pack_host, tags_code
from dueline.schedule import DEFAULT_LEVELS, DelayLevels
from dueline.store import kernels, properties, restore
from dueline.store import record as records
from dueline.store.draft import Rules, encode_all, prepare
from dueline.store.files import Files
from dueline.store.log import LogReader
from dueline.store.record import MARK_DELAYED, MARK_PRESENT
from dueline.store.scan import scan

GOLDEN = all_records()
DATA = SEGMENT.read_bytes()
RULES = Rules(
    levels=DelayLevels.parse(DEFAULT_LEVELS), delay_max_ms=10**12, body_size_max=4 * 1024 * 1024
)
HOST = pack_host("127.0.0.1", 10911)


def golden_batch() -> pa.RecordBatch:
    rows = [DATA[one["position"] : one["position"] + one["size"]] for one in GOLDEN]
    return pa.record_batch([pa.array(rows, pa.binary())], names=["record"])


def test_the_golden_log_is_what_the_notes_say() -> None:
    assert len(GOLDEN) == 17
    assert [one["position"] for one in GOLDEN][:4] == [0, 197, 443, 697]
    assert {one["topic"].decode() for one in GOLDEN} == {
        "TopicT",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "%RETRY%CG",
    }
    assert 769 in {one["sys_flag"] for one in GOLDEN}, "a compressed one"
    assert 8 in {one["sys_flag"] for one in GOLDEN}, "a committed one"


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda one: str(one["position"]))
def test_record_is_decoded_field_by_field(golden: dict[str, object]) -> None:
    position = int(str(golden["position"]))

    record = records.decode(DATA[position:], position=position)

    for name in (
        "queue_id", "flag", "queue_offset", "position", "sys_flag", "born_ms", "store_ms",
        "reconsume_times", "body", "topic", "properties",
    ):  # fmt: skip
        assert getattr(record, name) == golden[name], name
    assert record.prepared_position == golden["prepared"]
    assert record.seq is None
    assert record.size_bytes == golden["size"]
    assert decode_properties(record.properties) == golden["map"]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda one: str(one["position"]))
def test_record_is_encoded_byte_for_byte(golden: dict[str, object]) -> None:
    start = int(str(golden["position"]))
    data = DATA[start : start + int(str(golden["size"]))]

    assert records.decode(data).encode() == data


def test_walk_finds_every_record_and_no_damage() -> None:
    reader = LogReader(Files(), SEGMENT.parent, len(DATA))

    found = scan(reader, 0, [0])

    assert found.positions.tolist() == [one["position"] for one in GOLDEN]
    assert found.sizes.tolist() == [one["size"] for one in GOLDEN]
    assert found.end == sum(one["size"] for one in GOLDEN)
    assert found.damage == []


def test_array_kernels_read_the_same_fields() -> None:
    data = np.frombuffer(DATA, dtype=np.uint8)
    starts = np.array([one["position"] for one in GOLDEN])

    headers = kernels.headers(data, starts)

    for name in ("size", "queue_id", "queue_offset", "position", "sys_flag", "born_ms", "store_ms"):
        assert headers[name].tolist() == [one[name] for one in GOLDEN], name
    assert headers["mark"].tolist() == [one["prepared"] for one in GOLDEN]
    assert headers["body_size"].tolist() == [len(one["body"]) for one in GOLDEN]


def test_array_checks_accept_every_record() -> None:
    assert not restore.damaged(golden_batch()).any()


def test_array_properties_read_the_same_maps() -> None:
    texts = pa.array([one["properties"] for one in GOLDEN], pa.binary())

    assert [dict(row) for row in properties.split(texts).to_pylist()] == [
        one["map"] for one in GOLDEN
    ]
    assert properties.values(texts, "KEYS").to_pylist() == [
        None if "KEYS" not in one["map"] else one["map"]["KEYS"].encode() for one in GOLDEN
    ]
    assert properties.tags_codes(properties.values(texts, "TAGS")).tolist() == [
        java_hash(one["map"].get("TAGS", "")) for one in GOLDEN
    ]


def test_array_restore_reads_the_same_messages() -> None:
    count = len(GOLDEN)
    window = pa.record_batch(
        {
            "origin": pa.array(range(count), pa.int64()),
            "due_ms": pa.array([one["store_ms"] for one in GOLDEN], pa.int64()),
            "topic": [one["topic"].decode() for one in GOLDEN],
            "queue_id": pa.array([one["queue_id"] for one in GOLDEN], pa.int32()),
            "record": golden_batch().column("record"),
        }
    )

    rows = restore.messages(window).to_pylist()

    assert [row["body"] for row in rows] == [one["body"] for one in GOLDEN]
    assert [dict(row["properties"]) for row in rows] == [one["map"] for one in GOLDEN]
    assert [row["born_ms"] for row in rows] == [one["born_ms"] for one in GOLDEN]
    assert [row["reconsume_times"] for row in rows] == [one["reconsume_times"] for one in GOLDEN]


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda one: str(one["position"]))
def test_our_record_has_rocketmqs_layout(golden: dict[str, object]) -> None:
    """The same message put into our commit log: only the mark differs from what RocketMQ wrote."""
    position = int(str(golden["position"]))
    there = parse(DATA, position)
    message = Message(
        topic=there["topic"].decode(),
        body=there["body"],
        queue_id=there["queue_id"],
        # As an ordinary message: without what would delay it or make it a half message.
        properties={
            name: value for name, value in there["map"].items() if name not in ("DELAY", "TRAN_MSG")
        },
        sys_flag=there["sys_flag"],
        born_ms=there["born_ms"],
        born_host=pack_host("127.0.0.1", there["born_port"]),
        reconsume_times=there["reconsume_times"],
    )
    ids = UniqueIds(host=HOST, start_ms=0)
    draft = prepare(message, now_ms=there["store_ms"], rules=RULES, ids=ids)

    data = encode_all(
        [draft],
        positions=[position],
        queue_offsets=[there["queue_offset"]],
        marks=[0],
        store_ms=there["store_ms"],
        store_host=HOST,
    )

    ours = parse(data)
    for name in ("magic", "crc", "queue_id", "flag", "queue_offset", "position", "sys_flag",
                 "born_ms", "born_host", "born_port", "store_ms", "store_host", "store_port",
                 "reconsume_times", "body", "topic"):  # fmt: skip
        assert ours[name] == there[name], name
    assert ours["prepared"] >> 62 == 1, "marked as ours, and not negative for RocketMQ"
    expected = dict(message.properties)
    assert {name: ours["map"][name] for name in expected} == expected


def test_our_delayed_record_looks_as_in_rocketmq() -> None:
    """The golden record at 197: level 2, for TopicT, queue 2."""
    there = GOLDEN[1]
    sent = {
        name: value
        for name, value in there["map"].items()
        if name not in ("REAL_TOPIC", "REAL_QID")
    }
    message = Message(topic="TopicT", queue_id=2, body=b"delayed", properties=sent)
    ids = UniqueIds(host=HOST, start_ms=0)
    draft = prepare(message, now_ms=there["store_ms"], rules=RULES, ids=ids)

    data = encode_all(
        [draft],
        positions=[there["position"]],
        queue_offsets=[there["queue_offset"]],
        marks=[MARK_DELAYED | 5],
        store_ms=there["store_ms"],
        store_host=HOST,
    )

    ours = parse(data)
    assert (ours["topic"], ours["queue_id"]) == (there["topic"], there["queue_id"])
    assert ours["map"] == there["map"]
    assert records.decode(data).seq == 5
    assert draft.due is not None
    assert draft.due.due_ms == there["store_ms"] + 5_000


def test_over_the_last_level_is_clamped_as_rocketmq_did() -> None:
    """The golden record at 443 was sent with level 99 and stored with 18."""
    assert GOLDEN[2]["map"]["DELAY"] == "18"
    message = Message(topic="TopicT", body=b"delayed-over", properties={"DELAY": "99"})
    ids = UniqueIds(host=HOST, start_ms=0)

    draft = prepare(message, now_ms=GOLDEN[2]["store_ms"], rules=RULES, ids=ids)

    assert (draft.log_topic, draft.log_queue_id) == ("SCHEDULE_TOPIC_XXXX", 17)
    assert b"DELAY\x0118" in draft.tail


def test_tags_code_is_javas() -> None:
    for golden in GOLDEN:
        assert tags_code(golden["map"]) == java_hash(golden["map"].get("TAGS", ""))
    assert MARK_PRESENT == 1 << 62
