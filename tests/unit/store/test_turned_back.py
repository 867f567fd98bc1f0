"""Numbers of messages that were turned back, some of them again and again."""

import random

import numpy as np
import pytest
from tests.unit.store.making import int64s

from dueline.store import turned_back
from dueline.store.turned_back import TurnedBack


def test_a_number_that_was_not_turned_back_is_its_own() -> None:
    numbers = TurnedBack()
    assert numbers.newest(int64s(3, -1, 9)).tolist() == [3, -1, 9]

    numbers.add(int64s(5), 10)

    assert numbers.newest(int64s(3, -1, 9, 11)).tolist() == [3, -1, 9, 11]


def test_numbers_are_followed_to_the_last() -> None:
    numbers = TurnedBack()
    numbers.add(int64s(7, 2), 10)  # 7 is 10 now, 2 is 11
    numbers.add(int64s(11, 3), 20)
    numbers.add(int64s(20), 30)

    assert numbers.newest(int64s(2, 3, 7, 11, 4)).tolist() == [30, 21, 10, 30, 4]


def test_it_is_what_a_dictionary_says() -> None:
    choose, numbers, now = random.Random(3), TurnedBack(), {}
    for round_number in range(1, 30):
        waiting = [each for each in range(100 * round_number) if each not in now]
        old = choose.sample(waiting, 20)
        numbers.add(int64s(*old), 100 * round_number)
        now.update({each: 100 * round_number + place for place, each in enumerate(old)})

    def last(number: int) -> int:
        return last(now[number]) if number in now else number

    asked = np.arange(-5, 4_000)
    assert numbers.newest(asked).tolist() == [last(number) for number in asked.tolist()]


def test_the_lowest_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turned_back, "COUNT_MAX", 2)
    numbers = TurnedBack()

    numbers.add(int64s(4, 1, 3), 10)

    assert numbers.newest(int64s(1, 3, 4)).tolist() == [1, 12, 10]
