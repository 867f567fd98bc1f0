"""What is asked over Flight is bounded before anybody acts on it."""

from __future__ import annotations

import pytest

from dueline.errors import InvalidRequest
from dueline.flight.protocol import NextWindow

SOUND = NextWindow(ahead_ms=0, lead_ms=86_400_000, row_count_max=1, wait_ms=0)


def test_a_day_is_the_longest() -> None:
    SOUND.check()
    for name in ("ahead_ms", "lead_ms", "wait_ms"):
        for value in (-1, 86_400_001):
            with pytest.raises(InvalidRequest, match=f"{name}: expected 0 to a day, found {value}"):
                SOUND.changed(**{name: value}).check()


def test_a_window_has_room_for_a_row() -> None:
    with pytest.raises(InvalidRequest, match="row_count_max: expected 1 or more, found 0"):
        SOUND.changed(row_count_max=0).check()
