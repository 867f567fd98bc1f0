"""What became of messages, seen from outside a store that is in use."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.store.making import (
    START_MS,
    Wall,
    carry_over,
    delayed,
    int64s,
    open_store,
    ordinary,
)

from dueline.store import Store
from dueline.store.outcomes import Outcomes


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path, Wall())
    store.put_all([delayed(10, KEYS=f"k{number}") for number in range(5)])
    return store


def states(store: Store) -> list[str | None]:
    outcomes = Outcomes(store.path)
    return [outcomes.state_of(seq) for seq in range(5)]


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_states_are_known_without_asking_the_store(store: Store, has_checkpoint: bool) -> None:
    carry_over(store, row_count_max=2)
    store.deliver([], dropped=int64s(3))
    if has_checkpoint:
        store.checkpoint()
    store.cancel("k1")
    store.cancel("k2")

    assert states(store) == ["delivered", "cancelled", "cancelled", "dropped", "pending"]


def test_states_are_known_without_a_snapshot(store: Store) -> None:
    store.cancel("k2")
    for name in ("timeline.states", "timeline.states.mirror", "checkpoint.json"):
        (store.path / name).unlink()

    assert states(store) == ["pending", "pending", "cancelled", "pending", "pending"]


def test_second_copy_is_as_good(store: Store) -> None:
    store.cancel("k2")
    store.checkpoint()
    (store.path / "timeline.states").write_bytes(b"damaged")

    assert states(store)[2] == "cancelled"


def test_without_a_store_nothing_is_known() -> None:
    assert Outcomes().state_of(0) is None


def test_due_times_are_those_of_the_store(store: Store) -> None:
    store.put(ordinary(b"level", DELAY="2", KEYS="level"))
    store.put(ordinary(b"plain", KEYS="plain"))
    outcomes = Outcomes(store.path)

    (timer,) = store.find_delayed("k0")
    (level,) = store.find_delayed("level")
    (plain,) = store.query("orders", "plain")

    assert outcomes.due_ms(timer.record) == START_MS + 10
    assert outcomes.due_ms(level.record) == START_MS + 5_000
    assert outcomes.due_ms(plain) is None
