"""One lane: what a group has received from one queue and not yet acknowledged.

    done … done | held | done | held | parked | held |  unseen …
                  ▲ floor                              ▲ cursor

Everything before the cursor was read once. An offset before it that has no entry is done:
acknowledged, or not wanted by the group's filter. An entry is *held* by a consumer until it is
acknowledged or its `visible_ms` comes; then it may be handed out again, one attempt older.

Order: messages of one message group (the property `__SHARDINGKEY`) are handed out one at a time. A
later one is *parked* until the earlier is done, so a failure holds up its message group and
nobody else. Who sends no message groups pays nothing.

Three changes make all of a lane's history, so a log of them is enough to rebuild it: `advance`,
`hold` and `finish`. Pure state: no I/O, no clock, and no lock; the owner has one.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from dueline.budget import Budget

__all__ = ["HELD_COUNT_MAX", "NEVER_MS", "RETRY_LANE", "Entry", "Lane"]

NEVER_MS: Final = 1 << 62
"""When a parked message becomes visible, as far as the clock is concerned."""

HELD_COUNT_MAX: Final = 20_000
"""So many unfinished messages of one queue, and no new ones are handed out before some are done."""

ENTRY_SIZE: Final = 384
"""Bytes that an unfinished message takes, more or less."""

RETRY_LANE: Final = 1 << 31
"""Added to the queue id of a lane through a queue of the group's retry topic (see `lanes`)."""


class Entry(NamedTuple):
    """A message that was received and is not done."""

    attempt: int
    visible_ms: int
    serial: int
    message_group: int = 0
    # Not in the log: who holds it, and until when its holding is renewed while they are there.
    owner: str = ""
    renew_until_ms: int = 0

    @property
    def is_parked(self) -> bool:
        return self.visible_ms == NEVER_MS


class Lane:
    """The state of one group in one queue."""

    def __init__(self, *, number: int, queue_id: int, cursor: int) -> None:
        self.number: Final = number
        self.queue_id: Final = queue_id
        self.cursor = cursor
        self.published = cursor
        """The floor as others were told it last."""
        # New offsets only grow and a replaced entry keeps its place: the first one is the lowest.
        self.entries: dict[int, Entry] = {}
        self._times: list[tuple[int, int, int]] = []
        self._groups: dict[int, deque[int]] = {}
        self._budget: Budget | None = None

    def count_in(self, budget: Budget) -> None:
        """From now on this lane's unfinished messages count there."""
        self._budget = budget
        budget.add(ENTRY_SIZE * len(self.entries))

    def count_out(self) -> None:
        """The lane is given up, and its messages count no more."""
        if self._budget is not None:
            self._budget.give(ENTRY_SIZE * len(self.entries))
            self._budget = None

    @property
    def is_retry(self) -> bool:
        """Does it read the group's retry topic?"""
        return bool(self.queue_id & RETRY_LANE)

    @property
    def floor(self) -> int:
        """Everything before is done: what the group has consumed, as other protocols mean it."""
        return next(iter(self.entries), self.cursor)

    @property
    def room(self) -> int:
        """How many more messages may be handed out before some are done."""
        room = HELD_COUNT_MAX - len(self.entries)
        if self._budget is not None:
            left = self._budget.size_bytes_max - self._budget.size_bytes
            room = min(room, left // ENTRY_SIZE)
        return max(room, 0)

    def advance(self, cursor: int) -> None:
        """Everything before `cursor` was read; what has no entry is done."""
        self.cursor = max(self.cursor, cursor)

    def hold(self, offset: int, entry: Entry) -> None:
        """Add an entry or replace it."""
        if entry.message_group and offset not in self.entries:
            self._groups.setdefault(entry.message_group, deque()).append(offset)
        if self._budget is not None and offset not in self.entries:
            self._budget.add(ENTRY_SIZE)
        self.entries[offset] = entry
        if not entry.is_parked:
            heapq.heappush(self._times, (entry.visible_ms, offset, entry.serial))

    def finish(self, offset: int) -> int | None:
        """Forget an entry; returns the parked offset that may be handed out now instead."""
        entry = self.entries.pop(offset, None)
        if entry is None:
            return None
        if self._budget is not None:
            self._budget.give(ENTRY_SIZE)
        if not entry.message_group:
            return None
        waiting = self._groups[entry.message_group]
        was_first = waiting[0] == offset
        waiting.remove(offset)
        if not waiting:
            del self._groups[entry.message_group]
            return None
        following = self.entries[waiting[0]]
        if not was_first or not following.is_parked:
            return None
        self.hold(
            waiting[0],
            Entry(
                attempt=following.attempt,
                visible_ms=0,
                serial=following.serial,
                message_group=following.message_group,
            ),
        )
        return waiting[0]

    def settle(self) -> None:
        """Put everything in order of offsets, after a replay that may have repeated changes."""
        self.entries = dict(sorted(self.entries.items()))
        self._groups = {group: deque(sorted(at)) for group, at in self._groups.items()}

    def set_back(self, delta_ms: int) -> None:
        """The clock was set back by so much: everything that is held is held as long as before."""
        self._times = []
        for offset, entry in self.entries.items():
            if not entry.is_parked:
                self.hold(offset, entry._replace(visible_ms=max(entry.visible_ms - delta_ms, 0)))

    def is_blocked(self, message_group: int) -> bool:
        """Is an earlier message of this message group not done?"""
        return message_group in self._groups

    def due(self, now_ms: int) -> Iterator[int]:
        """Offsets that may be handed out again, the longest due first.

        Each is taken off the list of times: hold it again, or finish it.
        """
        while (next_ms := self.next_visible_ms()) is not None and next_ms <= now_ms:
            yield heapq.heappop(self._times)[1]

    def next_visible_ms(self) -> int | None:
        """When the next held message may be handed out again."""
        while self._times:
            visible_ms, offset, serial = self._times[0]
            entry = self.entries.get(offset)
            if entry and entry.visible_ms == visible_ms and entry.serial == serial:
                return visible_ms
            heapq.heappop(self._times)
        return None
