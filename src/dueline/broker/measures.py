"""What a monitor wants to know, at one moment: figures that are read now and then, not counted.

Bounded, whatever there is: of more than `ROW_COUNT_MAX` topics or places of groups only so many are
listed, those with the most to tell first, and `is_cut` says so. How much waits for each topic, and
falls due within which time, takes a look at everything that waits: at a survey, so that no message
waits for it, and kept for a while (`kept.py`), so that monitors do not keep a processor busy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.groups import Groups
from dueline.broker.history import History
from dueline.broker.inflight import InFlight
from dueline.broker.kept import Kept
from dueline.broker.names import is_system_group
from dueline.broker.reading import Reading
from dueline.broker.topics import Topics
from dueline.store import Files, Store

__all__ = ["GroupPlace", "Measures", "Snapshot", "TopicMeasure"]

ROW_COUNT_MAX: Final = 1_000

HORIZONS_MS: Final = tuple(
    seconds * 1_000 for seconds in (60, 600, 3_600, 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMeasure:
    """`end` counts what became visible ever, `start` what of it is gone; `pending` what waits."""

    topic: str
    pending_count: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlace:
    """How far a group is in a topic; `lag_ms`: for how long its next message has been visible."""

    group: str
    topic: str
    lag: int
    lag_ms: int
    in_flight_count: int
    client_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """`horizons`: how many fall due within so many ms; `runway_ms`: until the next message that
    is not carried over yet falls due, None if none waits."""

    runway_ms: int | None
    horizons: Mapping[int, int]
    topics: tuple[TopicMeasure, ...]
    places: tuple[GroupPlace, ...]
    is_cut: bool
    disk_used_bytes: int
    disk_free_bytes: int
    first_stored_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """What waits in the delay log."""

    by_topic: Mapping[str, int]
    horizons: Mapping[int, int]


class Measures:
    """Looks at one broker; any thread may call."""

    def __init__(  # noqa: PLR0913 - the tables it reads, keyword-only
        self,
        store: Store,
        *,
        files: Files,
        topics: Topics,
        offsets: ConsumerOffsets,
        groups: Groups,
        reading: Reading,
        inflight: InFlight,
    ) -> None:
        self._store = store
        self._files = files
        self._topics = topics
        self._offsets = offsets
        self._groups = groups
        self._reading = reading
        self._inflight = inflight
        self._counted = Kept(self._count)
        self.history: Final = History(store.clock)
        store.observe(self.history)

    def snapshot(self) -> Snapshot:
        now_ms, next_ms = self._store.clock.now_ms(), self._store.next_due_ms()
        topics = sorted(self._topic_measures(), key=lambda each: (-each.pending_count, -each.end))
        places = sorted(self._places(now_ms), key=lambda each: -each.lag)
        disk = self._files.disk(self._store.path)
        return Snapshot(
            runway_ms=None if next_ms is None else next_ms - now_ms,
            horizons=self._counted.get().horizons,
            topics=tuple(topics[:ROW_COUNT_MAX]),
            places=tuple(places[:ROW_COUNT_MAX]),
            is_cut=max(len(topics), len(places)) > ROW_COUNT_MAX,
            disk_used_bytes=disk.used_bytes,
            disk_free_bytes=disk.free_bytes,
            first_stored_ms=self._reading.first_stored_ms(),
        )

    def pending_by_topic(self) -> Mapping[str, int]:
        """How much waits for each topic, as it was a moment ago."""
        return self._counted.get().by_topic

    def _count(self) -> _Counted:
        survey = self._store.survey()
        totals = np.zeros(len(survey.topic_names), dtype=np.int64)
        edges_ms = survey.taken_ms + np.array(HORIZONS_MS, dtype=np.int64)
        within = np.zeros(len(edges_ms), dtype=np.int64)
        for dues in survey.dues(with_gate=False):
            totals += np.bincount(dues.topic, minlength=len(totals))
            within += np.searchsorted(dues.due_ms, edges_ms, side="right")
        counts = zip(survey.topic_names, totals.tolist(), strict=True)
        return _Counted(
            by_topic={name: count for name, count in counts if count},
            horizons=dict(zip(HORIZONS_MS, within.tolist(), strict=True)),
        )

    def _topic_measures(self) -> Iterator[TopicMeasure]:
        waiting = self.pending_by_topic()
        for name in sorted({*self._topics.names(), *waiting}):
            config = self._topics.get(name)
            ranges = [
                self._store.offset_range(name, queue_id)
                for queue_id in range(config.queue_count if config is not None else 0)
            ]
            yield TopicMeasure(
                topic=name,
                pending_count=waiting.get(name, 0),
                start=sum(start for start, _ in ranges),
                end=sum(end for _, end in ranges),
            )

    def _places(self, now_ms: int) -> Iterator[GroupPlace]:
        for (topic, group), offsets in self._offsets.all().items():
            if is_system_group(group) or self._topics.get(topic) is None:
                continue
            known = self._groups.get(group)
            lag, next_ms = self._lag(topic, offsets)
            yield GroupPlace(
                group=group,
                topic=topic,
                lag=lag,
                lag_ms=max(now_ms - next_ms, 0) if next_ms else 0,
                in_flight_count=self._inflight.held_count(group, topic),
                client_count=len(known.members) if known is not None else 0,
            )

    def _lag(self, topic: str, offsets: Mapping[int, int]) -> tuple[int, int]:
        """How many messages a group has not read, and when the first of them became visible."""
        lag, oldest_ms = 0, 0
        for queue_id, offset in offsets.items():
            start, end = self._store.offset_range(topic, queue_id)
            behind = end - max(offset, start)
            if behind > 0:
                lag += behind
                shown_ms = self._reading.shown_ms(topic, queue_id, max(offset, start))
                oldest_ms = min(shown_ms, oldest_ms or shown_ms)
        return lag, oldest_ms
