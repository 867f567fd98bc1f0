"""From the delay log to the commit log: the short way, the long way, and dead letters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.golden.layout import java_hash, parse
from tests.unit.store.making import (
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    open_store,
    read_all,
    routed,
    take_window,
)

from dueline.errors import InvalidRequest
from dueline.message import Message, decode_properties, pack_host
from dueline.store import Store, restore
from dueline.store import record as records
from dueline.store.carrying import carried
from dueline.store.properties import key_hash
from dueline.store.schema import DELIVERY_SCHEMA, MESSAGE_SCHEMA, WINDOW_SCHEMA, empty_batch

V6 = pack_host("2001:db8::9", 1234)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), min_size=1, max_size=8)
MESSAGES = st.builds(
    Message,
    topic=st.sampled_from(["orders", "x" * 127, "%RETRY%g"]),
    body=st.binary(max_size=30),
    queue_id=st.integers(0, 1_023),
    properties=st.fixed_dictionaries(
        {"TIMER_DELAY_MS": st.integers(1, 50).map(str)},
        optional={"KEYS": WORDS, "TAGS": WORDS, "own": WORDS, "UNIQ_KEY": WORDS},
    ),
    flag=st.integers(-5, 5),
    sys_flag=st.sampled_from([0, 1, 8]),
    born_ms=st.integers(0, START_MS),
    born_host=st.sampled_from([pack_host("10.1.2.3", 77), V6]),
    reconsume_times=st.integers(0, 3),
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path, Wall())


@settings(max_examples=25)  # each opens a store
@given(st.lists(MESSAGES, min_size=1, max_size=6))
def test_short_way_and_long_way_agree(
    tmp_path_factory: pytest.TempPathFactory, sent: list[Message]
) -> None:
    with open_store(tmp_path_factory.mktemp("store"), Wall()) as store:
        results = store.put_all(sent)
        window = take_window(store)
    assert all(not isinstance(result, Exception) for result in results)

    short = restore.deliveries(window).to_pylist()
    restored = restore.messages(window)
    long = restore.encode_deliveries(restored).to_pylist()

    assert restored.schema.equals(MESSAGE_SCHEMA)
    by_order = sorted(sent, key=lambda one: int(one.properties["TIMER_DELAY_MS"]))
    for one, other, message in zip(short, long, by_order, strict=True):
        first, second = (records.decode(row.pop("record")) for row in (one, other))
        assert one == other
        for record in (first, second):
            found = decode_properties(record.properties)
            assert message.properties.items() <= found.items()
            assert (record.topic.decode(), record.queue_id) == (message.topic, message.queue_id)
            assert (record.body, record.flag) == (message.body, message.flag)
            assert record.sys_flag & ~0x30 == message.sys_flag
            assert (record.born_ms, record.born_host) == (message.born_ms, message.born_host)
            assert record.reconsume_times == message.reconsume_times
            assert (record.seq, record.store_ms) == (one["origin"], one["due_ms"])
        assert decode_properties(first.properties) == decode_properties(second.properties)
        keys = message.properties.get("KEYS", "").split(" ")
        expected = [key_hash(word) for word in keys if word]
        assert one["key_hashes"][1:] == expected
        assert one["tags_code"] == java_hash(message.properties.get("TAGS", ""))


def test_messages_show_what_was_sent(store: Store) -> None:
    result = store.put(delayed(40, b"hello", KEYS="k1 k2", TAGS="g", own="x", UNIQ_KEY="id"))

    (row,) = restore.messages(take_window(store)).to_pylist()

    assert row.pop("properties") == [
        ("KEYS", "k1 k2"),
        ("TAGS", "g"),
        ("own", "x"),
        ("UNIQ_KEY", "id"),
        ("TIMER_DELAY_MS", "40"),
        ("TIMER_OUT_MS", str(START_MS + 40)),
        ("REAL_TOPIC", "orders"),
        ("REAL_QID", "0"),
    ]
    assert row == {
        "origin": 0,
        "due_ms": START_MS + 40,
        "topic": "orders",
        "queue_id": 0,
        "body": b"hello",
        "tags": "g",
        "keys": "k1 k2",
        "born_ms": 0,
        "store_ms": result.store_ms,
        "born_host": pack_host("127.0.0.1", 0),
        "flag": 0,
        "sys_flag": 0,
        "reconsume_times": 0,
        "unique_id": "id",
    }


def changed(store: Store, **columns: Any) -> pa.RecordBatch:
    """The window's messages with some columns replaced, as a transform may."""
    batch = restore.messages(take_window(store))
    for name, values in columns.items():
        at = batch.schema.get_field_index(name)
        field = batch.schema.field(name)
        batch = batch.set_column(at, field, pa.array(values, field.type))
    return batch


def test_transform_may_change_everything(store: Store) -> None:
    store.put(delayed(5, b"old", KEYS="k", TAGS="g"))
    wall_batch = changed(
        store,
        topic=["other"],
        queue_id=[7],
        body=[b"new"],
        keys=["k9"],
        tags=[None],
        due_ms=[START_MS],
        properties=[[("a", "b"), ("KEYS", "in the map"), ("empty", ""), ("null", None)]],
    )

    store.deliver([restore.encode_deliveries(wall_batch)])

    (record,) = read_all(store, "other", 7)
    fields = parse(records.seal(record))
    assert record.body == b"new"
    assert {name: fields["map"][name] for name in ("KEYS", "a")} == {"KEYS": "k9", "a": "b"}
    assert not {"TAGS", "empty", "null"} & set(fields["map"])
    assert record.store_host == pack_host("127.0.0.1", 10911), "the broker's, as if put directly"
    assert [found.body for found in store.query("other", "k9")] == [b"new"]


def test_rows_with_nulls_are_filled(store: Store) -> None:
    store.put(delayed(5, b"x"))
    names = ("body", "tags", "keys", "properties", "born_ms", "born_host", "flag", "sys_flag",
             "reconsume_times")  # fmt: skip

    batch = restore.encode_deliveries(changed(store, **{name: [None] for name in names}))

    record = records.decode(batch.column("record")[0].as_py())
    assert (record.body, record.born_ms, record.flag) == (b"", 0, 0)
    assert record.born_host == pack_host("0.0.0.0", 0)


@pytest.mark.parametrize(
    ("column", "value", "field"),
    [
        ("topic", "", "topic"),
        ("topic", None, "topic"),
        ("topic", "t" * 128, "topic"),
        ("keys", "k" * 32_768, "properties"),
        ("keys", "a\x02b", "properties"),
        ("tags", "\x01", "properties"),
        ("unique_id", "a\x01", "properties"),
        ("properties", [("a", "b\x02c\x01d")], "properties"),
        ("properties", [("a\x01", "b")], "properties"),
    ],
)
def test_rows_that_no_record_can_hold_are_refused(
    store: Store, column: str, value: Any, field: str
) -> None:
    store.put_all([delayed(5, b"fine"), delayed(6, b"bad")])
    batch = restore.messages(take_window(store))
    values = [batch.column(column)[0].as_py(), value]

    with pytest.raises(InvalidRequest) as caught:
        restore.encode_deliveries(changed(store, **{column: values}))

    assert (caught.value.row, caught.value.field) == (1, field)


@pytest.mark.parametrize("topic", ["a b", "../x", "DUELINE_SYS_CONTROL"])
def test_delivery_to_what_is_no_topic_is_refused(store: Store, topic: str) -> None:
    store.put(delayed(5))
    batch = restore.encode_deliveries(changed(store, topic=[topic]))

    with pytest.raises(InvalidRequest, match="topic"):
        store.deliver([batch])

    assert store.pending_count() == 1
    assert carry_over(store).delivered_count == 1, "the store goes on as if nothing had been"


def test_nothing_restores_to_nothing() -> None:
    empty = empty_batch(WINDOW_SCHEMA)

    assert restore.deliveries(empty).num_rows == 0
    assert restore.encode_deliveries(empty_batch(MESSAGE_SCHEMA)).schema.equals(DELIVERY_SCHEMA)
    assert len(restore.damaged(empty)) == 0


def _carried(window: pa.RecordBatch) -> pa.RecordBatch:
    """What becomes of a window without a transform, by origin."""
    table = pa.Table.from_batches(carried(window, routed(window))).sort_by("origin")
    return table.combine_chunks().to_batches()[0]


def with_record(window: pa.RecordBatch, row: int, record: bytes) -> pa.RecordBatch:
    cells = window.column("record").to_pylist()
    cells[row] = record
    at = window.schema.get_field_index("record")
    return window.set_column(at, window.schema.field("record"), pa.array(cells, pa.binary()))


@pytest.mark.parametrize("kind", ["flipped", "gone", "cut"])
def test_damaged_record_becomes_a_dead_letter(store: Store, kind: str) -> None:
    wall = Wall()
    store.put_all([delayed(5, b"first"), delayed(6, b"second"), delayed(7, b"third")])
    window = take_window(store)
    sound = window.column("record")[1].as_py()
    bad = {"flipped": sound[:95] + bytes([sound[95] ^ 1]) + sound[96:], "gone": b"",
           "cut": sound[:50]}[kind]  # fmt: skip

    batch = _carried(with_record(window, 1, bad))

    assert batch.column("origin").to_pylist() == [0, 1, 2]
    assert batch.column("topic").to_pylist() == ["orders", "DUELINE_DEAD_LETTER", "orders"]
    record = records.decode(batch.column("record")[1].as_py())
    facts = decode_properties(record.properties)
    assert record.body == bad, "the bytes are kept for whoever can make sense of them"
    assert facts["DUELINE_ORIGIN"] == "1"
    assert facts["DUELINE_TOPIC"] == "orders"
    assert facts["DUELINE_DUE_MS"] == str(START_MS + 6)
    assert facts["DUELINE_REASON"]
    assert store.deliver([batch]).delivered_count == 3
    assert wall.now_ms == START_MS


@pytest.mark.parametrize("topic", ["RMQ_SYS_TRANS_HALF_TOPIC", ""])
def test_forbidden_topic_becomes_a_dead_letter(store: Store, topic: str) -> None:
    store.put(delayed(5, b"first"))
    window = take_window(store)
    at = window.schema.get_field_index("topic")
    window = window.set_column(at, window.schema.field("topic"), pa.array([topic]))

    batch = _carried(window)

    assert batch.column("topic").to_pylist() == ["DUELINE_DEAD_LETTER"]
    facts = decode_properties(records.decode(batch.column("record")[0].as_py()).properties)
    assert "not a topic to deliver to" in facts["DUELINE_REASON"]


def test_one_origin_is_delivered_once_even_in_one_call(store: Store) -> None:
    store.put(delayed(1, b"once"))
    window = take_window(store)
    batch = restore.deliveries(window)

    result = store.deliver([batch, batch])

    assert (result.delivered_count, result.skipped_count) == (1, 1)
    assert store.gate_row_count == 1
    assert bodies(store) == []
