"""Short delays without the pipeline: the same message, at the same time, once."""

from pathlib import Path

import pytest
from tests.unit.store.making import (
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    open_store,
    read_all,
    take_window,
)

from dueline.broker.pipeline.shortcut import Shortcut
from dueline.broker.pipeline.status import PipelineStatus
from dueline.broker.pipeline.windows import Windows
from dueline.errors import Unavailable
from dueline.message import DEAD_LETTER_TOPIC
from dueline.store import Answer, Corner, Store, restore
from dueline.store.road import RoadRule


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Store:
    return open_store(tmp_path, wall)


@pytest.fixture
def status(store: Store) -> PipelineStatus:
    return PipelineStatus(store.clock, is_transformed=False)


@pytest.fixture
def shortcut(store: Store, status: PipelineStatus) -> Shortcut:
    return Shortcut(store, status, within_ms=500)


def test_a_short_delay_is_carried_over_and_shown_when_it_is_due(
    store: Store, shortcut: Shortcut, wall: Wall
) -> None:
    store.put_all([delayed(50, b"second", TAGS="a"), delayed(20, b"first"), delayed(600, b"long")])

    assert shortcut.carry_over() == 2
    assert (store.pending_count(), store.gate_row_count) == (1, 2)
    for step_ms, expected in (
        (19, []),
        (1, [b"first"]),
        (29, [b"first"]),
        (1, [b"first", b"second"]),
    ):
        wall.advance(step_ms)
        store.open_gate()
        assert bodies(store) == expected
    (first, second) = read_all(store)
    assert (first.store_ms, second.store_ms) == (START_MS + 20, START_MS + 50)


def test_it_is_the_record_that_the_pipeline_would_have_made(
    tmp_path: Path, store: Store, shortcut: Shortcut, wall: Wall
) -> None:
    other = open_store(tmp_path / "other", wall)
    for each in (store, other):
        each.put(delayed(50, b"body", TAGS="a", KEYS="k", UNIQ_KEY="id"))

    shortcut.carry_over()
    carry_over(other)
    wall.advance(50)

    for each in (store, other):
        each.open_gate()
    assert read_all(store) == read_all(other)


def test_whoever_comes_second_finds_it_done(store: Store, shortcut: Shortcut, wall: Wall) -> None:
    store.put(delayed(50, b"once"))
    window = take_window(store)

    assert shortcut.carry_over() == 1
    assert store.deliver([restore.deliveries(window)]).skipped_count == 1

    store.put(delayed(60, b"other way round"))
    carry_over(store)
    assert shortcut.carry_over() == 0
    wall.advance(60)
    store.open_gate()
    assert bodies(store) == [b"once", b"other way round"]


@pytest.mark.parametrize("is_before", [True, False])
def test_it_can_be_cancelled_until_it_is_due(
    store: Store, shortcut: Shortcut, wall: Wall, is_before: bool
) -> None:
    store.put(delayed(50, KEYS="k"))
    if is_before:
        assert store.cancel("k") is Answer.CANCELLED
        assert shortcut.carry_over() == 0
    else:
        assert shortcut.carry_over() == 1
        assert store.cancel("k") is Answer.CANCELLED

    wall.advance(50)
    store.open_gate()
    assert bodies(store) == []
    assert store.gate_row_count == 0


@pytest.mark.parametrize("is_before", [True, False])
def test_it_can_be_moved(store: Store, shortcut: Shortcut, wall: Wall, is_before: bool) -> None:
    store.put(delayed(50, b"moved", KEYS="k"))
    if not is_before:
        shortcut.carry_over()
    store.reschedule("k", START_MS + 300)
    assert shortcut.carry_over() == 1

    seen = []
    for _ in range(6):
        wall.advance(50)
        store.open_gate()
        seen.append(len(bodies(store)))
    assert seen == [0, 0, 0, 0, 0, 1]


def test_a_crash_in_between_leaves_it_to_the_pipeline(
    tmp_path: Path, store: Store, shortcut: Shortcut, wall: Wall
) -> None:
    store.put(delayed(50, b"kept"))
    store.close()

    again = open_store(tmp_path, wall)
    assert Shortcut(again, PipelineStatus(again.clock), within_ms=500).carry_over() == 0
    assert again.pending_count() == 1
    carry_over(again)
    wall.advance(50)
    again.open_gate()
    assert bodies(again) == [b"kept"]


def test_order_in_a_queue_is_kept_across_both_ways(
    store: Store, shortcut: Shortcut, wall: Wall
) -> None:
    """The long one is due first and comes late: the short one waits for it."""
    store.put(delayed(600, b"long"))
    wall.advance(590)
    store.put(delayed(100, b"short"))
    assert shortcut.carry_over() == 1

    wall.advance(105)
    store.open_gate()
    assert bodies(store) == []
    carry_over(store)
    store.open_gate()
    assert bodies(store) == [b"long", b"short"]


def test_there_is_no_shortcut_around_a_transform(
    store: Store, shortcut: Shortcut, status: PipelineStatus
) -> None:
    status.asked(is_transformed=True)
    shortcut.carry_over()

    store.put(delayed(50))

    assert shortcut.carry_over() == 0
    assert store.pending_count() == 1


def test_what_was_put_aside_before_there_was_a_transform_is_not_carried_around_it(
    store: Store, shortcut: Shortcut, status: PipelineStatus
) -> None:
    store.put(delayed(50))
    status.asked(is_transformed=True)

    assert shortcut.carry_over() == 0
    assert (store.pending_count(), store.gate_row_count) == (1, 0)
    assert not shortcut.has_news
    due_ms = START_MS + 50
    assert store.aside.next_due_ms() == due_ms, "the pipeline knows when it is due"


def test_it_can_be_switched_off(store: Store, status: PipelineStatus) -> None:
    off = Shortcut(store, status, within_ms=0)
    store.put(delayed(50))

    assert off.carry_over() == 0


def test_a_damaged_record_goes_to_the_dead_letters(
    tmp_path: Path, store: Store, shortcut: Shortcut, wall: Wall
) -> None:
    store.put(delayed(50, b"some bytes"))
    (path,) = [path for path in (tmp_path / "delaylog").iterdir() if path.is_file()]
    at = path.read_bytes().index(b"some bytes")
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"zome")

    assert shortcut.carry_over() == 1
    wall.advance(50)
    store.open_gate()
    assert len(read_all(store, DEAD_LETTER_TOPIC)) == 1


def test_without_room_it_is_left_to_the_pipeline(
    store: Store, shortcut: Shortcut, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(delayed(50))

    def full(*_: object, **__: object) -> None:
        raise Unavailable("no space")

    monkeypatch.setattr(store, "deliver", full)
    assert shortcut.carry_over() == 0
    assert store.pending_count() == 1


def test_what_goes_over_the_shortcut_starts_no_batch(store: Store, shortcut: Shortcut) -> None:
    windows = Windows(store)

    def corner() -> Corner | None:
        return windows.next_corner(ahead_ms=30_000, lead_ms=1_500, row_count_max=100)

    store.put(delayed(50))
    assert corner() is None
    shortcut.carry_over()
    assert corner() is None
    store.put(delayed(700))
    end = corner()
    assert end is not None
    assert store.window(end).units.seq.tolist() == [1]


def test_a_paused_topic_is_paused_for_short_delays_too(store: Store, shortcut: Shortcut) -> None:
    store.numbers.set_rule("orders", RoadRule(is_paused=True))
    store.put(delayed(50))

    assert shortcut.carry_over() == 0
    assert (store.pending_count(), store.gate_row_count) == (1, 0)
