"""Rows of the pipeline against the delay log: copied or changed, and nothing is lost on the way."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.store.making import Wall, delayed, open_store, routed, take_window

from dueline.message import DEAD_LETTER_TOPIC, decode_properties
from dueline.store import Store, restore
from dueline.store import record as records
from dueline.store.carrying import carried
from dueline.store.schema import DELIVERY_SCHEMA

IN_THE_MAP = dict.fromkeys(("color", "REAL_QID", "REAL_TOPIC", "TIMER_DELAY_MS", "TIMER_OUT_MS"))
Found = dict[int, tuple[str, int, records.Record]]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path, Wall())
    for number in range(5):
        store.put(delayed(1_000, b"body %d" % number, TAGS="red", KEYS=f"k{number}", color="blue"))
    return store


@pytest.fixture
def window(store: Store) -> pa.RecordBatch:
    return take_window(store)


def found(window: pa.RecordBatch, rows: pa.RecordBatch) -> Found:
    result: Found = {}
    for part in carried(window, rows):
        assert part.schema.equals(DELIVERY_SCHEMA)
        for row in part.to_pylist():
            assert row["origin"] not in result
            record = records.decode(row["record"])
            assert (record.seq, record.store_ms) == (row["origin"], row["due_ms"])
            assert (record.topic.decode(), record.queue_id) == (row["topic"], row["queue_id"])
            result[row["origin"]] = (row["topic"], row["queue_id"], record)
    return result


def of_one(value: Any, otherwise: Any) -> list[Any]:
    """A column whose fourth row is the one that matters."""
    return [value if row == 3 else otherwise for row in range(5)]


def test_rows_without_changes_are_copied(window: pa.RecordBatch) -> None:
    (copied,) = carried(window, routed(window))

    assert copied.equals(restore.deliveries(window))


def test_a_copy_goes_where_its_row_says(window: pa.RecordBatch) -> None:
    rows = routed(window, topic=of_one("reminders", "orders"), queue_id=of_one(7, 0))

    result = found(window, rows)

    assert [result[origin][:2] for origin in range(5)] == of_one(("reminders", 7), ("orders", 0))
    sent = [records.decode(data) for data in window["record"].to_pylist()]
    for origin, (_, _, record) in result.items():
        assert (record.body, record.properties) == (sent[origin].body, sent[origin].properties)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"body": b"new"}, {}),
        ({"tags": "late"}, {"TAGS": "late"}),
        ({"tags": None}, {"TAGS": None}),
        ({"keys": "other words"}, {"KEYS": "other words"}),
        ({"properties": [("size", "L")]}, {**IN_THE_MAP, "size": "L", "TAGS": "red"}),
        ({"unique_id": "mine"}, {"UNIQ_KEY": "mine"}),
        ({"body": b"new", "tags": "late"}, {"TAGS": "late", "color": "blue"}),
    ],
    ids=str,
)
def test_what_is_changed_is_taken_from_the_row_and_the_rest_from_the_record(
    window: pa.RecordBatch, changed: dict[str, Any], expected: dict[str, str | None]
) -> None:
    (before,) = carried(window, routed(window))
    rows = routed(window, **{name: [value] * 5 for name, value in changed.items()})

    result = found(window, rows)

    for row in before.to_pylist():
        was = records.decode(row["record"])
        _, _, record = result[row["origin"]]
        properties = decode_properties(was.properties)
        assert record.body == changed.get("body", was.body)
        wanted = {**properties, **expected}
        assert decode_properties(record.properties) == {
            name: value for name, value in wanted.items() if value is not None
        }
        assert (record.born_ms, record.born_host, record.flag, record.sys_flag) == (
            *(was.born_ms, was.born_host, was.flag, was.sys_flag),
        )


@pytest.mark.parametrize("other", [{}, {"tags": ["late"] * 5}], ids=["copied", "changed"])
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topic": "x" * 128}, "topic: expected"),
        ({"topic": "a/../b"}, "topic: expected"),
        ({"topic": ""}, "topic: expected"),
        ({"topic": None}, "topic: expected"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "only the broker"),
        ({"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}, "only the broker"),
        ({"queue_id": -1}, "queue_id: expected"),
        ({"queue_id": 65_536}, "queue_id: expected"),
        ({"queue_id": None}, "queue_id: expected"),
        ({"properties": [("a", "x" * 40_000)]}, "properties: expected"),
        ({"properties": [("a", "x\x02y")]}, "0x01"),
        ({"sys_flag": 4}, "half message"),
        ({"sys_flag": 12}, "half message"),
    ],
    ids=str,
)
def test_one_bad_row_does_not_stop_the_others(
    window: pa.RecordBatch, change: dict[str, Any], reason: str, other: dict[str, Any]
) -> None:
    usual = {"topic": "orders", "queue_id": 0, "properties": [], "sys_flag": 0}
    columns = {name: of_one(value, usual[name]) for name, value in change.items()}

    result = found(window, routed(window, **columns, **other))

    assert sorted(result) == [0, 1, 2, 3, 4]
    assert [result[origin][0] for origin in (0, 1, 2, 4)] == ["orders"] * 4
    topic, _, record = result[3]
    properties = decode_properties(record.properties)
    assert topic == DEAD_LETTER_TOPIC
    assert record.body == b"body 3"
    assert reason in properties["DUELINE_REASON"]
    due_ms = window["due_ms"][3].as_py()
    assert (properties["DUELINE_ORIGIN"], properties["DUELINE_DUE_MS"]) == ("3", str(due_ms))


@pytest.mark.parametrize("changed", [{}, {"tags": ["late"] * 5}], ids=["copied", "changed"])
@pytest.mark.parametrize("topic", ["orders", "elsewhere", DEAD_LETTER_TOPIC])
def test_a_damaged_record_is_a_dead_letter_wherever_it_is_sent(
    window: pa.RecordBatch, topic: str, changed: dict[str, Any]
) -> None:
    data = window["record"].to_pylist()
    data[3] = data[3].replace(b"body 3", b"b0dy 3")
    at = window.schema.get_field_index("record")
    broken = window.set_column(at, window.schema.field(at), pa.array(data, pa.binary()))

    result = found(broken, routed(window, topic=[topic] * 5, **changed))

    assert [result[origin][0] for origin in range(5)] == of_one(DEAD_LETTER_TOPIC, topic)
    letter = result[3][2]
    assert letter.body == data[3]
    assert decode_properties(letter.properties)["DUELINE_TOPIC"] == "orders"


def test_nothing_in_nothing_out(window: pa.RecordBatch) -> None:
    assert found(window.slice(0, 0), routed(window).slice(0, 0)) == {}
    assert found(window.slice(0, 0), routed(window, body=[b""] * 5).slice(0, 0)) == {}
