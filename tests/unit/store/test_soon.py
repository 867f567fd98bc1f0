"""What is put aside for the shortcut: short delays, and no crowds."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.store.making import START_MS, Wall, delayed, open_store, ordinary

from dueline.message import Message
from dueline.store import Store, soon


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Store:
    return open_store(tmp_path, wall)


def taken(store: Store) -> list[int]:
    window = store.aside.take()
    return [] if window is None else window.units.seq.tolist()


def test_nothing_is_put_aside_unless_it_is_asked_for(store: Store) -> None:
    store.put(delayed(10))

    assert taken(store) == []


def test_short_delays_are_put_aside_once_in_due_order(store: Store) -> None:
    store.aside.keep(500)

    store.put_all([delayed(400), ordinary(), delayed(501), delayed(7)])
    store.put(delayed(500))

    assert taken(store) == [2, 0, 3]
    assert taken(store) == []


def has_news(store: Store) -> bool:
    return store.aside.has_news


def test_it_is_known_whether_something_came_that_is_due_soon(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(delayed(10))
    assert not has_news(store)  # nothing is asked for

    store.aside.keep(500)
    store.put(delayed(501))
    assert not has_news(store)
    store.put(delayed(500))
    assert has_news(store)
    store.aside.take()
    assert not has_news(store)

    monkeypatch.setattr(soon, "ROW_COUNT_MAX", 1)
    store.put_all([delayed(10), delayed(10)])
    assert taken(store) == []
    store.put_all([delayed(10), delayed(10)])
    assert has_news(store)


def test_levels_are_not(store: Store) -> None:
    store.aside.keep(999)

    store.put(Message(topic="orders", body=b"", properties={"DELAY": "1"}))

    assert taken(store) == []


def test_a_message_that_was_moved_to_a_near_time_is(store: Store) -> None:
    store.aside.keep(500)
    store.put(delayed(60_000, KEYS="k"))

    store.reschedule("k", START_MS + 100)

    assert taken(store) == [1]


def test_a_crowd_is_left_to_the_pipeline(store: Store) -> None:
    store.aside.keep(500)
    count = soon.ROW_COUNT_MAX

    def put(rows: int) -> None:
        columns = {"topic": ["t"] * rows, "body": [b""] * rows, "delay_ms": [5] * rows}
        store.put_many(pa.table(columns))

    put(count + 1)
    assert taken(store) == []
    put(count)
    put(1)
    assert len(taken(store)) == count
    assert store.pending_count() == 2 * count + 2
