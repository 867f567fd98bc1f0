import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dueline.broker.lateness import WINDOW_MS, Lateness, LatenessFigures

NOTHING = LatenessFigures(count=0, p50_ms=None, p99_ms=None, max_ms=None)


def carried(lateness: Lateness, *due_ms: int) -> None:
    lateness.carried(np.array(due_ms, dtype=np.int64))


def test_without_messages_there_are_no_figures() -> None:
    assert Lateness().figures(0) == NOTHING


def test_a_message_counts_when_it_is_seen_not_when_it_is_carried() -> None:
    lateness = Lateness()
    carried(lateness, 1_000)

    lateness.seen(999, gate_next_ms=1_000)
    assert lateness.figures(999) == NOTHING

    lateness.seen(1_003, gate_next_ms=None)
    assert lateness.figures(1_003) == LatenessFigures(count=1, p50_ms=3, p99_ms=3, max_ms=3)


def test_what_the_gate_still_holds_is_not_seen() -> None:
    """An append under way keeps the gate shut beyond its own time, though it is past."""
    lateness = Lateness()
    carried(lateness, 1_000, 1_001)

    lateness.seen(1_010, gate_next_ms=1_001)

    assert lateness.figures(1_010).count == 1


def test_figures_are_of_the_last_minute_and_the_worst_is_kept() -> None:
    lateness = Lateness()
    carried(lateness, 0)
    lateness.seen(500, None)
    carried(lateness, 70_000)
    lateness.seen(70_002, None)

    assert lateness.figures(70_002) == LatenessFigures(count=1, p50_ms=2, p99_ms=2, max_ms=2)
    assert lateness.late_ms_max == 500
    assert lateness.seen_count == 2
    assert lateness.figures(70_002 + WINDOW_MS + 1) == NOTHING


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 3_000), max_size=20),  # due times of a delivery
            st.integers(0, 300),  # time that passes until the gate is opened
        ),
        max_size=20,
    )
)
def test_figures_agree_with_a_plain_list(steps: list[tuple[list[int], int]]) -> None:
    lateness = Lateness()
    waiting: list[int] = []
    late: list[int] = []
    now_ms = 0
    for due_ms, passed_ms in steps:
        now_ms += passed_ms
        carried(lateness, *due_ms)
        waiting += due_ms
        late += [now_ms - due for due in waiting if due <= now_ms]
        waiting = [due for due in waiting if due > now_ms]
        lateness.seen(now_ms, min(waiting, default=None))

    figures = lateness.figures(now_ms)

    late.sort()
    assert figures.count == len(late)
    if late:
        assert figures.max_ms == late[-1]
        assert figures.p50_ms == late[-(-len(late) * 50 // 100) - 1]
        assert figures.p99_ms == late[-(-len(late) * 99 // 100) - 1]
