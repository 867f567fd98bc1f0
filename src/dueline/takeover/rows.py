"""What becomes of each record of a RocketMQ log: taken over, and how, or left behind, and why.

    waiting     of a level, at or after the level's progress; of the 5.x timer, not yet delivered
    visible     of an ordinary topic, not read by every group yet
    half        of a transaction whose outcome is not known
    anything    else is left, for a reason that is counted

The answer is the same each time for the same source, choice and facts. Facts are what only later
records tell (`Facts`): that a message was delivered although the progress file, written every ten
seconds, does not say so; that a timer message was recalled or entered again; how a transaction
ended. Without facts every message that may be waiting is.

A level's due time is the one in the consume queue, by the table that the broker had; what is not
entered there is due at store time + level.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dueline.admission import OUTCOME_TOPIC, SELF_TEST_TOPIC, UNDECIDED_TOPIC, is_target
from dueline.broker.names import is_system_group
from dueline.message import (
    HALF_TOPIC,
    LEVEL_TOPIC,
    PROPERTIES_SIZE_MAX,
    QUEUE_ID_MAX,
    SYS_COMMIT,
    SYS_TRANSACTION_MASK,
    TIMER_TOPIC,
)
from dueline.schedule import DelayLevels
from dueline.store import properties
from dueline.store.kernels import Int64s
from dueline.store.record import MAGIC
from dueline.store.record_columns import RecordColumns
from dueline.store.rocketmq import UNKNOWN_LEVEL_DELAY_MS
from dueline.takeover.source import Source, SourceBatch, TimerProgress

__all__ = ["TAKEN", "Choice", "Classifier", "Facts", "Kind", "Rows", "identities"]

TIMER_PRECISION_MS: Final = 1_000
_DUE_SIZE: Final = 40  # what the due time adds to a message's properties, at most
_DUE_MS_MAX: Final = 1 << 44
_INTERNAL_TOPICS: Final = frozenset(
    {OUTCOME_TOPIC, "OFFSET_MOVED_EVENT", SELF_TEST_TOPIC, "RMQ_SYS_TRACE_TOPIC"}
)
_INTERNAL_PREFIX: Final = "rmq_sys_"
_CONTROL: Final = "DUELINE_SYS_CONTROL"


class Kind(enum.IntEnum):
    """What becomes of a record."""

    WAITING = 0
    VISIBLE = 1
    HALF = 2
    READ = 3
    NOT_ASKED = 4
    DELIVERED = 5
    RECALLED = 6
    ENTERED_AGAIN = 7
    DECIDED = 8
    INTERNAL = 9
    DELETED = 10
    REPLACED = 11
    UNINDEXED = 12
    UNKNOWN_TARGET = 13
    TOO_LARGE = 14


TAKEN: Final = frozenset({Kind.WAITING, Kind.VISIBLE, Kind.HALF})


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What the user wants.

    messages: which ordinary ones: "unread" (not read by every group), "all" or "none".
    levels: the table for delayed messages that are not in their consume queue.
    """

    messages: str = "unread"
    levels: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known after all records were seen once."""

    last_store_ms: int = 0
    copies: Mapping[bytes, int] = field(default_factory=dict)  # identity -> latest store time
    recalls: Mapping[bytes, int] = field(default_factory=dict)  # target -> position of the recall
    entries: Mapping[bytes, int] = field(default_factory=dict)  # identity -> position of the last
    outcomes: frozenset[int] = frozenset()  # queue offsets of decided half messages
    commits: frozenset[int] = frozenset()  # positions of half messages that were committed
    halves: Mapping[bytes, int] = field(default_factory=dict)  # unique id -> position of the last


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A batch with what becomes of each record; `ready_ms` is when RocketMQ would have delivered
    a waiting one at the earliest."""

    batch: SourceBatch
    columns: RecordColumns
    kinds: npt.NDArray[np.int8]
    due_ms: Int64s
    ready_ms: Int64s

    def of(self, *kinds: Kind) -> Int64s:
        """The rows of some kinds."""
        return np.flatnonzero(np.isin(self.kinds, kinds))


class Classifier:
    """Says what becomes of records, by the source's configuration and the user's choice."""

    def __init__(
        self, source: Source, choice: Choice, *, size_max: int, facts: Facts | None = None
    ) -> None:
        self._source = source
        self._choice = choice
        self._levels = DelayLevels.parse(choice.levels)
        self._size_max = size_max
        self.facts = facts
        self._progress = source.delay_offsets() or {}
        self._timer = source.timer_progress() or TimerProgress()
        self._topics = source.table("topics.json", "topicConfigTable")
        self._offsets = group_offsets(source)
        half = self._offsets.get(HALF_TOPIC, {}).get("CID_RMQ_SYS_TRANS", {})
        self.half_progress: Final = half.get(0, 0)

    def exists(self, topic: str) -> bool:
        """Does a topic exist, or was it deleted?"""
        return self._topics is None or topic in self._topics or self._source.has_queue(topic)

    def read_ends(self) -> dict[tuple[str, int], int]:
        """How far the queues of ordinary topics were read by the group that is ahead."""
        ends: dict[tuple[str, int], int] = {}
        for topic, groups in self._offsets.items():
            if is_internal(topic) or not _is_kept(topic) or not self.exists(topic):
                continue
            for group, offsets in groups.items():
                for queue_id, offset in offsets.items():
                    if 0 <= queue_id <= QUEUE_ID_MAX and not is_system_group(group):
                        name = (topic, queue_id)
                        ends[name] = max(offset, ends.get(name, 0))
        return ends

    def threshold(self, topic: str, queue_id: int) -> int:
        """Messages of a queue before this offset were read by every group that reads the topic."""
        if self._choice.messages == "all":
            return 0
        groups = self._offsets.get(topic, {}).items()
        return min(
            (at.get(queue_id, 0) for group, at in groups if not is_system_group(group)), default=0
        )

    def classify(self, batch: SourceBatch) -> Rows:
        """What becomes of each record of a batch."""
        columns = RecordColumns(batch.records)
        count = len(batch.positions)
        rows = Rows(
            batch=batch,
            columns=columns,
            kinds=np.full(count, Kind.INTERNAL, dtype=np.int8),
            due_ms=np.zeros(count, dtype=np.int64),
            ready_ms=np.zeros(count, dtype=np.int64),
        )
        topics = columns.topics.dictionary_encode()
        indices = topics.indices.to_numpy()
        order = np.argsort(indices, kind="stable")
        bounds = np.searchsorted(indices[order], np.arange(len(topics.dictionary) + 1))
        for number, name in enumerate(topics.dictionary.to_pylist()):
            chosen = order[bounds[number] : bounds[number + 1]]
            self._classify_topic(rows, name.decode("utf-8", "replace"), chosen)
        rows.kinds[columns.headers["magic"] != MAGIC] = Kind.UNKNOWN_TARGET
        taken = np.isin(rows.kinds, list(TAKEN))
        rows.kinds[taken & (batch.sizes > self._size_max)] = Kind.TOO_LARGE
        if self.facts is not None:
            self._refine(rows, self.facts)
        return rows

    def _classify_topic(self, rows: Rows, topic: str, chosen: Int64s) -> None:
        if topic == LEVEL_TOPIC:
            self._by_level(rows, chosen)
        elif topic == TIMER_TOPIC:
            self._by_timer(rows, chosen)
        elif topic == HALF_TOPIC:
            offsets = rows.columns.headers["queue_offset"][chosen]
            is_open = (offsets >= self.half_progress) & (self._choice.messages != "none")
            rows.kinds[chosen] = np.where(is_open, Kind.HALF, Kind.DECIDED)
            if self._choice.messages == "none":
                rows.kinds[chosen] = Kind.NOT_ASKED
        elif not is_internal(topic):
            self._ordinary(rows, topic, chosen)

    def _ordinary(self, rows: Rows, topic: str, chosen: Int64s) -> None:
        headers = rows.columns.headers
        if not _is_kept(topic):
            rows.kinds[chosen] = Kind.UNKNOWN_TARGET
            return
        if not self.exists(topic):
            rows.kinds[chosen] = Kind.DELETED
            return
        if self._choice.messages == "none":
            rows.kinds[chosen] = Kind.NOT_ASKED
            return
        queue_ids = headers["queue_id"][chosen].astype(np.int64)
        for queue_id in np.unique(queue_ids).tolist():
            own = chosen[queue_ids == queue_id]
            if not 0 <= queue_id <= QUEUE_ID_MAX:
                rows.kinds[own] = Kind.UNKNOWN_TARGET
                continue
            offsets = headers["queue_offset"][own].astype(np.int64)
            kinds = np.where(
                offsets < self.threshold(topic, queue_id), Kind.READ, Kind.VISIBLE
            ).astype(np.int8)
            if self._source.has_queues:
                units = self._source.units(topic, queue_id).find(offsets)
                positions = rows.batch.positions[own]
                gone = (units["size"] > 0) & (units["position"] != positions)
                gone |= (units["size"] == 0) & (positions < self._source.entered_end)
                kinds[gone | (units["size"] < 0)] = Kind.REPLACED
            transaction = headers["sys_flag"][own] & SYS_TRANSACTION_MASK
            kinds[~np.isin(transaction, (0, SYS_COMMIT))] = Kind.UNINDEXED
            rows.kinds[own] = kinds

    # Delayed messages

    def _by_level(self, rows: Rows, chosen: Int64s) -> None:
        headers = rows.columns.headers
        queue_ids = headers["queue_id"][chosen].astype(np.int64)
        for queue_id in np.unique(queue_ids).tolist():
            own = chosen[queue_ids == queue_id]
            level = queue_id + 1
            offsets = headers["queue_offset"][own].astype(np.int64)
            waits = offsets >= self._progress.get(level, 0)
            rows.kinds[own] = np.where(waits, Kind.WAITING, Kind.DELIVERED)
            known = 1 <= level <= self._levels.level_max
            delay_ms = self._levels.delay_ms(level) if known else UNKNOWN_LEVEL_DELAY_MS
            store_ms = headers["store_ms"][own].astype(np.int64)
            due_ms = store_ms + delay_ms
            if self._source.has_queues:
                units = self._source.units(LEVEL_TOPIC, queue_id).find(offsets)
                said = units["tags_code"].astype(np.int64)
                entered = (units["size"] > 0) & (units["position"] == rows.batch.positions[own])
                entered &= (said >= store_ms) & (said < _DUE_MS_MAX)
                due_ms = np.where(entered, said, due_ms)
            rows.due_ms[own] = rows.ready_ms[own] = due_ms
        self._check_targets(rows, chosen[rows.kinds[chosen] == Kind.WAITING])

    def _by_timer(self, rows: Rows, chosen: Int64s) -> None:
        texts = rows.columns.texts.take(pa.array(chosen))
        headers = rows.columns.headers
        slot_ms = _numbers(properties.values(texts, "TIMER_OUT_MS"))
        is_recall = properties.values(texts, "TIMER_DEL_UNIQKEY").is_valid().to_numpy(False)
        offsets = headers["queue_offset"][chosen].astype(np.int64)
        waits = (slot_ms >= self._timer.read_ms) | (offsets >= self._timer.queue_offset)
        kinds = np.where(waits, Kind.WAITING, Kind.DELIVERED)
        kinds[is_recall] = Kind.INTERNAL
        kinds[~is_recall & (slot_ms <= 0)] = Kind.UNKNOWN_TARGET
        rows.kinds[chosen] = kinds
        rows.ready_ms[chosen] = slot_ms
        # A slot is at most one step before what was asked for; a delay counts from the put, which
        # is not after the store time, unless the message was entered again since.
        due_ms = slot_ms + TIMER_PRECISION_MS
        store_ms = headers["store_ms"][chosen].astype(np.int64)
        for name, unit_ms in (("TIMER_DELAY_MS", 1), ("TIMER_DELAY_SEC", 1_000)):
            delay = _numbers(properties.values(texts, name))
            near = (delay > 0) & (store_ms + delay * unit_ms > slot_ms)
            due_ms = np.where(near, np.minimum(due_ms, store_ms + delay * unit_ms), due_ms)
        asked_ms = _numbers(properties.values(texts, "TIMER_DELIVER_MS"))
        near = (asked_ms > slot_ms) & (asked_ms <= due_ms)
        rows.due_ms[chosen] = np.where(near, asked_ms, due_ms)
        self._check_targets(rows, chosen[kinds == Kind.WAITING])

    def _check_targets(self, rows: Rows, chosen: Int64s) -> None:
        """A waiting message must say where it goes, and have room for when."""
        if not len(chosen):
            return
        texts = rows.columns.texts.take(pa.array(chosen))
        topics = properties.values(texts, "REAL_TOPIC").dictionary_encode()
        good = np.array([is_target(name.decode("utf-8", "replace")) for name in
                         topics.dictionary.to_pylist()] + [False])  # fmt: skip
        indices = pc.fill_null(topics.indices, len(topics.dictionary)).to_numpy()
        queue_ids = _numbers(properties.values(texts, "REAL_QID"), missing=-1)
        is_good = good[indices] & (queue_ids >= 0) & (queue_ids <= QUEUE_ID_MAX)
        rows.kinds[chosen[~is_good]] = Kind.UNKNOWN_TARGET
        long = pc.binary_length(texts).to_numpy() > PROPERTIES_SIZE_MAX - _DUE_SIZE
        rows.kinds[chosen[is_good & long]] = Kind.TOO_LARGE

    # What later records tell

    def _refine(self, rows: Rows, facts: Facts) -> None:
        self._refine_halves(rows, facts)
        chosen = rows.of(Kind.WAITING)
        chosen = chosen[rows.ready_ms[chosen] <= facts.last_store_ms]
        if len(chosen) and facts.copies:
            for row, identity in zip(chosen.tolist(), identities(rows, chosen), strict=True):
                if facts.copies.get(identity, -1) >= rows.ready_ms[row]:
                    rows.kinds[row] = Kind.DELIVERED
        if facts.recalls or facts.entries:
            self._refine_timer(rows, facts)

    def _refine_timer(self, rows: Rows, facts: Facts) -> None:
        chosen = rows.of(Kind.WAITING)
        is_timer = pc.equal(rows.columns.topics.take(pa.array(chosen)), TIMER_TOPIC.encode())
        chosen = chosen[is_timer.to_numpy(zero_copy_only=False)]
        texts = rows.columns.texts.take(pa.array(chosen))
        ids = properties.values(texts, "UNIQ_KEY").to_pylist()
        topics = properties.values(texts, "REAL_TOPIC").to_pylist()
        same = identities(rows, chosen)
        for row, unique_id, topic, identity in zip(chosen.tolist(), ids, topics, same, strict=True):
            position = int(rows.batch.positions[row])
            names = (unique_id or b"", b"%b+%b" % (topic or b"", unique_id or b""))
            if any(facts.recalls.get(name, -1) > position for name in names):
                rows.kinds[row] = Kind.RECALLED
            elif facts.entries.get(identity, -1) > position:
                rows.kinds[row] = Kind.ENTERED_AGAIN

    def _refine_halves(self, rows: Rows, facts: Facts) -> None:
        chosen = rows.of(Kind.HALF)
        if not len(chosen):
            return
        texts = rows.columns.texts.take(pa.array(chosen))
        ids = properties.values(texts, "UNIQ_KEY").to_pylist()
        offsets = rows.columns.headers["queue_offset"][chosen].tolist()
        for row, unique_id, offset in zip(chosen.tolist(), ids, offsets, strict=True):
            position = int(rows.batch.positions[row])
            latest = facts.halves.get(unique_id, position) if unique_id else position
            if offset in facts.outcomes or position in facts.commits or latest != position:
                rows.kinds[row] = Kind.DECIDED


def is_internal(topic: str) -> bool:
    """Is a topic RocketMQ's own, so that its records mean nothing elsewhere?"""
    return topic in _INTERNAL_TOPICS or topic.startswith(_INTERNAL_PREFIX) or topic == _CONTROL


def group_offsets(source: Source) -> dict[str, dict[str, dict[int, int]]]:
    """How far groups have read: topic -> group -> queue -> offset."""
    found: dict[str, dict[str, dict[int, int]]] = {}
    for name, offsets in (source.table("consumerOffset.json", "offsetTable") or {}).items():
        topic, _, group = name.partition("@")
        found.setdefault(topic, {})[group] = {
            int(queue_id): max(int(offset), 0) for queue_id, offset in offsets.items()
        }
    return found


def identities(rows: Rows, chosen: Int64s) -> list[bytes]:
    """What a delayed message and its delivered copy have in common."""
    texts = rows.columns.texts.take(pa.array(chosen))
    names = ("REAL_TOPIC", "REAL_QID", "UNIQ_KEY")
    columns = [properties.values(texts, name).to_pylist() for name in names]
    headers = rows.columns.headers[chosen]
    numbers = zip(headers["born_ms"].tolist(), headers["reconsume_times"].tolist(), strict=True)
    return [
        hashlib.blake2b(repr((*texts, *pair)).encode(), digest_size=12).digest()
        for *texts, pair in zip(*columns, numbers, strict=True)
    ]


def _is_kept(topic: str) -> bool:
    """Can stored messages of this topic be taken over? Those that were set aside too."""
    return is_target(topic) or topic == UNDECIDED_TOPIC


def _numbers(values: pa.BinaryArray, *, missing: int = 0) -> Int64s:
    """Whole numbers; `missing` where there is none."""
    texts = properties.text(values)
    good = pc.fill_null(pc.match_substring_regex(texts, "^[0-9]{1,17}$"), False)
    numbers: Int64s = pc.if_else(good, texts, pa.scalar(str(missing))).cast(pa.int64()).to_numpy()
    return numbers
