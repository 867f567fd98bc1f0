"""Rows at the sink: what cannot be delivered becomes a dead letter, and only that."""

from typing import Any

import pyarrow as pa
import pytest

from dueline.message import DEAD_LETTER_TOPIC, decode_properties
from dueline.spark import rows
from dueline.store import record as records
from dueline.store.schema import DELIVERY_SCHEMA, MESSAGE_SCHEMA


def messages(*changes: dict[str, Any]) -> pa.RecordBatch:
    plain = {
        **dict.fromkeys(MESSAGE_SCHEMA.names),
        "due_ms": 1_000,
        "topic": "orders",
        "queue_id": 0,
        "body": b"body",
        "properties": [("color", "red")],
        "unique_id": "id",
    }
    return pa.RecordBatch.from_pylist(
        [{**plain, "origin": origin, **change} for origin, change in enumerate(changes)],
        schema=MESSAGE_SCHEMA,
    )


def delivered(batch: pa.RecordBatch) -> dict[int, tuple[str, records.Record]]:
    found = {}
    for part in rows.deliveries(batch):
        assert part.schema.equals(DELIVERY_SCHEMA)
        for row in part.to_pylist():
            found[row["origin"]] = (row["topic"], records.decode(row["record"]))
    return found


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
    ],
)
def test_one_bad_row_does_not_stop_the_others(change: dict[str, Any], reason: str) -> None:
    found = delivered(messages({}, {}, {}, change, {}))

    assert sorted(found) == [0, 1, 2, 3, 4]
    assert [found[origin][0] for origin in (0, 1, 2, 4)] == ["orders"] * 4
    topic, record = found[3]
    properties = decode_properties(record.properties)
    assert topic == DEAD_LETTER_TOPIC == record.topic.decode()
    assert record.body == b"body"
    assert reason in properties["DUELINE_REASON"]
    assert (properties["DUELINE_ORIGIN"], properties["DUELINE_DUE_MS"]) == ("3", "1000")


def test_nothing_in_nothing_out() -> None:
    assert delivered(messages()) == {}
