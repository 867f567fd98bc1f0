"""The rules of the road by topic: pause and resume, release rate, expiry (`store/road.py`).

Any thread may call. What changes blocks for the disk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from dueline.admission import check_target
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.waiting.forecast import Forecast
from dueline.errors import InvalidRequest
from dueline.message import check_topic
from dueline.store import Store
from dueline.store.road import RoadRule

__all__ = ["TopicRule", "TopicRules"]

RATE_MAX: Final = 1_000_000
EXPIRY_MS_MAX: Final = 3_660 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRule:
    """A topic's rule, and what it means now: `held_back_count` were due and may not go yet."""

    topic: str
    is_paused: bool
    rate: int | None
    expiry_ms: int | None
    pending_count: int
    held_back_count: int


class TopicRules:
    """The rules of one store."""

    def __init__(self, store: Store, offsets: ConsumerOffsets) -> None:
        self._store = store
        self.forecast: Final = Forecast(store, offsets)

    def list(self) -> list[TopicRule]:
        """Of every topic that has one, by name."""
        rules = self._store.numbers.rules
        names = sorted(
            name for name, rule in rules.items() if replace(rule, resumed_ms=0) != RoadRule()
        )
        if not names:
            return []
        survey = self._store.survey()
        totals = np.zeros(len(survey.topic_names), dtype=np.int64)
        due = np.zeros(len(survey.topic_names), dtype=np.int64)
        wanted = np.array([name in names for name in survey.topic_names] or [False])
        for dues in survey.dues(topics=wanted):
            totals += np.bincount(dues.topic, minlength=len(totals))
            late = dues.topic[dues.due_ms <= survey.taken_ms]
            due += np.bincount(late, minlength=len(due))
        counts = dict(zip(survey.topic_names, zip(totals, due, strict=True), strict=True))
        return [
            TopicRule(
                topic=name,
                is_paused=rules[name].is_paused,
                rate=rules[name].rate,
                expiry_ms=rules[name].expiry_ms,
                pending_count=int(counts.get(name, (0, 0))[0]),
                held_back_count=int(counts.get(name, (0, 0))[1]),
            )
            for name in names
        ]

    def change(
        self,
        topic: str,
        *,
        is_paused: bool | None = None,
        rate: int | None = None,
        expiry_ms: int | None = None,
    ) -> None:
        """Change what is said; None leaves it as it is, 0 takes a rate or an expiry away.

        Raises:
            InvalidRequest: no topic of that name can have rules, or numbers that cannot be.
            Unavailable: the disk is full.
        """
        check_topic(topic)
        check_target(topic)
        for name, value, limit in (
            ("rate", rate, RATE_MAX),
            ("expiry_ms", expiry_ms, EXPIRY_MS_MAX),
        ):
            if value is not None and not 0 <= value <= limit:
                raise InvalidRequest(
                    f"{name}: expected 1 to {limit}, or 0 for none, found {value}", field=name
                )
        rule = self._store.numbers.rules.get(topic, RoadRule())
        if rate is not None:
            rule = replace(rule, rate=rate or None)
        if expiry_ms is not None:
            rule = replace(rule, expiry_ms=expiry_ms or None)
        if is_paused is not None and is_paused != rule.is_paused:
            resumed_ms = rule.resumed_ms if is_paused else self._store.clock.now_ms()
            rule = replace(rule, is_paused=is_paused, resumed_ms=resumed_ms)
        self._store.numbers.set_rule(topic, rule)
