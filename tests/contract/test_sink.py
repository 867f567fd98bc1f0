"""The sink: a transform may name any topic and queue, and what may not be is set aside."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.contract.cases import CASES, TAKE, Case
from tests.unit.store.making import Wall, delayed, open_store, read_all

from dueline.message import DEAD_LETTER_TOPIC, decode_properties
from dueline.spark import rows
from dueline.spark.schema import MESSAGE_COLUMNS
from dueline.store import Store
from dueline.store.schema import MESSAGE_SCHEMA
from dueline.store.staged import check_deliveries

ROUTES = {
    name: case
    for name, case in CASES.items()
    if not case.attempt.properties and case.attempt.delay_ms == 3_600_000
    if len(case.attempt.body) < 100 and case.config is None
}


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Store:
    store = open_store(tmp_path, wall)
    store.put(delayed(1_000, body=b"before"))
    store.put(delayed(1_000, body=b"routed"))
    store.put(delayed(1_000, body=b"behind"))
    return store


def routed(store: Store, case: Case) -> list[pa.RecordBatch]:
    """What the sink's tasks make of a window whose second message goes elsewhere."""
    corner = store.next_corner(until_ms=1 << 60, row_count_max=10)
    window = store.read_window(store.window(corner))
    (messages,) = rows.message_rows(window, "shard")
    changed = messages.to_pylist()
    changed[1]["topic"] = case.attempt.topic.replace("{door}", "sink")
    if case.attempt.queue_id is not None:
        changed[1]["queue_id"] = case.attempt.queue_id
    batch = pa.RecordBatch.from_pylist(changed, schema=MESSAGE_COLUMNS)
    return list(rows.deliveries(batch.select(MESSAGE_SCHEMA.names)))


@pytest.mark.parametrize("name", ROUTES)
def test_a_route_that_may_not_be_becomes_a_dead_letter(store: Store, wall: Wall, name: str) -> None:
    case = ROUTES[name]

    batches = routed(store, case)
    for batch in batches:
        check_deliveries(batch)
    assert store.deliver(batches).delivered_count == 3
    wall.now_ms += 2_000
    store.open_gate()

    topic = case.attempt.topic.replace("{door}", "sink")
    assert [record.body for record in read_all(store)] == [b"before", b"behind"]
    if case.expected("sink") is TAKE:
        (record,) = read_all(store, topic, case.attempt.queue_id or 0)
        assert record.body == b"routed"
        return
    (letter,) = read_all(store, DEAD_LETTER_TOPIC)
    assert letter.body == b"routed"
    assert decode_properties(letter.properties)["DUELINE_REASON"]
