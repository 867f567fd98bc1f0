"""Pushed-down filters: what they narrow to, and that they never narrow too much."""

import datetime
import operator
from collections.abc import Callable

import hypothesis.strategies as st
from hypothesis import given
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from dueline.spark.filters import narrowed

COLUMN = ("a",)


def test_sets_are_intersected() -> None:
    wanted = narrowed([In(COLUMN, ("x", "y", "z", None)), EqualTo(COLUMN, "y"), IsNotNull(COLUMN)])

    assert wanted.values("a") == ("y",)
    assert wanted.values("b") is None


def test_contradictions_leave_nothing() -> None:
    assert narrowed([EqualTo(COLUMN, "x"), EqualTo(COLUMN, "y")]).values("a") == ()
    assert narrowed([GreaterThan(COLUMN, 5), LessThan(COLUMN, 3)]).bounds("a").is_empty


def test_what_is_not_understood_does_not_narrow() -> None:
    wanted = narrowed(
        [
            Not(EqualTo(COLUMN, 1)),
            StringStartsWith(COLUMN, "x"),
            EqualTo(("a", "b"), 1),
            EqualNullSafe(COLUMN, None),
            GreaterThan(COLUMN, 1.5),
            LessThan(COLUMN, True),
        ]
    )

    assert not wanted.bounds("a").has_start
    assert not wanted.bounds("a").has_end
    assert wanted.values("a") is None


def test_times_become_milliseconds_around_them() -> None:
    at = datetime.datetime(2024, 1, 1, 0, 0, 0, 1_500, tzinfo=datetime.UTC)
    at_ms = 1_704_067_200_001

    bounds = narrowed([GreaterThanOrEqual(COLUMN, at), LessThanOrEqual(COLUMN, at)]).bounds("a")

    assert (bounds.start, bounds.end) == (at_ms, at_ms + 2)


COMPARISONS: dict[type[Filter], Callable[[int, int], bool]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}


@given(
    st.integers(-20, 20),
    st.lists(st.tuples(st.sampled_from(list(COMPARISONS)), st.integers(-20, 20)), max_size=4),
)
def test_a_row_that_passes_every_filter_is_within_the_bounds(
    row: int, comparisons: list[tuple[type[Filter], int]]
) -> None:
    passes = all(COMPARISONS[kind](row, value) for kind, value in comparisons)

    bounds = narrowed([kind(COLUMN, value) for kind, value in comparisons]).bounds("a")  # type: ignore[call-arg]

    assert not passes or bounds.start <= row < bounds.end
