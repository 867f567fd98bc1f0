"""Reading RocketMQ's store: what the golden store does not show."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.golden.layout import java_hash
from tests.unit.store.recording import make_record

from dueline.errors import CorruptRecord, NotFound
from dueline.schedule import DelayLevels
from dueline.store import rocketmq
from dueline.store.rocketmq import (
    IndexFile,
    RocketmqStore,
    due_of_unit,
    index_hash,
    level_due_ms,
    parse_lenient,
)

LEVELS = DelayLevels.parse("1s 5s")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{}", {}),
        ('{"a":{0:2,1:3}}', {"a": {"0": 2, "1": 3}}),
        ("{\n\t1 : 2,\n\t-3:4\n}", {"1": 2, "-3": 4}),
        ('{"0":1}', {"0": 1}),
        ('{"text":"{1:2,3:4}","n":[1,2]}', {"text": "{1:2,3:4}", "n": [1, 2]}),
        (r'{"text":"\"{1:2","x":1}', {"text": '"{1:2', "x": 1}),
        ('[{5:"a"},7]', [{"5": "a"}, 7]),
    ],
)
def test_bare_numbers_may_be_names(text: str, value: object) -> None:
    assert parse_lenient(text) == value


@pytest.mark.parametrize("text", ["", "{", "{a:1}", "{1:}", "nothing"])
def test_what_is_not_even_that_is_refused(text: str) -> None:
    with pytest.raises(CorruptRecord) as caught:
        parse_lenient(text, path="topics.json")

    assert caught.value.path == "topics.json"


def test_hash_is_never_negative() -> None:
    assert index_hash("TopicT", "key1") == 1185812048
    for number in range(200):
        expected = java_hash(f"t#{number}")
        assert index_hash("t", str(number)) == abs(expected)


def test_hash_of_the_smallest_integer_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Java's abs of the smallest integer is negative; RocketMQ makes it 0."""
    monkeypatch.setattr(rocketmq, "string_hash", lambda text: -(1 << 31))

    assert index_hash("t", "k") == 0


@pytest.mark.parametrize(
    ("level", "delay_ms"), [("1", 1_000), ("2", 5_000), ("3", 1_000), ("", 1_000), ("x", 1_000)]
)
def test_unknown_level_is_one_second(level: str, delay_ms: int) -> None:
    record = make_record(store_ms=7_000, properties=b"DELAY\x01" + level.encode())

    assert level_due_ms(record, LEVELS) == 7_000 + delay_ms


@pytest.mark.parametrize(
    ("deliver_ms", "level", "due_ms"),
    [(900, 2, 900), (6_000, 2, 6_000), (6_001, 2, 1_000), (2_000, 9, 2_000), (2_001, 9, 1_000)],
)
def test_unit_too_far_away_is_due_now(deliver_ms: int, level: int, due_ms: int) -> None:
    assert due_of_unit(deliver_ms, level, levels=LEVELS, now_ms=1_000) == due_ms


def index_bytes(slots: list[int], entries: list[tuple[int, int, int, int]]) -> bytes:
    """An index file of 3 slots and 12 entries."""
    head = struct.pack(">qqqqii", 1_000, 2_000, 0, 500, 1, len(entries) + 1)
    rows = [(0, 0, 0, 0), *entries]
    rows += [(0, 0, 0, 0)] * (12 - len(rows))
    return head + struct.pack(">3i", *slots) + b"".join(struct.pack(">iqii", *row) for row in rows)


def test_chain_is_walked_from_the_newest() -> None:
    index = IndexFile.decode(index_bytes([0, 3, 0], [(7, 10, 0, 0), (4, 20, 1, 1), (7, 30, 2, 2)]))

    assert index.find(7) == [30, 10]
    assert index.find(4) == [20]
    assert index.find(1) == []
    assert index.find(5) == []


def test_chain_that_goes_in_circles_ends() -> None:
    index = IndexFile.decode(index_bytes([0, 2, 0], [(7, 10, 0, 2), (7, 20, 0, 2)]))

    assert index.find(7) == [20]


@pytest.mark.parametrize("data", [b"", bytes(40), bytes(41), bytes(40 + 84 + 1)])
def test_length_that_no_index_has_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptRecord, match="for each slot"):
        IndexFile.decode(data, path="index")


def test_count_that_no_index_has_is_refused() -> None:
    data = bytearray(index_bytes([0, 0, 0], []))
    data[36:40] = struct.pack(">i", 13)

    with pytest.raises(CorruptRecord, match="at most 12 entries"):
        IndexFile.decode(bytes(data))


def test_store_without_a_commit_log_is_none(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="commit log"):
        RocketmqStore(tmp_path)


def test_store_without_anything_else_is_read(tmp_path: Path) -> None:
    (tmp_path / "commitlog").mkdir()
    record = make_record(mark=0)
    (tmp_path / "commitlog" / ("0" * 20)).write_bytes(record.encode().ljust(4096, b"\0"))

    store = RocketmqStore(tmp_path)

    assert store.records().positions.tolist() == [0]
    assert (store.queues(), store.indexes(), store.delay_offsets()) == ([], [], {})
    assert store.find("orders", "k") == []
    assert store.pending(levels=LEVELS, now_ms=0) == []
    assert len(store.units("orders", 0)[1]) == 0
    with pytest.raises(NotFound, match=r"topics\.json"):
        store.config("topics.json")
