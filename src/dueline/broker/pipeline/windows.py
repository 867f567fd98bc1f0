"""When there is something to carry over, and how much of it: the corner of the next window.

A batch costs time whatever its size, so what is due is collected; a batch that comes late makes
messages late, so what is urgent goes at once and takes its followers along. Any thread may ask.
"""

from __future__ import annotations

from math import inf
from time import monotonic
from typing import Final

from dueline.store import CORNER_START, Corner, Store
from dueline.store.corner import SEQ_MAX

__all__ = ["Windows"]

CROWD_ROWS: Final = 10_000
"""Due within `ahead`: worth a batch before the first of them is urgent."""

FAR_ROWS: Final = 200_000
FAR_RATIO: Final = 12
FAR_MS_MAX: Final = 60_000
"""So many due within so many times `ahead`, at most a minute, are carried over earlier."""

FAR_BATCH_ROWS: Final = 50_000

REFILL_RATIO: Final = 1 / 3
REFILLS_PER_AHEAD: Final = 6
"""What is not urgent is carried over when a third of `ahead` is used up, but in few batches."""

GATE_ROWS_MAX: Final = 2_000_000
"""With so many at the gate, only what is urgent is carried over: they are in memory there."""


class Windows:
    """What one store has for the pipeline."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._runway: Corner | None = None
        self._corner_s = -inf

    def begin_filling(self, ahead_ms: int) -> None:
        """Before the pipeline stops: carry over all that may be, from now on."""
        self._runway = Corner(
            due_ms=self._store.clock.now_ms() + ahead_ms,
            seq=SEQ_MAX,
            end=self._store.stats()["accepted_delayed"],
        )

    def is_filled(self) -> bool:
        """Is all carried over that was there, and due within `ahead_ms`, when filling began?"""
        return self._runway is not None and not len(
            self._store.window(self._runway, row_count_max=1)
        )

    def next_corner(
        self, *, ahead_ms: int, lead_ms: int, row_count_max: int, until_ms: int | None = None
    ) -> Corner | None:
        """Up to which corner there is something to carry over now; None: nothing yet.

        A batch is started when a message is due soon, and for a crowd as soon as it may be.

        What is neither urgent nor a crowd is collected for a while, so that `ahead` costs few
        batches. A crowd that takes longer than `ahead` to carry over may start earlier, in batches
        that are small enough to let what is due at once pass.

        Args:
            ahead_ms: so long before its due time a message may be carried over.
            lead_ms: what is due within this time is urgent, unless it goes over the shortcut.
            until_ms: a fixed horizon instead, for a query that is to end.
        """
        now_ms = self._store.clock.now_ms()
        if until_ms is not None:
            return self._corner(until_ms, row_count_max)
        due_ms = self._store.aside.next_due_ms()
        if due_ms is None:
            return None
        until_ms = now_ms + ahead_ms
        is_urgent = due_ms <= now_ms + lead_ms
        if not is_urgent and self._store.gate_row_count > GATE_ROWS_MAX:
            return None
        far_ms = now_ms + _far_ms(ahead_ms)
        if self._store.pending_count() > FAR_ROWS and self._holds(far_ms, FAR_ROWS):
            return self._corner(far_ms, min(row_count_max, FAR_BATCH_ROWS))
        if due_ms > until_ms:
            return None
        if (
            is_urgent
            or self._runway is not None
            or self._is_low(due_ms - now_ms, ahead_ms)
            or self._holds(until_ms, min(CROWD_ROWS, row_count_max))
        ):
            return self._corner(until_ms, row_count_max)
        return None

    def _is_low(self, left_ms: int, ahead_ms: int) -> bool:
        """Is enough of `ahead` used up for a batch, and the last one long enough ago?"""
        pause_s = ahead_ms / 1000 / REFILLS_PER_AHEAD
        is_used = left_ms <= (1 - REFILL_RATIO) * ahead_ms
        return is_used and monotonic() - self._corner_s >= pause_s

    def _holds(self, until_ms: int, row_count: int) -> bool:
        """Are more than so many messages due by then?"""
        end = self._store.next_corner(until_ms=until_ms, row_count_max=row_count)
        return end != CORNER_START and end.due_ms < until_ms

    def _corner(self, until_ms: int, row_count_max: int) -> Corner | None:
        """None if nothing is due, or if the disk has no room for what is."""
        room_bytes = self._store.delivery_room_bytes()
        if not room_bytes:
            return None
        end = self._store.next_corner(
            until_ms=until_ms, row_count_max=row_count_max, size_bytes_max=room_bytes
        )
        self._corner_s = monotonic()
        return None if end == CORNER_START else end


def _far_ms(ahead_ms: int) -> int:
    """How long before its due time a crowd may be carried over."""
    return max(ahead_ms, min(FAR_RATIO * ahead_ms, FAR_MS_MAX))
