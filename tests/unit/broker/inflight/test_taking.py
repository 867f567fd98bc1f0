"""One look for messages: bounds of count and size, filters, message groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.inflight.world import TEN_SECONDS, World

from dueline.broker.filters import filter_of
from dueline.broker.inflight import taking
from dueline.broker.inflight.taking import hash_group


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


def sizes(world: World, size_bytes_max: int) -> list[int]:
    taken = world.inflight.take(
        "g", "t", [0], count_max=8, holding=TEN_SECONDS, size_bytes_max=size_bytes_max
    )
    return [len(held.record.body) for held in taken.messages]


def test_first_message_is_taken_however_large_it_is(world: World) -> None:
    world.send("x" * 5_000, "y")

    assert sizes(world, 1_000) == [5_000]
    assert sizes(world, 1_000) == [1]


def test_nothing_smaller_overtakes_what_has_no_room(world: World) -> None:
    world.send("x" * 600, "y" * 600, "z")

    assert sizes(world, 1_000) == [600]
    assert sizes(world, 1_000) == [600, 1]


def test_what_comes_again_goes_before_what_is_new_and_keeps_its_place(world: World) -> None:
    world.send("a", "b")
    world.take()
    world.send("c")
    world.clock.advance(10_000)

    assert world.bodies(1) == ["a"]
    assert world.bodies() == ["b", "c"]


def test_long_stretch_of_unwanted_messages_is_passed_in_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(taking, "_READ_COUNT_MAX", 4)
    world.send(*map(str, range(10)), price="1")
    world.send("dear", price="9")
    wanted = filter_of("price > 5", "SQL92")
    found: list[list[bytes]] = []

    for _ in range(4):
        taken = world.inflight.take("g", "t", [0], count_max=1, holding=TEN_SECONDS, wanted=wanted)
        found.append([held.record.body for held in taken.messages])

    assert [b"dear"] in found
    assert found[0] == []
    assert world.offsets.get("g", "t")[0] == 10


def test_message_groups_are_told_apart_and_none_is_no_group() -> None:
    assert hash_group("") == 0
    assert hash_group("a") != hash_group("b")
    assert hash_group("\udcff") > 0  # bytes that are no UTF-8
