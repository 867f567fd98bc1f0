"""An answer is kept for longer, the longer it took to find."""

from __future__ import annotations

import itertools

import pytest

from dueline.broker.kept import Kept


class Slow:
    """Takes so long to say how often it was asked."""

    def __init__(self, takes_s: float) -> None:
        self.now_s = 100.0
        self._takes_s = takes_s
        self._answers = itertools.count(1)

    def find(self) -> int:
        self.now_s += self._takes_s
        return next(self._answers)


@pytest.mark.parametrize(("takes_s", "kept_s"), [(0.25, 5.0), (2.0, 40.0), (30.0, 60.0)])
def test_an_answer_is_kept_for_longer_the_longer_it_took(takes_s: float, kept_s: float) -> None:
    slow = Slow(takes_s)
    kept = Kept(slow.find, now_s=lambda: slow.now_s, spent_s=lambda: slow.now_s)

    assert kept.get() == 1
    slow.now_s += kept_s - 0.125
    assert kept.get() == 1
    slow.now_s += 0.125
    assert kept.get() == 2


def test_what_takes_little_time_is_looked_at_each_time() -> None:
    slow = Slow(0.03125)
    kept = Kept(slow.find, now_s=lambda: slow.now_s, spent_s=lambda: slow.now_s)

    assert [kept.get(), kept.get(), kept.get()] == [1, 2, 3]
