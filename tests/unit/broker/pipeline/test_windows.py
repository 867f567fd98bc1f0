"""When a batch is worth its time: at once if it is urgent, a crowd early, the rest collected."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import START_MS, Wall, carry_over, delayed, open_store

from dueline.broker.pipeline import windows as module
from dueline.broker.pipeline.windows import Windows
from dueline.store import Corner, Store

AHEAD_MS = 60_000
LEAD_MS = 2_000


class Seconds:
    """The time that pauses between batches are measured in."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    seconds = Seconds()
    monkeypatch.setattr(module, "monotonic", seconds)
    return seconds


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    store = open_store(tmp_path, wall)
    yield store
    store.close()


def put(store: Store, *delays_ms: int) -> None:
    for delay_ms in delays_ms:
        store.put(delayed(delay_ms))


def next_corner(
    windows: Windows, row_count_max: int = 1_000, until_ms: int | None = None
) -> Corner | None:
    return windows.next_corner(
        ahead_ms=AHEAD_MS, lead_ms=LEAD_MS, row_count_max=row_count_max, until_ms=until_ms
    )


def rows(store: Store, corner: Corner | None) -> int | None:
    """How many messages a window up to this corner holds."""
    return None if corner is None else len(store.window(corner).units.seq)


def test_without_messages_there_is_nothing(store: Store) -> None:
    windows = Windows(store)

    assert next_corner(windows) is None
    assert next_corner(windows, until_ms=1 << 50) is None
    windows.begin_filling(1 << 40)
    assert windows.is_filled()


def test_what_is_urgent_goes_at_once_and_takes_its_followers_along(
    store: Store, seconds: Seconds
) -> None:
    put(store, 1_000, 50_000, 59_999, 70_000)

    assert rows(store, next_corner(Windows(store))) == 3


def test_what_is_not_urgent_is_collected_until_a_third_is_used_up(
    store: Store, wall: Wall, seconds: Seconds
) -> None:
    windows = Windows(store)
    put(store, 50_000)
    assert next_corner(windows) is None

    wall.advance(9_999)
    assert next_corner(windows) is None
    wall.advance(1)
    assert rows(store, next_corner(windows)) == 1

    seconds.now_s += 9.9
    assert next_corner(windows) is None, "a sixth of `ahead` has not passed since the last batch"
    seconds.now_s += 0.1
    assert rows(store, next_corner(windows)) == 1


def test_what_is_too_far_away_waits(store: Store, seconds: Seconds) -> None:
    put(store, AHEAD_MS + 1)
    windows = Windows(store)
    windows.begin_filling(AHEAD_MS)

    assert next_corner(windows) is None


def test_before_the_pipeline_stops_all_that_may_be_is_carried_over(
    store: Store, seconds: Seconds
) -> None:
    put(store, 55_000)
    windows = Windows(store)
    assert next_corner(windows) is None

    windows.begin_filling(55_000)
    assert rows(store, next_corner(windows)) == 1
    assert not windows.is_filled()
    put(store, 20_000)
    carry_over(store, ahead_ms=55_000)
    put(store, 10_000)
    assert windows.is_filled(), "what came later is not waited for"

    windows.begin_filling(9_999)
    assert windows.is_filled()
    windows.begin_filling(10_000)
    assert not windows.is_filled()


def test_a_crowd_is_worth_a_batch_before_it_is_urgent(store: Store, seconds: Seconds) -> None:
    put(store, *range(55_000, 55_006))

    assert next_corner(Windows(store), row_count_max=6) is None
    corner = next_corner(Windows(store), row_count_max=5)
    assert rows(store, corner) == 5


def test_a_crowd_far_away_begins_early_in_small_batches(
    store: Store, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FAR_ROWS", 4)
    monkeypatch.setattr(module, "FAR_BATCH_ROWS", 3)
    put(store, *range(40_000, 40_005))
    windows = Windows(store)

    found = windows.next_corner(ahead_ms=4_000, lead_ms=1_000, row_count_max=1_000)

    assert rows(store, found) == 3
    assert windows.next_corner(ahead_ms=3_000, lead_ms=1_000, row_count_max=1_000) is None, (
        "twelve times `ahead` is not enough"
    )


def test_a_fixed_horizon_takes_all_that_is_due_by_then(store: Store) -> None:
    put(store, 1_000, 5_000_000, 5_000_001)
    windows = Windows(store)

    assert rows(store, next_corner(windows, until_ms=START_MS + 5_000_000)) == 2
    assert next_corner(windows, until_ms=START_MS + 999) is None


def test_with_many_at_the_gate_only_what_is_urgent_is_carried_over(
    store: Store, seconds: Seconds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GATE_ROWS_MAX", -1)
    put(store, 5_000)
    windows = Windows(store)
    assert next_corner(windows) is None

    put(store, 1_500)
    assert rows(store, next_corner(windows)) == 2
