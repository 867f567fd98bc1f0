"""Reading queues, and looking messages up: one set of rules for every protocol.

    check, subscribed    who may read a queue, and what of it
    pull                 read from an offset on; at the end of the queue, be woken when it grows
    watch                be woken when a queue or a topic grows
    offset_range, offset_at, shown_ms       where a queue begins and ends, and when
    units                                   where its messages stand in the log
    by_key, by_position                     one message, visible or still delayed

A pull whose filter does not want what it reads goes on, for `SCAN_COUNT_MAX` reads at most and as
long as its SQL92 condition has not taken too much time; then the reader goes on from `next_offset`.
Tags are chosen by their hash in the consume queue; a reader that cannot compare tags itself asks
for `is_exact`.

Waiting is by callback: `wake` comes from the thread that made a message visible, under the store's
lock, and must only pass the news on. A reader looks again before it relies on being woken, so that
nothing that comes between look and watch is missed. Any thread may call any verb; each takes
microseconds, unless the disk has to be asked for what is far behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from dueline.broker.acceptance import Acceptance
from dueline.broker.filters import EVERYTHING, Filter, filter_of
from dueline.broker.group_configs import GroupTable, check_may_consume
from dueline.broker.groups import Groups
from dueline.broker.topics import Topics, check_readable
from dueline.broker.traces import Traces
from dueline.broker.watches import Wake, Watch, Watches
from dueline.errors import InvalidRequest, NotFound
from dueline.message import DELAY_LOG_MARK, decode_properties, message_id, pack_host
from dueline.store import ReadResult, ReadStatus, Record, Store
from dueline.store import record as records
from dueline.store.usual_reader import UsualReader

__all__ = ["Pull", "Pulled", "Reading", "Unit", "records_of"]

SCAN_COUNT_MAX: Final = 64
"""Reads without a match before the reader is asked to go on from there."""
WORK_MAX: Final = 20_000
"""Words of an SQL92 condition, and pieces of properties, that one pull looks at: some ms."""
_PIECE_SIZE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """What somebody wants to read."""

    topic: str
    queue_id: int
    wanted: Filter = EVERYTHING
    count_max: int = 32
    size_bytes_max: int = 256 * 1024
    is_exact: bool = False
    """Compare tags and not just their hashes."""
    group: str = ""
    """Whose consumers are handed what is read; none: somebody looks."""


class Pulled(NamedTuple):
    """What was read. With a `watch` the queue has ended, and the reader will be woken."""

    result: ReadResult
    watch: Watch | None = None


class Unit(NamedTuple):
    """Where a message of a queue stands in the commit log."""

    position: int
    size_bytes: int


class Reading:
    """The reading verbs of one broker."""

    def __init__(
        self,
        store: Store,
        acceptance: Acceptance,
        topics: Topics,
        group_table: GroupTable,
        groups: Groups,
    ) -> None:
        self._store = store
        self.clock: Final = store.clock
        self.acceptance: Final = acceptance
        self._topics = topics
        self._group_table = group_table
        self._groups = groups
        self.traces: Final = Traces(store)
        self.watches: Final = Watches()
        store.observe(self.watches)

    # Who may

    def check(self, group: str, topic: str, queue_id: int) -> None:
        """Refuse groups, topics and queues that may not be read.

        Raises:
            NotFound: no such topic, or no such group where groups are not made by being used.
            InvalidRequest: no such queue, or the operator has closed the topic or the group.
        """
        check_may_consume(self._group_table.find(group))
        check_readable(self._topics.find(topic), queue_id)

    def subscribed(self, group: str, topic: str, version: int) -> Filter:
        """What a group's heartbeats say that it wants of a topic.

        Args:
            version: of the reader's own subscription; an older one is not what it means.

        Raises:
            NotFound: the group has no client here, or does not subscribe to the topic (yet).
            InvalidRequest: it broadcasts and may not, or its expression cannot be read.
        """
        known = self._groups.get(group)
        if known is None:
            raise NotFound(
                f"consumer group {group}: expected a client with a heartbeat, found none",
                what="subscription",
            )
        if known.consumption.message_model == "BROADCASTING":
            config = self._group_table.find(group)
            if not config.consume_broadcast_enable:
                raise InvalidRequest(
                    f"consumer group {group}: expected one that may consume broadcasts, found one "
                    "that may not",
                    what="permission",
                )
        subscription = known.subscriptions.get(topic)
        if subscription is None:
            raise NotFound(
                f"consumer group {group}: expected a subscription to {topic}, found none",
                what="subscription",
            )
        if subscription.version < version:
            raise NotFound(
                f"consumer group {group}: expected its newest subscription to {topic}, which has "
                "not arrived yet",
                what="newest subscription",
            )
        return filter_of(subscription.expression, subscription.kind)

    # Pulling

    def pull(self, pull: Pull, offset: int, wake: Wake | None = None) -> Pulled:
        """Read from `offset` on. With `wake`, a reader at the end is called when there is more.

        Raises:
            LimitExceeded: too many wait already.
        """
        work = 0
        unwanted: ReadResult | None = None
        for _ in range(SCAN_COUNT_MAX):
            result = self._read(pull, offset)
            if result.status is ReadStatus.AT_END:
                if wake is None or not self.acceptance.is_open:
                    return Pulled(result=unwanted or result)
                watch = self.watch(pull.topic, pull.queue_id, wake)
                # What became visible between the read and the watch has woken nobody.
                result = self._read(pull, offset)
                if result.status is ReadStatus.AT_END:
                    return Pulled(result=result, watch=watch)
                watch.cancel()
            if result.status is ReadStatus.FOUND and _needs_look(pull):
                result, work = _chosen(pull.wanted, result, work)
            if result.status is not ReadStatus.NO_MATCH or work >= WORK_MAX:
                break
            unwanted, offset = result, result.next_offset
        if self.traces.is_on and pull.group:
            self.traces.pulled(pull.group, result)
        return Pulled(result=result)

    def _read(self, pull: Pull, offset: int) -> ReadResult:
        return self._store.read(
            pull.topic,
            pull.queue_id,
            offset,
            count_max=pull.count_max,
            size_bytes_max=pull.size_bytes_max,
            accept=pull.wanted.accept,
        )

    def usual_reader(self) -> UsualReader:
        """Reads what most pulls ask for, for one thread; nobody is asked who may, or traced."""
        return self._store.usual_reader()

    def watch(self, topic: str, queue_id: int | None, wake: Wake) -> Watch:
        """Call `wake` once when a queue (None: any of the topic) has grown; then read again.

        Raises:
            LimitExceeded: too many wait already.
        """
        watch = self.watches.add(topic, queue_id, wake)
        if not self.acceptance.is_open:  # since a moment ago, perhaps: nobody is left waiting
            watch.cancel()
            wake()
        return watch

    def is_at_hand(self, pull: Pull, offset: int) -> bool:
        """Would a pull be quick, although it is far behind? False also if that is not known."""
        if pull.wanted is not EVERYTHING:  # it may read on for a while
            return False
        return self._store.is_at_hand(pull.topic, pull.queue_id, offset, count_max=pull.count_max)

    # Places

    def offset_range(self, topic: str, queue_id: int) -> tuple[int, int]:
        """The first offset that exists and the next one to be written; (0, 0) for no queue."""
        return self._store.offset_range(topic, queue_id)

    def offset_at(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The first offset that became visible at or after a time; the end if none did."""
        return self._store.search_offset(topic, queue_id, timestamp_ms)

    def last_offset_until(self, topic: str, queue_id: int, timestamp_ms: int) -> int:
        """The last offset that became visible at or before a time; the first if none did."""
        start, _ = self._store.offset_range(topic, queue_id)
        return max(self._store.search_offset(topic, queue_id, timestamp_ms + 1) - 1, start)

    def shown_ms(self, topic: str, queue_id: int, offset: int) -> int:
        """When the message at an offset became visible; 0 if there is none."""
        start, end = self._store.offset_range(topic, queue_id)
        if not start <= offset < end:
            return 0
        found = self._store.read(topic, queue_id, offset, count_max=1).records
        return records.decode(found[0]).store_ms if found else 0

    def units(self, topic: str, queue_id: int, offset: int, *, count_max: int) -> list[Unit]:
        """What a queue's consume queue says of its messages from an offset on."""
        start, end = self.offset_range(topic, queue_id)
        offset = max(offset, start)
        found: list[Unit] = []
        while offset < end and len(found) < count_max:
            result = self._store.read(topic, queue_id, offset, count_max=32)
            if result.next_offset <= offset:
                break
            found += [Unit(each.position, each.size_bytes) for each in records_of(result)]
            offset = result.next_offset
        return found[:count_max]

    def first_stored_ms(self) -> int | None:
        """When the oldest message that is still there was stored."""
        try:
            return self._store.record_at(self._store.stats()["commit_log"]["start"]).store_ms
        except NotFound:
            return None

    # Looking up

    def by_key(  # noqa: PLR0913 - the limits of a search
        self,
        topic: str,
        key: str,
        *,
        begin_ms: int = 0,
        end_ms: int = 1 << 62,
        count_max: int = 64,
        size_bytes_max: int = 1 << 62,
    ) -> list[Record]:
        """Visible messages of a topic with this key or unique id, the newest first.

        Args:
            size_bytes_max: of all records; one alone may be larger.
        """
        return self._store.query(
            topic,
            key,
            begin_ms=begin_ms,
            end_ms=end_ms,
            count_max=count_max,
            size_bytes_max=size_bytes_max,
        )

    def by_position(self, position: int) -> Record:
        """The message of an offset id; that of a delayed one points into the delay log.

        Raises:
            NotFound: no message stands there.
        """
        if not position & DELAY_LOG_MARK:
            return self._store.record_at(position)
        options = self._store.options
        name = message_id(pack_host(options.host, options.port), position)
        for found in self._store.find_delayed(name):
            if found.record.position == position & ~DELAY_LOG_MARK:
                return replace(found.record, position=position)
        raise NotFound(f"position {position}: expected a message, found none", position=position)


def records_of(result: ReadResult) -> Iterator[Record]:
    """The messages that were read, decoded; a view is good only while its segment exists."""
    return map(records.decode, result.records)


def _needs_look(pull: Pull) -> bool:
    """Do the properties of each message have to be asked?"""
    return pull.wanted.needs_properties or (pull.is_exact and pull.wanted.matches is not None)


def _chosen(wanted: Filter, result: ReadResult, work: int) -> tuple[ReadResult, int]:
    """What a condition leaves of what was read, as far as there is time to look."""
    matches = wanted.matches
    assert matches is not None
    chosen: list[memoryview] = []
    next_offset = result.next_offset
    for view in result.records:
        record = records.decode(view)
        if work >= WORK_MAX:
            next_offset = record.queue_offset
            break
        work += wanted.word_count + len(record.properties) // _PIECE_SIZE
        if matches(decode_properties(record.properties)):
            chosen.append(view)
    status = ReadStatus.FOUND if chosen else ReadStatus.NO_MATCH
    return result._replace(status=status, chunks=chosen, next_offset=next_offset), work
