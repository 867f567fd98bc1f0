import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dueline.broker.lateness import WINDOW_MS, Lateness, LatenessFigures

NOTHING = LatenessFigures(count=0, p50_ms=None, p99_ms=None, max_ms=None)


def shown(lateness: Lateness, now_ms: int, *due_ms: int) -> None:
    lateness.shown(np.array(due_ms, dtype=np.int64), now_ms)


def test_without_messages_there_are_no_figures() -> None:
    assert Lateness().figures(0) == NOTHING


def test_a_message_is_late_by_the_time_since_it_was_due() -> None:
    lateness = Lateness()

    shown(lateness, 1_003, 1_000)

    assert lateness.figures(1_003) == LatenessFigures(count=1, p50_ms=3, p99_ms=3, max_ms=3)


def test_an_opening_without_delayed_messages_leaves_no_figures() -> None:
    lateness = Lateness()

    shown(lateness, 1_003)

    assert lateness.figures(1_003) == NOTHING


def test_figures_are_of_the_last_minute_and_the_worst_is_kept() -> None:
    lateness = Lateness()
    shown(lateness, 500, 0)
    shown(lateness, 70_002, 70_000)

    assert lateness.figures(70_002) == LatenessFigures(count=1, p50_ms=2, p99_ms=2, max_ms=2)
    assert lateness.late_ms_max == 500
    assert lateness.figures(70_002 + WINDOW_MS + 1) == NOTHING


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 3_000), max_size=20),  # how late each message of an opening is
            st.integers(0, 300),  # time that passes until the gate is opened
        ),
        max_size=20,
    )
)
def test_figures_agree_with_a_plain_list(steps: list[tuple[list[int], int]]) -> None:
    lateness = Lateness()
    now_ms = 10_000
    for late_ms, passed_ms in steps:
        now_ms += passed_ms
        shown(lateness, now_ms, *(now_ms - each for each in late_ms))

    figures = lateness.figures(now_ms)

    late = sorted(each for late_ms, _ in steps for each in late_ms)
    assert figures.count == len(late)
    if late:
        assert figures.max_ms == late[-1]
        assert figures.p50_ms == late[-(-len(late) * 50 // 100) - 1]
        assert figures.p99_ms == late[-(-len(late) * 99 // 100) - 1]
