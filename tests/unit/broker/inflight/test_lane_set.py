"""A group's lanes in one topic: turns, sources, receipts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.inflight.world import World

from dueline.broker.inflight import Receipt
from dueline.broker.inflight.lane import RETRY_LANE, Entry, Lane
from dueline.broker.inflight.lane_set import LaneSet
from dueline.broker.inflight.log import LaneName


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.store.close()


@pytest.fixture
def lanes(world: World) -> LaneSet:
    return LaneSet(LaneName(group="g", topic="t"), world.store, epoch=9)


def test_every_queue_has_its_turn_to_be_the_first(lanes: LaneSet) -> None:
    turns = [lanes.next_turn([0, 1, 2]) for _ in range(3)]

    assert sorted(turn[0] for turn in turns) == [0, 1, 2]
    assert all(sorted(turn) == [0, 1, 2] for turn in turns)
    assert lanes.next_turn([]) == []


def test_source_of_a_lane_is_its_queue_or_a_queue_of_the_retry_topic(lanes: LaneSet) -> None:
    assert lanes.source(Lane(number=1, queue_id=3, cursor=0)) == ("t", 3)
    assert lanes.source(Lane(number=1, queue_id=RETRY_LANE | 3, cursor=0)) == ("%RETRY%g", 3)


def test_held_message_has_the_receipt_of_its_holding(world: World, lanes: LaneSet) -> None:
    world.send("a", "b", color="red")
    lane = Lane(number=4, queue_id=0, cursor=2)
    lane.hold(1, Entry(attempt=3, visible_ms=77, serial=5))

    found = lanes.read_one(lane, 1)
    assert found is not None
    held = lanes.held(lane, 1, found)

    assert (held.record.body, held.properties["color"]) == (b"b", "red")
    assert (held.attempt, held.visible_ms) == (3, 77)
    assert Receipt.decode(held.receipt) == Receipt(epoch=9, lane=4, offset=1, serial=5)
    assert lanes.read_one(lane, 2) is None


def test_everybody_who_watches_is_woken(lanes: LaneSet) -> None:
    woken: list[int] = []
    lanes.watchers |= {lambda: woken.append(1), lambda: woken.append(2)}

    lanes.wake()

    assert sorted(woken) == [1, 2]
