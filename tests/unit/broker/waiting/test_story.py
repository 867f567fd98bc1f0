"""One message: what is told of it in each of its states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import START_MS, Wall, carry_over, delayed, int64s, open_store

from dueline.broker.waiting.story import story_of
from dueline.errors import InvalidRequest, NotFound
from dueline.store import Store


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        yield store


def test_a_message_is_followed_from_acceptance_to_its_queue(store: Store, wall: Wall) -> None:
    store.put(delayed(500))
    result = store.put(delayed(1_000, b"hello", KEYS="k", TAGS="t"))

    (pending,) = story_of(store, number=1, body_bytes_max=4)
    carry_over(store)
    (carried,) = story_of(store, unique_id=result.unique_id)
    wall.advance(1_000)
    store.open_gate()
    (visible,) = story_of(store, number=1)

    assert (pending.state, pending.accepted_ms, pending.due_ms) == (
        "pending",
        START_MS,
        START_MS + 1_000,
    )
    assert (pending.body, pending.body_size_bytes, pending.appended) == (b"hell", 5, None)
    assert (pending.keys, pending.tags, pending.topic) == ("k", "t", "orders")
    assert carried.state == "carried over"
    assert carried.appended is not None
    assert (carried.appended.offset, carried.body) == (None, b"")
    assert visible.state == "delivered"
    assert visible.appended is not None
    assert (visible.appended.topic, visible.appended.offset, visible.appended.visible_ms) == (
        "orders",
        1,
        START_MS + 1_000,
    )
    assert visible.appended.late_ms == 0
    assert visible.events == [("accepted", START_MS), ("visible", START_MS + 1_000)]


def test_what_was_late_is_told(store: Store, wall: Wall) -> None:
    store.put(delayed(1_000))
    wall.advance(31_000)
    carry_over(store)
    store.open_gate()

    (story,) = story_of(store, number=0)

    assert story.appended is not None
    assert story.appended.late_ms == 30_000


def test_a_moved_message_has_an_entry_for_each_time(store: Store) -> None:
    store.put(delayed(1_000))
    store.numbers.move(int64s(0), int64s(START_MS + 5_000))

    now, before = story_of(store, number=0)

    assert (now.number, now.state, now.due_ms) == (1, "pending", START_MS + 5_000)
    assert (before.number, before.state) == (0, "moved")


def test_questions_without_an_answer(store: Store) -> None:
    store.put(delayed(1_000))
    with pytest.raises(NotFound, match="found none with number 7"):
        story_of(store, number=7)
    with pytest.raises(NotFound, match="found none with id nobody"):
        story_of(store, unique_id="nobody")
    with pytest.raises(InvalidRequest, match="both or neither"):
        story_of(store)
