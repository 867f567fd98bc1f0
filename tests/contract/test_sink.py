"""The sink: a transform may name any topic and queue, and what may not be is set aside."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.contract.cases import CASES, TAKE, Case
from tests.unit.store.making import Wall, delayed, open_store, read_all, take_window
from tests.unit.store.making import routed as routed_rows

from dueline.message import DEAD_LETTER_TOPIC, decode_properties
from dueline.store import Store
from dueline.store.carrying import carried

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


def routed(store: Store, case: Case, *, is_changed: bool) -> list[pa.RecordBatch]:
    """What the broker makes of a window whose second message goes elsewhere."""
    window = take_window(store)
    topics, queue_ids = window["topic"].to_pylist(), window["queue_id"].to_pylist()
    topics[1] = case.attempt.topic.replace("{door}", "sink")
    if case.attempt.queue_id is not None:
        queue_ids[1] = case.attempt.queue_id
    other = {"tags": ["tag"] * 3} if is_changed else {}
    return list(carried(window, routed_rows(window, topic=topics, queue_id=queue_ids, **other)))


@pytest.mark.parametrize("is_changed", [False, True], ids=["copied", "changed"])
@pytest.mark.parametrize("name", ROUTES)
def test_a_route_that_may_not_be_becomes_a_dead_letter(
    store: Store, wall: Wall, name: str, is_changed: bool
) -> None:
    case = ROUTES[name]

    batches = routed(store, case, is_changed=is_changed)
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
