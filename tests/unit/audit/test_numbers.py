"""Sets and sums of rows, against Python's own sets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dueline.audit.numbers import NumberSet, Tally, mix

END = 40
numbers = st.lists(st.integers(-5, END + 5), max_size=30)


@given(numbers, numbers)
def test_a_set_tells_what_was_in_or_came_twice(first: list[int], second: list[int]) -> None:
    found = NumberSet(END)
    known: set[int] = set()
    for each in (first, second):
        inside = [number for number in each if 0 <= number < END]
        again = {number for number in inside if number in known or inside.count(number) > 1}
        known.update(inside)
        assert set(found.add(np.array(each, np.int64)).tolist()) == again

    asked = np.arange(-5, END + 5, dtype=np.int64)
    assert found.has(asked).tolist() == [number in known for number in asked.tolist()]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=30))
def test_equal_rows_in_any_order_are_equal_sums(rows: list[tuple[int, int]]) -> None:
    one, other = Tally(4), Tally(4)
    one.add(*_columns(rows))
    half = len(rows) // 2
    turned = rows[::-1]
    other.add(*_columns(turned[:half]))
    other.add(*_columns(turned[half:]))

    assert one.differs(other).tolist() == []
    assert one.counts.tolist() == [sum(owner == each for owner, _ in rows) for each in range(4)]


def test_one_row_more_or_another_one_differs() -> None:
    rows = [(0, 1), (1, 2), (2, 3)]
    one, more, changed = Tally(4), Tally(4), Tally(4)
    one.add(*_columns(rows))
    more.add(*_columns([*rows, (3, 1)]))
    changed.add(*_columns([(0, 1), (1, 9), (2, 3)]))

    assert one.differs(more).tolist() == [3]
    assert one.differs(changed).tolist() == [1]


def test_hashes_depend_on_the_order_of_the_columns() -> None:
    first, second = np.array([1], np.int64), np.array([2], np.int64)

    assert mix(first, second)[0] != mix(second, first)[0]
    assert mix(first, second)[0] == mix(first.copy(), second.copy())[0]


def _columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    owners = np.array([owner for owner, _ in rows], np.int64)
    return owners, mix(np.array([value for _, value in rows], np.int64))
