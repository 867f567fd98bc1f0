"""One call of `take`: what is visible again first, then what nobody has received yet.

A `Take` works on a locked set of lanes and gathers two things: the messages for the caller, and the
changes for the file of receipts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from dueline.broker.filters import Filter
from dueline.broker.inflight.holding import Held, Holding
from dueline.broker.inflight.lane import NEVER_MS, Entry, Lane
from dueline.broker.inflight.lane_set import LaneSet
from dueline.broker.inflight.log import Change, advance, finish, hold
from dueline.message import decode_properties
from dueline.store import ReadResult, ReadStatus
from dueline.store.layout import properties_of, queue_offset_of, split
from dueline.store.record import decode_checked

__all__ = ["Take", "hash_group"]

RENEW_MS: Final = 60_000
RENEW_MS_MAX: Final = 3 * 3_600_000
DEAD_HOLD_MS: Final = 30_000
"""How long a dead message is kept from others while it is put into the dead-letter topic."""

_READ_SIZE_BYTES_MAX: Final = 256 * 1024
_SCAN_COUNT_MAX: Final = 4_096
"""How many unwanted messages of a queue one call skips; the next call goes on behind them."""
_READ_COUNT_MAX: Final = 256
"""The same where each has to be read and asked."""
_GROUP_NAME: Final = b"__SHARDINGKEY\x01"


@dataclass(slots=True, kw_only=True)
class Take:
    """One call of `take` under way; its lanes are locked."""

    lane_set: LaneSet
    holding: Holding
    wanted: Filter
    count_max: int
    size_bytes_max: int
    now_ms: int
    is_present: Callable[[str], bool]
    messages: list[Held]
    dead: list[Held]
    changes: list[Change]
    others: dict[str, int] = field(default_factory=dict)
    """Topics whose messages were met in the retry queue, with the first one's offset."""

    size_bytes: int = 0
    """Of what was taken; at least one message is, however large."""

    @property
    def _left(self) -> int:
        if self.size_bytes >= self.size_bytes_max:
            return 0
        return self.count_max - len(self.messages) - len(self.dead)

    def _has_room(self, size_bytes: int) -> bool:
        return not self.size_bytes or self.size_bytes + size_bytes <= self.size_bytes_max

    def again(self, lane: Lane) -> None:
        """What was received before and is visible again."""
        skipped = []
        for offset in lane.due(self.now_ms):
            entry = lane.entries[offset]
            if self._is_renewed(lane, offset, entry):
                continue
            if self._left <= 0 or not self._take_again(lane, offset, entry):
                skipped.append((offset, entry))
                break
        for offset, entry in skipped:
            lane.hold(offset, entry)  # back to its place in time

    def _is_renewed(self, lane: Lane, offset: int, entry: Entry) -> bool:
        if self.now_ms >= entry.renew_until_ms or not self.is_present(entry.owner):
            return False
        lane.hold(offset, entry._replace(visible_ms=self.now_ms + RENEW_MS))
        return True

    def _take_again(self, lane: Lane, offset: int, entry: Entry) -> bool:
        """Returns whether there was room for it."""
        data = self.lane_set.read_one(lane, offset)
        if data is None:  # deleted by retention, or damaged
            self._finish(lane, offset)
            return True
        if not self._has_room(len(data)):
            return False
        self.size_bytes += len(data)
        if entry.attempt + decode_checked(data).reconsume_times >= self.holding.attempt_max:
            dead = entry._replace(
                visible_ms=self.now_ms + DEAD_HOLD_MS,
                serial=entry.serial + 1,
                owner="",
                renew_until_ms=0,
            )
            self._hold(lane, offset, dead)
            self.dead.append(self.lane_set.held(lane, offset, data))
        else:
            self._hold_taken(
                lane,
                offset,
                attempt=entry.attempt + 1,
                serial=entry.serial + 1,
                message_group=entry.message_group,
            )
            self.messages.append(self.lane_set.held(lane, offset, data))
        return True

    def new(self, lane: Lane) -> None:
        """What nobody of the group has received yet."""
        scanned = 0
        scanned_max = _READ_COUNT_MAX if self.wanted.needs_properties else _SCAN_COUNT_MAX
        before = lane.cursor
        while self._left > 0 and lane.room and scanned < scanned_max:
            result = self.lane_set.store.read(
                *self.lane_set.source(lane),
                lane.cursor,
                count_max=min(self._left, lane.room),
                size_bytes_max=min(self.size_bytes_max - self.size_bytes, _READ_SIZE_BYTES_MAX),
                # Refused by a client of the group, so it was wanted.
                accept=None if lane.is_retry else self.wanted.accept,
            )
            if result.status in (ReadStatus.AT_END, ReadStatus.BEYOND_END):
                break
            scanned += max(result.next_offset - lane.cursor, 1)
            lane.advance(self._take_all(lane, result))
        if lane.cursor != before:
            self.changes.append(advance(lane))

    def _take_all(self, lane: Lane, result: ReadResult) -> int:
        """Take what is wanted of what was read; returns the offset to go on from."""
        asks_each = lane.is_retry or self.wanted.matches is not None
        for data in chain.from_iterable(split(bytes(chunk)) for chunk in result.chunks):
            offset = queue_offset_of(data)
            if asks_each and not self._is_wanted(lane, offset, data):
                continue
            if not self._has_room(len(data)):
                self.size_bytes_max = self.size_bytes  # nothing smaller overtakes it
                return offset
            if self._take_new(lane, offset, data):
                self.size_bytes += len(data)
        return result.next_offset

    def _is_wanted(self, lane: Lane, offset: int, data: bytes) -> bool:
        properties = decode_properties(properties_of(data))
        if not lane.is_retry:
            return self.wanted.matches is None or self.wanted.matches(properties)
        own = self.lane_set.name.topic
        origin = properties.get("RETRY_TOPIC", own)
        if origin != own:
            self.others.setdefault(origin, offset)
        return origin == own

    def _take_new(self, lane: Lane, offset: int, data: bytes) -> bool:
        """Returns whether it is for the caller: one that has to wait its turn is parked."""
        message_group = 0
        if _GROUP_NAME in data:  # nearly always among the properties
            properties = decode_properties(properties_of(data))
            message_group = hash_group(properties.get("__SHARDINGKEY", ""))
        if message_group and lane.is_blocked(message_group):
            parked = Entry(attempt=0, visible_ms=NEVER_MS, serial=0, message_group=message_group)
            self._hold(lane, offset, parked)
            return False
        self._hold_taken(lane, offset, attempt=1, serial=1, message_group=message_group)
        self.messages.append(self.lane_set.held(lane, offset, data))
        return True

    def _hold_taken(
        self, lane: Lane, offset: int, *, attempt: int, serial: int, message_group: int
    ) -> None:
        holding = self.holding
        taken = Entry(
            attempt=attempt,
            visible_ms=self.now_ms + max(holding.invisible_ms, 1),
            serial=serial,
            message_group=message_group,
            owner=holding.owner,
            renew_until_ms=self.now_ms + RENEW_MS_MAX if holding.renew else 0,
        )
        self._hold(lane, offset, taken)

    def _hold(self, lane: Lane, offset: int, entry: Entry) -> None:
        lane.hold(offset, entry)
        self.changes.append(hold(lane, offset))

    def _finish(self, lane: Lane, offset: int) -> None:
        lane.finish(offset)
        self.changes.append(finish(lane, offset))


def hash_group(name: str) -> int:
    """A message group as a number, 0 for none. Two groups with one number only wait in vain."""
    if not name:
        return 0
    digest = hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") | 1
