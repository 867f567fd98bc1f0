"""Crowds are named before they come: against a rate for certain, against what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import START_MS, QuickFiles, Wall, carry_over, delayed, open_store

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.waiting.forecast import MINUTE_MS, Forecast
from dueline.errors import InvalidRequest
from dueline.store import Store
from dueline.store.road import RoadRule


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        yield store


@pytest.fixture
def offsets(tmp_path: Path) -> ConsumerOffsets:
    return ConsumerOffsets(tmp_path / "offsets.json", QuickFiles())


def crowd_at(store: Store, minute: int, count: int) -> None:
    for _ in range(count):
        store.put(delayed(minute * MINUTE_MS + 1_000))


def test_a_crowd_beyond_the_rate_is_named_with_how_long_it_waits(
    store: Store, offsets: ConsumerOffsets
) -> None:
    store.numbers.set_rule("orders", RoadRule(rate=1))
    forecast = Forecast(store, offsets)
    crowd_at(store, 3, 60)
    assert forecast.crowds(10 * MINUTE_MS) == []
    crowd_at(store, 5, 150)

    (crowd,) = forecast.crowds(10 * MINUTE_MS)

    assert (crowd.topic, crowd.limit, crowd.per_minute) == ("orders", "rate", 60)
    assert crowd.start_ms == START_MS + 5 * MINUTE_MS
    assert crowd.peak_count == 90
    assert crowd.wait_ms == 90_000
    assert crowd.end_ms == START_MS + 8 * MINUTE_MS


def test_a_crowd_that_outlasts_the_view_is_followed_to_its_end(
    store: Store, offsets: ConsumerOffsets
) -> None:
    store.numbers.set_rule("orders", RoadRule(rate=1))
    crowd_at(store, 1, 300)

    (crowd,) = Forecast(store, offsets).crowds(2 * MINUTE_MS)

    assert (crowd.peak_count, crowd.end_ms) == (240, START_MS + 6 * MINUTE_MS)


def test_more_than_was_ever_carried_or_consumed_is_named(
    store: Store, offsets: ConsumerOffsets, wall: Wall
) -> None:
    forecast = Forecast(store, offsets, pipeline_min=0, consumers_min=0)
    careful = Forecast(store, offsets)
    forecast.sample()
    careful.sample()
    offsets.set("g", "orders", {0: 0})
    wall.advance(MINUTE_MS)
    forecast.sample()
    careful.sample()
    crowd_at(store, 0, 10)
    carry_over(store)
    offsets.set("g", "orders", {0: 4})
    wall.advance(MINUTE_MS)
    forecast.sample()
    careful.sample()
    crowd_at(store, 2, 15)
    limits = {crowd.limit: crowd.per_minute for crowd in forecast.crowds(10 * MINUTE_MS)}
    assert limits == {"consumers": 8}

    crowd_at(store, 2, 15)

    limits = {crowd.limit: crowd.per_minute for crowd in forecast.crowds(10 * MINUTE_MS)}
    assert limits == {"consumers": 8, "pipeline": 20}
    assert careful.crowds(10 * MINUTE_MS) == []  # thirty are nothing, whatever was seen before


def test_too_far_ahead_is_refused(store: Store, offsets: ConsumerOffsets) -> None:
    with pytest.raises(InvalidRequest, match="ahead_ms: expected 60000"):
        Forecast(store, offsets).crowds(5)
