"""Messages with a trace are told of once they are visible, and those who were handed them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import START_MS, Wall, carry_over, delayed, open_store, ordinary

from dueline.broker import traces as module
from dueline.broker.traces import Traces
from dueline.message import decode_properties
from dueline.store import Store
from dueline.store import record as records

SAMPLED = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = SAMPLED[:-1] + "0"


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        yield store


def test_only_what_came_since_the_first_question_is_told_and_once(store: Store) -> None:
    traces = Traces(store)
    store.put(ordinary(b"before", topic="t", traceparent=SAMPLED))
    assert traces.read().messages == []

    store.put(ordinary(b"after", topic="t", traceparent=SAMPLED))
    store.put(ordinary(b"in a new queue", topic="u", traceparent=SAMPLED))

    assert sorted((each.topic, each.queue_offset) for each in traces.read().messages) == [
        ("t", 1),
        ("u", 0),
    ]
    assert traces.read().messages == []


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"traceparent": UNSAMPLED},
        {"traceparent": ""},
        {"traceparent": "00-xyz-01"},
        {"traceparent": SAMPLED.upper() + "\n"},
        {"nottraceparent": SAMPLED},
        {"other": "traceparent"},
    ],
)
def test_messages_without_a_recorded_trace_are_not(
    store: Store, properties: dict[str, str]
) -> None:
    traces = Traces(store)
    traces.read()

    store.put(ordinary(b"x", topic="t", **properties))

    assert traces.read().messages == []


def test_a_delayed_message_is_told_when_it_is_visible_with_its_times(
    store: Store, wall: Wall
) -> None:
    traces = Traces(store)
    traces.read()
    store.put(delayed(5_000, b"x", topic="t", traceparent=SAMPLED, tracestate="a=b"))
    assert traces.read().messages == []

    wall.advance(4_000)
    carry_over(store)
    store.open_gate()
    assert traces.read().messages == [], "carried over, and not visible"

    wall.advance(1_000)
    store.open_gate()
    (found,) = traces.read().messages
    assert (found.accepted_ms, found.due_ms) == (START_MS, START_MS + 5_000)
    assert found.visible_ms == START_MS + 5_000
    assert (found.traceparent, found.tracestate, found.size_bytes) == (SAMPLED, "a=b", 1)


def test_what_is_handed_out_is_noted_once_somebody_asks(store: Store, wall: Wall) -> None:
    traces = Traces(store)
    was_on = traces.is_on
    traces.read()
    assert (was_on, traces.is_on) == (False, True)
    for properties in ({"traceparent": SAMPLED}, {}, {"traceparent": UNSAMPLED}):
        store.put(ordinary(b"traceparent\x01", topic="t", **properties))
    result = store.read("t", 0, 0, count_max=10)
    assert len(result.records) == 3
    wall.advance(70)

    traces.pulled("billing", result)
    (received,) = [records.decode(view) for view in result.records[:1]]
    traces.received("audit", [(received, decode_properties(received.properties), 2)])

    found = traces.read()
    assert [(each.group, each.attempt) for each in found.handed] == [("billing", 1), ("audit", 2)]
    assert {each.handed_ms for each in found.handed} == {START_MS + 70}
    assert {each.message.queue_offset for each in found.handed} == {0}
    assert traces.read().handed == []


def test_hand_outs_that_nobody_asks_for_are_bounded_and_counted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HANDED_COUNT_MAX", 2)
    traces = Traces(store)
    traces.read()
    for _ in range(5):
        store.put(ordinary(b"x", topic="t", traceparent=SAMPLED))
    traces.pulled("g", store.read("t", 0, 0, count_max=10))

    found = traces.read()
    assert [each.message.queue_offset for each in found.handed] == [3, 4]
    assert found.lost_count == 3
    assert traces.read().lost_count == 0


def test_a_crowd_is_told_in_parts_and_its_hand_outs_after_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_ROWS_MAX", 4)
    monkeypatch.setattr(module, "COUNT_MAX", 4)
    traces = Traces(store)
    traces.read()
    for number in range(10):
        properties = {"traceparent": SAMPLED} if number % 2 else {}
        store.put(ordinary(b"x", topic="t", **properties))
    traces.pulled("g", store.read("t", 0, 0, count_max=32))

    parts = [traces.read()]
    while parts[-1].has_more:
        assert parts[-1].handed == []
        parts.append(traces.read())

    assert len(parts) > 1
    offsets = [each.queue_offset for part in parts for each in part.messages]
    assert offsets == [1, 3, 5, 7, 9]
    assert [each.message.queue_offset for each in parts[-1].handed] == offsets
