"""What of a filter the timeline answers, and what must be asked of the rows."""

from __future__ import annotations

import pytest

from dueline.broker.waiting.filters import TIME_MS_MAX, PendingFilter
from dueline.errors import InvalidRequest


def test_times_topics_and_keys_are_narrowed_to() -> None:
    plan = PendingFilter(
        topic="a",
        due_start_ms=5,
        where="due <= 9 and due > 6 and topic in ('a', 'b') and key = 'k'",
    ).plan()

    assert (plan.start_ms, plan.end_ms) == (7, 10)
    assert plan.topics == frozenset({"a"})
    assert plan.key == "k"
    assert plan.of_records is not None


def test_what_needs_no_record_reads_none() -> None:
    plan = PendingFilter(where="size > 5 and topic <> 'a' and (due = 3 or due = 4)").plan()

    assert plan.of_records is None
    assert len(plan.rest) == 3
    assert (plan.start_ms, plan.end_ms, plan.topics) == (0, TIME_MS_MAX, None)


def test_contradictions_leave_nothing() -> None:
    assert PendingFilter(where="topic = 'a' and topic = 'b'").plan().topics == frozenset()
    plan = PendingFilter(due_start_ms=9, due_end_ms=5).plan()
    assert plan.start_ms >= plan.end_ms


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (PendingFilter(topic=""), "topic: expected 1 to 4096 characters"),
        (PendingFilter(text="x" * 5000), "text: expected 1 to 4096"),
        (PendingFilter(property_name="a"), "expected a name and a value"),
        (PendingFilter(due_start_ms=-1), "due_start_ms: expected milliseconds"),
        (PendingFilter(due_end_ms=1 << 60), "due_end_ms: expected milliseconds"),
        (PendingFilter(where="nonsense"), "expected a column"),
    ],
)
def test_filters_without_sense_are_refused(wanted: PendingFilter, reason: str) -> None:
    with pytest.raises(InvalidRequest, match=reason):
        wanted.plan()
