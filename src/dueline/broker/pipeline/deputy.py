"""Stands in for a pipeline that is not there: it is starting, or was killed and is started again.

Spark takes seconds to start, on a busy machine many. If nobody decides anything on the way (there
is no transform), messages need not wait for it: the broker copies what falls due to the commit log
itself, as it does at the commit of a batch.

It carries over little at a time and not far ahead, so that the pipeline finds its work where it
left it. Both may have the same message in hand: the second finds it done.

    now                 lead                     ahead
     ├────────────────────┼────────────────────────┤
     somebody is due here: all that is due by ahead goes, in portions

When it is behind, it reads the next portion while the disk writes this one, in a thread of its own.
What is done, moved or held by the time that portion's turn comes is left out then, as it is with
what Spark brings.

A pipeline that is not ours to start (`--no-spark`) is not stood in for: it may have a transform,
and how long it stays away is for its operator to say.
"""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from dueline.broker.pipeline.carry_over import rows_to_pass_on
from dueline.broker.pipeline.status import PipelineStatus
from dueline.broker.pipeline.views import rows_of
from dueline.errors import Unavailable
from dueline.store import CORNER_START, Corner, Key, Store
from dueline.store.corner import SEQ_MAX

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
"""So long after it could do nothing it tries again; a transform may have gone by then."""
SLEEP_S_MAX: Final = 0.25
"""What was accepted meanwhile, a wall clock that is set forward, and the rules of a topic are
noticed by then. Nobody wakes it for what the shortcut does not take."""

_AGAIN_S: Final = 0.1

log = logging.getLogger(__name__)


class _Portion(NamedTuple):
    """Rows that are ready to be delivered, and the key of the last one."""

    rows: list[pa.RecordBatch]
    row_count: int
    last: Key


class Deputy:
    """Carries over what a missing pipeline should; one thread calls it."""

    def __init__(self, store: Store, status: PipelineStatus) -> None:
        self._store = store
        self._status = status
        self._look_s = 0.0
        self._is_on_duty = False
        self._reader: ThreadPoolExecutor | None = None
        self._next: Future[_Portion | None] | None = None

    def turn(self) -> float | None:
        """Carry over a portion if it is time; returns how long to sleep, None: until woken.

        To be called as well when messages were accepted that are due soon or were moved, and when
        the pipeline's status has changed.
        """
        if not self._is_needed():
            self.rest()
            return PAUSE_S_MAX if self._status.is_missed() else None
        early_s = self._look_s - monotonic()
        if early_s > 0:
            return early_s
        started_s = monotonic()
        left_ms = self._left_ms()
        ended_s = monotonic()
        self._look_s = ended_s + min(REST_RATIO * (ended_s - started_s), REST_S_MAX)
        if left_ms is None or left_ms > 0:
            self.rest()
            pause_s = SLEEP_S_MAX if left_ms is None else min(left_ms / 1000, SLEEP_S_MAX)
            return max(pause_s, self._look_s - ended_s)
        try:
            is_behind = left_ms <= -LEAD_MS - BEHIND_MS
            return self._carry_over(BEHIND_RATIO if is_behind else 1)
        except Unavailable as error:
            self.rest()
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

    def rest(self) -> None:
        """Forget what was read ahead; to be called as well when nobody will call `turn` again."""
        reader, self._reader, self._next = self._reader, None, None
        if reader is not None:
            reader.shutdown()

    def _carry_over(self, ratio: int) -> float:
        """One portion, so many times the usual one; returns how long to rest."""
        if not self._store.delivery_room_bytes():
            self.rest()
            return PAUSE_S_MAX
        portion = self._portion(ratio)
        if portion is None:
            self.rest()
            return _AGAIN_S
        if ratio > 1:
            self._read_on(ratio, portion.last)
        result = self._store.deliver(portion.rows)
        if result.delivered_count + result.skipped_count < portion.row_count:
            # A rule of its topic holds some back by now.
            self.rest()
            return _AGAIN_S
        self._look_s = 0.0
        return 0.0

    def _portion(self, ratio: int) -> _Portion | None:
        """What was read ahead, or else what is to be carried over now."""
        ahead, self._next = self._next, None
        return self._read(ratio, None) if ahead is None else ahead.result()

    def _read_on(self, ratio: int, after: Key) -> None:
        """Read the portion behind a key while this one is delivered."""
        if self._reader is None:
            self._reader = ThreadPoolExecutor(1, thread_name_prefix="read ahead")
        self._next = self._reader.submit(self._read, ratio, after)

    def _read(self, ratio: int, after: Key | None) -> _Portion | None:
        """The earliest rows behind a key; None: there are none, or no room for them."""
        row_count_max = ratio * ROW_COUNT_MAX
        size_bytes_max = min(self._store.delivery_room_bytes(), ratio * SIZE_BYTES_MAX)
        until_ms = self._store.clock.now_ms() + AHEAD_MS
        end = self._store.next_corner(
            until_ms=until_ms, row_count_max=row_count_max, size_bytes_max=size_bytes_max
        )
        if end == CORNER_START or not size_bytes_max:
            return None
        if after is not None:
            end = Corner(due_ms=until_ms, seq=SEQ_MAX, end=end.end)
        window = self._store.window(end, after=after, row_count_max=row_count_max)
        if not len(window):
            return None
        units = window.units
        total = np.cumsum(units.size, dtype=np.int64)
        count = max(1, int(np.searchsorted(total, size_bytes_max, side="right")))
        window = rows_of(window, slice(0, count))
        last = (int(units.due_ms[len(window) - 1]), int(units.seq[len(window) - 1]))
        return _Portion(rows_to_pass_on(self._store, window), len(window), last)
