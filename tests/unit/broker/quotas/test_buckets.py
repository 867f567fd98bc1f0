"""Buckets: the rate holds whatever is taken when, and there are never too many of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dueline.broker.quotas.buckets import Buckets

RATE = 10.0


def test_a_second_of_messages_may_come_at_once_and_then_as_many_as_the_rate_says() -> None:
    buckets = Buckets()

    def taken_until(now_s: float) -> int:
        count = 0
        while buckets.has("a", RATE, 1, now_s):
            buckets.take("a", RATE, 1, now_s)
            count += 1
        return count

    assert taken_until(0.0) == 10
    assert taken_until(0.0) == 0
    assert taken_until(0.5) == 5
    assert taken_until(100.0) == 10
    assert buckets.has("b", RATE, 1, 0.0)


def test_a_large_batch_is_let_through_and_paid_for() -> None:
    buckets = Buckets()

    assert buckets.has("a", RATE, 50, 0.0)
    buckets.take("a", RATE, 50, 0.0)

    assert not buckets.has("a", RATE, 1, 4.0)
    assert buckets.has("a", RATE, 1, 4.1)
    assert not buckets.has("a", RATE, 50, 4.9)
    assert buckets.has("a", RATE, 50, 5.0)


def test_the_one_that_was_not_used_for_longest_goes() -> None:
    buckets = Buckets(count_max=2)
    for name in ("a", "b", "a", "c"):
        buckets.take(name, 1, 5, 0.0)

    assert len(buckets) == 2
    assert not buckets.has("c", 1, 1, 0.0)
    assert buckets.has("b", 1, 1, 0.0), "begins anew"


@given(
    st.lists(st.tuples(st.floats(0, 2), st.integers(1, 30)), max_size=200),
    st.floats(0.5, 50),
)
def test_no_order_of_takes_gets_more_than_rate_and_burst(
    takes: list[tuple[float, int]], rate: float
) -> None:
    buckets, now_s, taken, largest = Buckets(), 0.0, 0, 0
    for pause_s, count in takes:
        now_s += pause_s
        if buckets.has("a", rate, count, now_s):
            buckets.take("a", rate, count, now_s)
            taken += count
            largest = max(largest, count)

        assert taken <= rate * now_s + max(rate, 1) + largest + 1e-6
