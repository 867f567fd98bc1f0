"""Crowds ahead: when more falls due than can be carried, before it happens.

The road ahead is laid out in minutes, topic by topic, against what is known of those who must carry
it:

    rate        the topic's release rate: what falls due beyond it is held back, for certain
    pipeline    the most that deliveries have carried in a minute since the start (of all topics)
    consumers   the most that the topic's groups have committed in a minute since the start

The last two are measured, and only a lower bound of what is possible: a crowd is named if it is
larger than anything seen, by `MARGIN`, and than what everybody carries. `sample` is called now and
then by one thread; any thread may ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.kept import Kept
from dueline.broker.waiting.road import road_ahead
from dueline.errors import InvalidRequest
from dueline.store import Observer, Store

__all__ = ["Crowd", "Forecast"]

MINUTE_MS: Final = 60_000
MINUTE_COUNT_MAX: Final = 4_000
MARGIN: Final = 2.0

PIPELINE_MIN: Final = 60_000
"""A minute: any pipeline carries that much, also one that was never asked to."""

CONSUMERS_MIN: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """More falls due than `limit` (rate, pipeline or consumers) carries.

    Attributes:
        topic: empty: all topics together.
        per_minute: what it carries in a minute.
        start_ms, end_ms: from when to when something waits for it.
        peak_count: the most that waits at a time.
        wait_ms: the longest that a message waits.
    """

    topic: str
    limit: str
    per_minute: int
    start_ms: int
    end_ms: int
    peak_count: int
    wait_ms: int


class Forecast(Observer):
    """Measures who carries how much, and compares it with the road ahead."""

    def __init__(
        self,
        store: Store,
        offsets: ConsumerOffsets,
        *,
        pipeline_min: int = PIPELINE_MIN,
        consumers_min: int = CONSUMERS_MIN,
    ) -> None:
        self._store = store
        self._pipeline_min = pipeline_min
        self._consumers_min = consumers_min
        self._offsets = offsets
        self._delivered = 0
        self._sampled: tuple[int, int, dict[str, int]] | None = None
        self._pipeline_max = 0
        self._consumer_max: dict[str, int] = {}
        self._kept: tuple[int, Kept[list[Crowd]]] | None = None
        store.observe(self)

    def delivered(self, *, count: int, skipped_count: int, dropped_count: int) -> None:
        self._delivered += count + dropped_count

    def sample(self) -> None:
        """Look how much was carried in the last minute; more often it does nothing."""
        now_ms = self._store.clock.now_ms()
        if self._sampled is not None and now_ms - self._sampled[0] < MINUTE_MS:
            return
        consumed: dict[str, int] = {}
        for (topic, _), queues in self._offsets.all().items():
            consumed[topic] = max(consumed.get(topic, 0), sum(queues.values()))
        if self._sampled is not None:
            then_ms, delivered, before = self._sampled
            share = MINUTE_MS / (now_ms - then_ms)
            self._pipeline_max = max(self._pipeline_max, int((self._delivered - delivered) * share))
            for topic, total in consumed.items():
                pace = int((total - before.get(topic, total)) * share)
                self._consumer_max[topic] = max(self._consumer_max.get(topic, 0), pace)
        self._sampled = (now_ms, self._delivered, consumed)

    def crowds(self, ahead_ms: int) -> list[Crowd]:
        """What is to be expected within that time, the earliest first; as it was a moment ago.

        Raises:
            InvalidRequest: too far ahead.
        """
        if not MINUTE_MS <= ahead_ms <= MINUTE_MS * MINUTE_COUNT_MAX:
            raise InvalidRequest(
                f"ahead_ms: expected {MINUTE_MS} (a minute) to {MINUTE_MS * MINUTE_COUNT_MAX}, "
                f"found {ahead_ms}",
                field="ahead_ms",
            )
        if self._kept is None or self._kept[0] != ahead_ms:
            self._kept = (ahead_ms, Kept(lambda: self._crowds(ahead_ms)))
        return self._kept[1].get()

    def _crowds(self, ahead_ms: int) -> list[Crowd]:
        start_ms = self._store.clock.now_ms()
        road = road_ahead(
            self._store, start_ms=start_ms, end_ms=start_ms + ahead_ms, bucket_ms=MINUTE_MS
        )
        rules = self._store.numbers.rules
        found = []
        for topic, counts in road.by_topic.items():
            rule = rules.get(topic)
            if rule is not None and rule.rate is not None and not rule.is_paused:
                found.append(_crowd(topic, "rate", 60 * rule.rate, counts, start_ms))
            pace = _pace(self._consumer_max.get(topic, 0), self._consumers_min)
            found.append(_crowd(topic, "consumers", pace, counts, start_ms))
        pace = _pace(self._pipeline_max, self._pipeline_min)
        found.append(_crowd("", "pipeline", pace, road.counts, start_ms))
        return sorted(
            (crowd for crowd in found if crowd is not None), key=lambda crowd: crowd.start_ms
        )


def _pace(measured_max: int, pace_min: int) -> int:
    """What is believed to be possible in a minute; 0: nothing is known."""
    return max(int(MARGIN * measured_max), pace_min) if measured_max else 0


def _crowd(
    topic: str, limit: str, per_minute: int, counts: Sequence[int], start_ms: int
) -> Crowd | None:
    """The first crowd that is too large, if there is one; 0 per minute: nothing is known."""
    if per_minute <= 0:
        return None
    waiting, at = 0, 0
    first: int | None = None
    peak = 0
    for at, count in enumerate(counts):
        waiting = max(waiting + count - per_minute, 0)
        if waiting and first is None:
            first = at
        peak = max(peak, waiting)
        if first is not None and not waiting:
            break
    if first is None:
        return None
    left_minutes = int(np.ceil(waiting / per_minute))
    return Crowd(
        topic=topic,
        limit=limit,
        per_minute=per_minute,
        start_ms=start_ms + first * MINUTE_MS,
        end_ms=start_ms + (at + 1 + left_minutes) * MINUTE_MS,
        peak_count=peak,
        wait_ms=peak * MINUTE_MS // per_minute,
    )
