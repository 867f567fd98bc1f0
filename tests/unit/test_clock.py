"""The clock: as late as the wall, never earlier than it has been."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dueline.clock import Clock, system_time_ms


@given(st.lists(st.integers(0, 1_000), min_size=1))
def test_answers_are_the_highest_reading_so_far(readings: list[int]) -> None:
    source = iter(readings)
    clock = Clock(lambda: next(source))

    answers = [clock.now_ms() for _ in readings]

    assert answers == [max(readings[: count + 1]) for count in range(len(readings))]


def test_floor_holds_until_the_wall_has_caught_up() -> None:
    wall = [100]
    clock = Clock(lambda: wall[0])

    clock.raise_floor(150)
    assert clock.now_ms() == 150

    clock.raise_floor(120)
    assert clock.now_ms() == 150, "a floor is never lowered"

    wall[0] = 151
    assert clock.now_ms() == 151


def test_system_time_is_in_milliseconds_since_1970() -> None:
    assert system_time_ms() > 1_700_000_000_000
    assert Clock().now_ms() >= 1_700_000_000_000
