"""One lane: what is held, what is parked behind it, and what becomes visible when."""

from __future__ import annotations

from dueline.broker.inflight.lane import (
    ENTRY_SIZE,
    HELD_COUNT_MAX,
    NEVER_MS,
    RETRY_LANE,
    Entry,
    Lane,
)
from dueline.budget import Budget


def entry(visible_ms: int, *, serial: int = 1, message_group: int = 0) -> Entry:
    return Entry(attempt=1, visible_ms=visible_ms, serial=serial, message_group=message_group)


def lane_with(*visible_ms: int) -> Lane:
    lane = Lane(number=1, queue_id=0, cursor=0)
    for offset, each in enumerate(visible_ms):
        lane.hold(offset, entry(each))
        lane.advance(offset + 1)
    return lane


def test_floor_is_the_lowest_that_is_not_done() -> None:
    lane = lane_with(10, 20, 30)
    floors = [lane.floor]

    for offset in (1, 0, 2):
        lane.finish(offset)
        floors.append(lane.floor)

    assert floors == [0, 0, 2, 3]


def test_cursor_never_goes_back() -> None:
    lane = lane_with(10, 20)

    lane.advance(1)

    assert lane.cursor == 2


def test_due_is_what_is_visible_the_longest_first() -> None:
    lane = lane_with(30, 10, 20)

    assert lane.next_visible_ms() == 10
    assert list(lane.due(20)) == [1, 2]
    assert lane.next_visible_ms() == 30


def test_replaced_holding_counts_and_the_old_one_does_not() -> None:
    lane = lane_with(10)

    lane.hold(0, entry(50, serial=2))

    assert lane.next_visible_ms() == 50
    assert list(lane.due(49)) == []
    assert list(lane.due(50)) == [0]


def test_finished_has_no_time_any_more() -> None:
    lane = lane_with(10)

    assert lane.finish(0) is None
    assert lane.finish(0) is None

    assert lane.next_visible_ms() is None


def test_parked_is_freed_when_the_one_before_it_is_done() -> None:
    lane = Lane(number=1, queue_id=0, cursor=3)
    lane.hold(0, entry(10, message_group=7))
    lane.hold(1, entry(NEVER_MS, serial=0, message_group=7))
    lane.hold(2, entry(NEVER_MS, serial=0, message_group=7))
    assert lane.is_blocked(7)
    assert lane.entries[1].is_parked

    freed = [lane.finish(0), lane.finish(1), lane.finish(2)]

    assert freed == [1, 2, None]
    assert not lane.is_blocked(7)


def test_parked_that_is_done_elsewhere_frees_nobody() -> None:
    lane = Lane(number=1, queue_id=0, cursor=3)
    for offset, visible_ms in enumerate((10, NEVER_MS, NEVER_MS)):
        lane.hold(offset, entry(visible_ms, message_group=7))

    assert lane.finish(1) is None
    assert lane.finish(0) == 2


def test_replay_in_any_order_ends_in_order_of_offsets() -> None:
    lane = Lane(number=1, queue_id=0, cursor=3)
    for offset in (2, 0, 1):
        lane.hold(offset, entry(10 + offset, message_group=7))

    lane.settle()

    assert list(lane.entries) == [0, 1, 2]
    assert lane.floor == 0


def test_clock_that_was_set_back_shifts_what_is_held() -> None:
    lane = lane_with(5_000)
    lane.hold(1, entry(NEVER_MS))

    lane.set_back(2_000)

    assert lane.next_visible_ms() == 3_000
    assert lane.entries[1].is_parked


def test_room_is_bounded_by_count_and_by_memory() -> None:
    lane = lane_with(10, 20)
    assert lane.room == HELD_COUNT_MAX - 2
    budget = Budget("held messages", 5 * ENTRY_SIZE)

    lane.count_in(budget)
    assert lane.room == 3
    lane.finish(0)
    assert lane.room == 4
    lane.count_out()
    assert budget.size_bytes == 0


def test_retry_lane_is_known_by_its_queue() -> None:
    assert Lane(number=1, queue_id=RETRY_LANE | 3, cursor=0).is_retry
    assert not Lane(number=1, queue_id=3, cursor=0).is_retry
