"""A budget is never exceeded by what is asked for, and what is on disk counts."""

from __future__ import annotations

import pytest

from dueline.budget import Budget, check_size
from dueline.errors import InvalidRequest, LimitExceeded


def test_refusal_takes_nothing_and_says_both_numbers() -> None:
    budget = Budget("locks", 100)
    budget.take(70)

    with pytest.raises(LimitExceeded, match="locks: expected at most 100 bytes, found 101"):
        budget.take(31)

    assert budget.size_bytes == 70
    budget.take(30)
    assert not budget.has_room(1)


def test_shrinking_is_possible_above_the_bound() -> None:
    budget = Budget("locks", 100)
    budget.add(500)

    budget.take(-10)
    with pytest.raises(LimitExceeded):
        budget.take(1)
    budget.give(490)

    assert budget.size_bytes == 0


def test_long_text_is_refused_by_its_name() -> None:
    check_size("client id", "c" * 5, 5)
    with pytest.raises(InvalidRequest, match="client id: expected at most 5 characters, found 6"):
        check_size("client id", "c" * 6, 5)
