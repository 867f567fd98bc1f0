"""Counting and listing what a filter means, in due order, a bounded step at a time.

What the timeline knows of a message (topic, due time, queue) is looked through by the million, in
arrays. For all else its record has to be read: one call reads no more than `RECORD_COUNT_MAX`, and
says by a cursor where the next one goes on. So a page may be shorter than its limit though more
follows, and a count comes in parts that the caller adds up. A cursor is a place in due order: what
comes and goes meanwhile is seen or not, and nothing twice. Any thread may call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dueline.broker.waiting.columns import Columns
from dueline.broker.waiting.conditions import Condition
from dueline.broker.waiting.cursors import foreign, packed, unpacked
from dueline.broker.waiting.filters import FilterPlan, PendingFilter
from dueline.errors import InvalidRequest
from dueline.store import Key, Store
from dueline.store.survey import SLAB_ROWS, Survey, Waiting

__all__ = ["Matching", "MatchingCount", "Page", "PendingRow", "decode_cursor", "encode_cursor"]

RECORD_COUNT_MAX: Final = 50_000
RECORD_STEP: Final = 4_096
PAGE_ROWS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingRow:
    """A message that waits; `state` is pending or carried over: it stands at the gate, and of such
    it is not known here when it was accepted."""

    number: int
    unique_id: str
    topic: str
    queue_id: int
    keys: str
    tags: str
    due_ms: int
    accepted_ms: int | None
    size_bytes: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Rows in due order; `cursor` is where the next page begins, None at the end."""

    rows: list[PendingRow]
    cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingCount:
    """How many match, up to `cursor`, or all if that is None."""

    count: int
    at_gate_count: int
    by_topic: dict[str, int] = field(default_factory=dict)
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Matching rows, up to a key; how many records were read for them."""

    rows: Waiting
    end: Key
    record_count: int


class Matching:
    """The waiting messages of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def count(self, wanted: PendingFilter, cursor: str | None = None) -> MatchingCount:
        """How many messages match, exactly; in parts if their records have to be read.

        Raises:
            InvalidRequest: a filter or cursor that makes no sense.
        """
        survey = self._store.survey()
        topics: Counter[int] = Counter()
        at_gate = read = 0
        end: Key | None = None
        for step in self._steps(survey, wanted.plan(), _after(cursor), SLAB_ROWS, is_sorted=False):
            counts = np.bincount(step.rows.units.topic)
            topics.update({int(number): int(counts[number]) for number in np.flatnonzero(counts)})
            at_gate += int(np.count_nonzero(step.rows.is_at_gate))
            read += step.record_count
            if read >= RECORD_COUNT_MAX:
                end = step.end
                break
        by_topic = {survey.topic_names[number]: count for number, count in topics.items()}
        return MatchingCount(
            count=sum(by_topic.values()),
            at_gate_count=at_gate,
            by_topic=dict(sorted(by_topic.items())),
            cursor=None if end is None else encode_cursor(end),
        )

    def page(self, wanted: PendingFilter, *, limit: int, cursor: str | None = None) -> Page:
        """The next messages that match, in due order.

        Raises:
            InvalidRequest: a filter, cursor or limit that makes no sense.
        """
        if not 1 <= limit <= PAGE_ROWS_MAX:
            raise InvalidRequest(
                f"limit: expected 1 to {PAGE_ROWS_MAX}, found {limit}", field="limit"
            )
        survey, plan = self._store.survey(), wanted.plan()
        is_plain = not plan.rest and plan.topics is None
        parts: list[Waiting] = []
        found = read = 0
        end: Key | None = None
        for step in self._steps(survey, plan, _after(cursor), limit if is_plain else SLAB_ROWS):
            parts.append(step.rows)
            found += len(step.rows)
            read += step.record_count
            if found >= limit or read >= RECORD_COUNT_MAX:
                end = step.end
                break
        rows = Waiting.concat(parts) if parts else Waiting.concat([])
        if len(rows) > limit or (end is not None and len(rows) == limit):
            rows = rows.take(slice(0, limit))
            end = rows.key_at(limit - 1)
        return Page(
            rows=_described(survey, rows), cursor=None if end is None else encode_cursor(end)
        )

    def waiting(
        self, wanted: PendingFilter, survey: Survey, after: Key | None = None
    ) -> Iterator[tuple[Waiting, Key]]:
        """All that matches in a survey, in due order, and up to which key each part reaches."""
        for step in self._steps(survey, wanted.plan(), after, SLAB_ROWS // 4):
            yield step.rows, step.end

    def _steps(
        self,
        survey: Survey,
        plan: FilterPlan,
        after: Key | None,
        step: int,
        *,
        is_sorted: bool = True,
    ) -> Iterator[_Step]:
        of_units, of_records = plan.of_units, plan.of_records
        if plan.key is not None:
            yield from self._by_key(survey, plan, after)
            return
        topics = None
        if plan.topics is not None:
            topics = np.array([name in plan.topics for name in survey.topic_names] or [False])
            if not bool(topics.any()):
                return
        slabs = survey.slabs(
            after=after,
            start_ms=plan.start_ms,
            end_ms=plan.end_ms,
            topics=topics,
            step=step if of_records is None else RECORD_STEP,
            is_sorted=is_sorted,
        )
        for rows, end in slabs:
            chosen = _met(survey, rows, of_units) if plan.rest else rows
            if of_records is None:
                yield _Step(rows=chosen, end=end, record_count=0)
                continue
            kept = _met(survey, chosen, of_records)
            yield _Step(rows=kept, end=end, record_count=len(chosen))

    def _by_key(self, survey: Survey, plan: FilterPlan, after: Key | None) -> Iterator[_Step]:
        """An index knows who has a key."""
        assert plan.key is not None
        found = [each.seq for each in self._store.find_delayed(plan.key)]
        rows = survey.find(np.array(sorted(set(found)), dtype=np.int64))
        due_ms = rows.units.due_ms
        keep = (due_ms >= plan.start_ms) & (due_ms < plan.end_ms)
        if after is not None:
            keep &= (due_ms > after[0]) | ((due_ms == after[0]) & (rows.units.seq > after[1]))
        if plan.topics is not None:
            names = [survey.topic_names[number] for number in rows.units.topic.tolist()]
            keep &= np.array([name in plan.topics for name in names], dtype=np.bool_)
        rows = rows.take(np.flatnonzero(keep))
        rows = _met(survey, _met(survey, rows, plan.of_units), plan.of_records)
        if len(rows):
            yield _Step(rows=rows, end=rows.key_at(len(rows) - 1), record_count=0)


def _met(survey: Survey, rows: Waiting, condition: Condition | None) -> Waiting:
    """The rows that meet a condition."""
    if condition is None or not len(rows):
        return rows
    columns = Columns(survey, rows, with_records=condition.needs_records)
    met = condition.meets(columns).fill_null(False).to_numpy(zero_copy_only=False)
    return columns.rows.take(np.flatnonzero(met))


def _described(survey: Survey, rows: Waiting) -> list[PendingRow]:
    columns = Columns(survey, rows, with_records=True)
    units = columns.rows.units
    return [
        PendingRow(
            number=number,
            unique_id=unique_id or "",
            topic=topic,
            queue_id=queue_id,
            keys=keys or "",
            tags=tags or "",
            due_ms=due_ms,
            accepted_ms=accepted_ms,
            size_bytes=size_bytes,
            state=state,
        )
        for number, unique_id, topic, queue_id, keys, tags, due_ms, accepted_ms, size_bytes, state
        in zip(
            units.seq.tolist(),
            columns.get("id").to_pylist(),
            columns.get("topic").to_pylist(),
            units.queue_id.tolist(),
            columns.get("key").to_pylist(),
            columns.get("tag").to_pylist(),
            units.due_ms.tolist(),
            columns.get("accepted").to_pylist(),
            units.size.tolist(),
            columns.get("state").to_pylist(),
            strict=True,
        )
    ]  # fmt: skip


def encode_cursor(key: Key) -> str:
    """A place in due order."""
    return packed(f"{key[0]}.{key[1]}")


def decode_cursor(text: str) -> Key:
    """The place of a cursor.

    Raises:
        InvalidRequest: it is none that this broker has given out.
    """
    plain = unpacked(text)
    due_ms, _, seq = plain.partition(".")
    if len(plain) <= 40 and plain.isascii() and due_ms.isdigit() and seq.isdigit():
        return int(due_ms), int(seq)
    raise foreign(text)


def _after(cursor: str | None) -> Key | None:
    return None if cursor is None else decode_cursor(cursor)
