"""The road ahead: how many messages fall due when, by topic.

Buckets are [start + i * bucket, …), from a second to a month wide. What stands at the gate counts
where it is due, as what is still in the delay log does. Any thread may ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from dueline.errors import InvalidRequest
from dueline.store import Store
from dueline.store.kernels import Int64s
from dueline.store.survey import Dues, Survey

__all__ = ["Road", "road_ahead"]

BUCKET_MS_MIN: Final = 1_000
BUCKET_MS_MAX: Final = 31 * 86_400_000
BUCKET_COUNT_MAX: Final = 4_000
TOPIC_COUNT_MAX: Final = 50
"""Those with most messages are told apart; the others count in the total only."""

_CELLS_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Road:
    """`counts` of all topics, and of those with most messages; before and after is not in them."""

    start_ms: int
    bucket_ms: int
    counts: list[int]
    by_topic: dict[str, list[int]]
    before_count: int
    after_count: int
    at_gate_count: int


def road_ahead(
    store: Store, *, start_ms: int, end_ms: int, bucket_ms: int, topic: str | None = None
) -> Road:
    """Count what is due in [start_ms, end_ms).

    Raises:
        InvalidRequest: no such range, or too many buckets.
    """
    bucket_count = _bucket_count(start_ms, end_ms, bucket_ms)
    survey = store.survey()
    names, wanted = survey.topic_names, None
    if topic is not None:
        wanted = survey.wanted(topic)
    slots = np.arange(len(names), dtype=np.int64)
    if len(names) * bucket_count > _CELLS_MAX:
        slots = _largest(survey, start_ms, end_ms, wanted)
    slot_count = int(slots.max(initial=0)) + 1
    cells = np.zeros(slot_count * bucket_count, dtype=np.int64)
    for dues in survey.dues(start_ms=start_ms, end_ms=end_ms, topics=wanted):
        bucket = (dues.due_ms - start_ms) // bucket_ms
        found = np.bincount(slots[dues.topic] * bucket_count + bucket)
        cells[: len(found)] += found
    before = _count(survey.dues(end_ms=start_ms, topics=wanted))
    if wanted is None:  # what is far away need not be looked at
        after = max(survey.count() - before - int(cells.sum()), 0)
    else:
        after = _count(survey.dues(start_ms=end_ms, topics=wanted))
    table = cells.reshape(slot_count, bucket_count)
    totals = table.sum(axis=1)[slots] if len(slots) else np.empty(0, dtype=np.int64)
    told = [number for number in np.argsort(-totals, kind="stable").tolist() if totals[number]]
    is_alone = np.bincount(slots, minlength=slot_count) == 1
    return Road(
        start_ms=start_ms,
        bucket_ms=bucket_ms,
        counts=table.sum(axis=0).tolist(),
        by_topic={
            names[number]: table[slots[number]].tolist()
            for number in [each for each in told if is_alone[slots[each]]][:TOPIC_COUNT_MAX]
        },
        before_count=before,
        after_count=after,
        at_gate_count=survey.at_gate_count(wanted),
    )


def _largest(
    survey: Survey, start_ms: int, end_ms: int, wanted: npt.NDArray[np.bool_] | None
) -> Int64s:
    """A row of the table for each of the topics with most messages, and one for all others."""
    totals = np.zeros(len(survey.topic_names), dtype=np.int64)
    for dues in survey.dues(start_ms=start_ms, end_ms=end_ms, topics=wanted):
        totals += np.bincount(dues.topic, minlength=len(totals))
    slots = np.full(len(totals), TOPIC_COUNT_MAX, dtype=np.int64)
    largest = np.argsort(-totals, kind="stable")[:TOPIC_COUNT_MAX]
    slots[largest] = np.arange(len(largest))
    return slots


def _count(parts: Iterable[Dues]) -> int:
    return sum(len(part.due_ms) for part in parts)


def _bucket_count(start_ms: int, end_ms: int, bucket_ms: int) -> int:
    if not BUCKET_MS_MIN <= bucket_ms <= BUCKET_MS_MAX:
        raise InvalidRequest(
            f"bucket_ms: expected {BUCKET_MS_MIN} (a second) to {BUCKET_MS_MAX} (31 days), found "
            f"{bucket_ms}",
            field="bucket_ms",
        )
    if not 0 <= start_ms < end_ms < 1 << 43:
        raise InvalidRequest(
            f"road: expected a start before its end, in milliseconds since 1970, found {start_ms} "
            f"to {end_ms}",
            field="start_ms",
        )
    count = -(-(end_ms - start_ms) // bucket_ms)
    if count > BUCKET_COUNT_MAX:
        raise InvalidRequest(
            f"road: expected at most {BUCKET_COUNT_MAX} buckets, found {count}; make them wider",
            field="bucket_ms",
        )
    return count
