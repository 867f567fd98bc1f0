"""The road ahead agrees with a plain count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.broker.waiting.waiting_world import START_MS, WaitingWorld
from tests.unit.store.making import Wall, open_store

from dueline.broker.waiting import road
from dueline.broker.waiting.road import road_ahead
from dueline.errors import InvalidRequest


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WaitingWorld]:
    world = WaitingWorld(tmp_path_factory.mktemp("waiting"))
    yield world
    world.store.close()


@pytest.mark.parametrize("cells_max", [1, 1 << 20])
def test_buckets_agree_with_a_plain_count(
    world: WaitingWorld, monkeypatch: pytest.MonkeyPatch, cells_max: int
) -> None:
    monkeypatch.setattr(road, "_CELLS_MAX", cells_max)
    start_ms, end_ms, bucket_ms = START_MS + 2_500, START_MS + 50_000, 5_000

    found = road_ahead(world.store, start_ms=start_ms, end_ms=end_ms, bucket_ms=bucket_ms)

    inside = [each for each in world.sent if start_ms <= each.due_ms < end_ms]
    buckets = Counter((each.due_ms - start_ms) // bucket_ms for each in inside)
    assert found.counts == [buckets[number] for number in range(10)]
    for topic in ("orders", "mail", "bills"):
        own = Counter((e.due_ms - start_ms) // bucket_ms for e in inside if e.topic == topic)
        assert found.by_topic[topic] == [own[number] for number in range(10)]
    assert found.before_count == len([each for each in world.sent if each.due_ms < start_ms])
    assert found.after_count == len([each for each in world.sent if each.due_ms >= end_ms])
    assert found.at_gate_count == world.store.gate_row_count > 0


def test_one_topic_can_be_asked_for(world: WaitingWorld) -> None:
    found = road_ahead(
        world.store, start_ms=START_MS, end_ms=START_MS + 61_000, bucket_ms=61_000, topic="mail"
    )

    assert (found.counts, list(found.by_topic)) == ([20], ["mail"])


def test_few_topics_are_told_apart_when_there_are_many(
    world: WaitingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(road, "_CELLS_MAX", 1)
    monkeypatch.setattr(road, "TOPIC_COUNT_MAX", 2)

    found = road_ahead(world.store, start_ms=START_MS, end_ms=START_MS + 61_000, bucket_ms=61_000)

    assert (found.counts, len(found.by_topic)) == ([60], 2)


def test_an_empty_store_has_an_empty_road(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        found = road_ahead(store, start_ms=0, end_ms=2_000, bucket_ms=1_000)

    assert (found.counts, found.by_topic) == ([0, 0], {})


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "bucket_ms", "reason"),
    [
        (0, 10_000, 999, "bucket_ms: expected 1000"),
        (0, 10_000, 1 << 40, "bucket_ms: expected 1000"),
        (5, 5, 1_000, "expected a start before its end"),
        (-1, 5, 1_000, "expected a start before its end"),
        (0, 10_000_000, 1_000, "at most 4000 buckets, found 10000"),
    ],
)
def test_roads_without_sense_are_refused(
    world: WaitingWorld, start_ms: int, end_ms: int, bucket_ms: int, reason: str
) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        road_ahead(world.store, start_ms=start_ms, end_ms=end_ms, bucket_ms=bucket_ms)
