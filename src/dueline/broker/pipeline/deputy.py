"""Stands in for a pipeline that is not there: it is starting, or was killed and is started again.

Spark takes seconds to start, on a busy machine many. If nobody decides anything on the way (there
is no transform), messages need not wait for it: the broker copies what falls due to the commit log
itself, as it does at the commit of a batch.

It carries over little at a time and not far ahead, so that the pipeline finds its work where it
left it. Both may have the same message in hand: the second finds it done.

    now                 lead                     ahead
     ├────────────────────┼────────────────────────┤
     somebody is due here: all that is due by ahead goes, in portions

A pipeline that is not ours to start (`--no-spark`) is not stood in for: it may have a transform,
and how long it stays away is for its operator to say.
"""

from __future__ import annotations

import logging
from time import monotonic
from typing import Final

from dueline.broker.pipeline.carry_over import pass_on
from dueline.broker.pipeline.status import PipelineStatus
from dueline.errors import Unavailable
from dueline.store import CORNER_START, Store

__all__ = ["Deputy"]

LEAD_MS: Final = 1_000
AHEAD_MS: Final = 3_000
ROW_COUNT_MAX: Final = 4_096
SIZE_BYTES_MAX: Final = 4 << 20
"""Of one portion; locks are given back in between."""

BEHIND_MS: Final = 1_000
BEHIND_RATIO: Final = 8
"""Once something is so late, portions are so many times as large: each waits for the disk and looks
for the next one, which is most of the time that small ones take."""

REST_RATIO: Final = 10
REST_S_MAX: Final = 0.25
"""So many times as long as a look takes, nobody looks again: others need the store's lock. Where
looks take long because the machine is busy, the rest must not use up the lead."""

PAUSE_S_MAX: Final = 1.0
"""A wall clock that is set forward, and the rules of a topic, are noticed by then."""

_AGAIN_S: Final = 0.1

log = logging.getLogger(__name__)


class Deputy:
    """Carries over what a missing pipeline should; one thread calls it."""

    def __init__(self, store: Store, status: PipelineStatus) -> None:
        self._store = store
        self._status = status
        self._look_s = 0.0
        self._is_on_duty = False

    def turn(self) -> float | None:
        """Carry over a portion if it is time; returns how long to sleep, None: until woken.

        To be called as well when messages were accepted or moved, and when the pipeline's status
        has changed.
        """
        if not self._is_needed():
            return None
        early_s = self._look_s - monotonic()
        if early_s > 0:
            return early_s
        started_s = monotonic()
        left_ms = self._left_ms()
        ended_s = monotonic()
        self._look_s = ended_s + min(REST_RATIO * (ended_s - started_s), REST_S_MAX)
        if left_ms is None or left_ms > 0:
            pause_s = PAUSE_S_MAX if left_ms is None else min(left_ms / 1000, PAUSE_S_MAX)
            return max(pause_s, self._look_s - ended_s)
        try:
            is_behind = left_ms <= -LEAD_MS - BEHIND_MS
            return self._carry_over(BEHIND_RATIO if is_behind else 1)
        except Unavailable as error:
            log.info("left to the pipeline for now: %s", error)
            return PAUSE_S_MAX

    def _is_needed(self) -> bool:
        is_needed = self._status.is_stood_in()
        if is_needed is not self._is_on_duty:
            self._is_on_duty = is_needed
            log.info("the broker %s for the pipeline", "stands in" if is_needed else "makes way")
        return is_needed

    def _left_ms(self) -> int | None:
        """How long until a portion is to be carried over; None: nothing waits."""
        due_ms = self._store.next_due_ms()
        return None if due_ms is None else due_ms - LEAD_MS - self._store.clock.now_ms()

    def _carry_over(self, ratio: int) -> float:
        """One portion, so many times the usual one; returns how long to rest."""
        row_count_max = ratio * ROW_COUNT_MAX
        room_bytes = self._store.delivery_room_bytes()
        if not room_bytes:
            return PAUSE_S_MAX
        end = self._store.next_corner(
            until_ms=self._store.clock.now_ms() + AHEAD_MS,
            row_count_max=row_count_max,
            size_bytes_max=min(room_bytes, ratio * SIZE_BYTES_MAX),
        )
        window = self._store.window(end, row_count_max=row_count_max)
        if end == CORNER_START or not len(window):
            return _AGAIN_S
        result = pass_on(self._store, window)
        if result.delivered_count < len(window):  # a rule of its topic holds some back by now
            return _AGAIN_S
        self._look_s = 0.0
        return 0.0
