"""One look at everything before anything is written: what can go wrong is known by then.

A survey walks the whole log once. It finds the facts that only later records tell (see `rows`),
where each queue begins that will be taken over, the damage, and the mark by which the same store
is recognised another time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dueline.admission import OUTCOME_TOPIC
from dueline.errors import CorruptRecord, NotFound
from dueline.message import LEVEL_TOPIC, SYS_COMMIT, SYS_TRANSACTION_MASK, TIMER_TOPIC
from dueline.store import kernels, properties
from dueline.store.kernels import Int64s
from dueline.store.scan import Damage
from dueline.takeover.rows import (
    Choice,
    Classifier,
    Facts,
    Kind,
    Rows,
    identities,
)
from dueline.takeover.source import Mark, Source

__all__ = ["QueueSpan", "Survey", "survey"]

_NEVER: Final = 1 << 62
_DAMAGE_SHOWN: Final = 5

Progress = Callable[[int], None]
"""Called with the number of bytes of the log that were read."""


@dataclass(slots=True, kw_only=True)
class QueueSpan:
    """The messages of one queue that are taken over: source offsets and how many."""

    first: int
    last: int
    count: int

    @property
    def missing_count(self) -> int:
        """How many between the first and the last are not there."""
        return self.last - self.first + 1 - self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a source holds, as far as one must know it before taking anything."""

    facts: Facts
    mark: Mark | None  # None: a log without records
    queues: dict[tuple[str, int], QueueSpan]
    damage: list[Damage]
    torn: list[Damage]
    record_count: int


def survey(  # noqa: PLR0913 - what to look at, and how strictly, keyword-only
    source: Source,
    choice: Choice,
    *,
    size_max: int,
    skip_damaged: bool = False,
    assume_pending: bool = False,
    progress: Progress = lambda size_bytes: None,
) -> Survey:
    """Look at the whole source.

    Args:
        size_max: the largest record that the new store can hold.
        skip_damaged: damage is no reason to stop.
        assume_pending: neither is it that nobody knows which delayed messages were delivered.

    Raises:
        CorruptRecord: damaged records, and where.
        NotFound: delayed messages, but no file that says which of them were delivered.
    """
    surveyor = _Surveyor(Classifier(source, choice, size_max=size_max))
    for batch in source.batches():
        surveyor.see(surveyor.classifier.classify(batch))
        progress(int(batch.positions[-1]) + int(batch.sizes[-1]) - source.start)
    damage = [one for one in source.damage if one.start < surveyor.end]
    torn = [one for one in source.damage if one.start >= surveyor.end]
    if damage and not skip_damaged:
        raise _damaged(source, damage)
    if not assume_pending:
        _check_progress(source, surveyor)
    return Survey(
        facts=surveyor.facts(),
        mark=surveyor.mark(source),
        queues=surveyor.queues,
        damage=damage,
        torn=torn,
        record_count=surveyor.record_count,
    )


def _damaged(source: Source, damage: list[Damage]) -> CorruptRecord:
    ranges = "; ".join(f"bytes {one.start} to {one.end} ({one.reason})" for one in
                       damage[:_DAMAGE_SHOWN])  # fmt: skip
    more = f" and {len(damage) - _DAMAGE_SHOWN} more" if len(damage) > _DAMAGE_SHOWN else ""
    return CorruptRecord(
        f"{source.path}: expected a sound commit log, found damage at {ranges}{more}; take the "
        "store of a replica, or leave the damaged messages behind with --skip-damaged",
        path=str(source.path),
        position=damage[0].start,
        damage=damage,
    )


def _check_progress(source: Source, surveyor: _Surveyor) -> None:
    if surveyor.level_count and source.delay_offsets() is None:
        path = source.path / "config" / "delayOffset.json"
        raise NotFound(
            f"{path}: expected the progress of the delay levels, found no such file and "
            f"{surveyor.level_count:,} messages with a level; copy config/ too, or take them all "
            "for pending with --assume-pending (those that were delivered come again)",
            path=str(path),
        )


class _Surveyor:
    """Collects over the batches of one walk."""

    def __init__(self, classifier: Classifier) -> None:
        self.classifier = classifier
        self.queues: dict[tuple[str, int], QueueSpan] = {}
        self.record_count = 0
        self.level_count = 0
        self.end = 0
        self._last = (0, 0)
        self._last_store_ms = 0
        self._ready_ms = _NEVER  # of the waiting messages so far: copies before it are of others
        self._half_position = _NEVER
        self._copies: dict[bytes, int] = {}
        self._recalls: dict[bytes, int] = {}
        self._entries: dict[bytes, int] = {}
        self._outcomes: set[int] = set()
        self._commits: set[int] = set()
        self._halves: dict[bytes, int] = {}

    def see(self, rows: Rows) -> None:
        positions, sizes = rows.batch.positions, rows.batch.sizes
        self.record_count += len(positions)
        self._last = (int(positions[-1]), int(sizes[-1]))
        self.end = sum(self._last)
        store_ms = rows.columns.headers["store_ms"].astype(np.int64)
        self._last_store_ms = max(self._last_store_ms, int(store_ms.max()))
        waiting = rows.of(Kind.WAITING)
        self._ready_ms = min(self._ready_ms, int(rows.ready_ms[waiting].min(initial=_NEVER)))
        self._see_queues(rows)
        self._see_copies(rows, store_ms)
        self._see_timer(rows)
        self._see_transactions(rows)
        levels = pc.equal(rows.columns.topics, LEVEL_TOPIC.encode())
        self.level_count += int(pc.sum(levels).as_py() or 0)

    def _see_queues(self, rows: Rows) -> None:
        chosen = rows.of(Kind.VISIBLE)
        if not len(chosen):
            return
        topics = rows.columns.topics.take(pa.array(chosen)).dictionary_encode()
        names = [name.decode("ascii") for name in topics.dictionary.to_pylist()]
        headers = rows.columns.headers[chosen]
        pairs = np.stack(
            [topics.indices.to_numpy().astype(np.int64), headers["queue_id"].astype(np.int64)], 1
        )
        distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
        offsets = headers["queue_offset"].astype(np.int64)
        for number, (topic, queue_id) in enumerate(distinct.tolist()):
            own = offsets[inverse.reshape(-1) == number]
            first, last = int(own.min()), int(own.max())
            span = self.queues.setdefault(
                (names[topic], queue_id), QueueSpan(first=first, last=last, count=0)
            )
            span.first, span.last = min(span.first, first), max(span.last, last)
            span.count += len(own)

    def _see_copies(self, rows: Rows, store_ms: Int64s) -> None:
        """A delivered copy stands behind its message and was stored when that was due, or later."""
        if self._ready_ms == _NEVER:
            return
        kinds = (Kind.VISIBLE, Kind.READ, Kind.NOT_ASKED)
        chosen = rows.of(*kinds)
        chosen = chosen[store_ms[chosen] >= self._ready_ms]
        if not len(chosen):
            return
        texts = rows.columns.texts.take(pa.array(chosen))
        real = properties.values(texts, "REAL_TOPIC").is_valid().to_numpy(False)
        chosen = chosen[real]
        for row, identity in zip(chosen.tolist(), identities(rows, chosen), strict=True):
            self._copies[identity] = max(self._copies.get(identity, 0), int(store_ms[row]))

    def _see_timer(self, rows: Rows) -> None:
        chosen = _of_topic(rows, TIMER_TOPIC)
        if not len(chosen):
            return
        texts = rows.columns.texts.take(pa.array(chosen))
        recalls = properties.values(texts, "TIMER_DEL_UNIQKEY").to_pylist()
        rolled = properties.values(texts, "TIMER_ROLL_TIMES").is_valid().to_numpy(False)
        for row, target in zip(chosen.tolist(), recalls, strict=True):
            if target is not None:
                self._recalls[target] = int(rows.batch.positions[row])
        again = chosen[rolled]
        for row, identity in zip(again.tolist(), identities(rows, again), strict=True):
            self._entries[identity] = int(rows.batch.positions[row])

    def _see_transactions(self, rows: Rows) -> None:
        halves = rows.of(Kind.HALF)
        if len(halves):
            self._half_position = min(self._half_position, int(rows.batch.positions[halves[0]]))
            texts = rows.columns.texts.take(pa.array(halves))
            ids = properties.values(texts, "UNIQ_KEY").to_pylist()
            for row, unique_id in zip(halves.tolist(), ids, strict=True):
                if unique_id is not None:
                    self._halves[unique_id] = int(rows.batch.positions[row])
        for body in _bodies(rows, _of_topic(rows, OUTCOME_TOPIC)):
            numbers = [int(text) for text in body.split(b",") if text.isdigit() and len(text) < 19]
            self._outcomes.update(
                number for number in numbers if number >= self.classifier.half_progress
            )
        headers = rows.columns.headers
        committed = headers["sys_flag"] & SYS_TRANSACTION_MASK == SYS_COMMIT
        committed &= headers["mark"] >= self._half_position
        self._commits.update(headers["mark"][committed].tolist())

    def facts(self) -> Facts:
        return Facts(
            last_store_ms=self._last_store_ms,
            copies=self._copies,
            recalls=self._recalls,
            entries=self._entries,
            outcomes=frozenset(self._outcomes),
            commits=frozenset(self._commits),
            halves=self._halves,
        )

    def mark(self, source: Source) -> Mark | None:
        if not self.record_count:
            return None
        return source.mark(*self._last, end=self.end)


def _of_topic(rows: Rows, topic: str) -> Int64s:
    same = pc.equal(rows.columns.topics, topic.encode()).to_numpy(zero_copy_only=False)
    return np.flatnonzero(same)


def _bodies(rows: Rows, chosen: Int64s) -> list[bytes]:
    if not len(chosen):
        return []
    data, offsets = kernels.buffer_of(rows.batch.records)
    headers = rows.columns.headers[chosen]
    starts = kernels.body_starts(headers, offsets[:-1][chosen])
    found: list[bytes] = kernels.slices(data, starts, headers["body_size"].astype(np.int64)
                                        ).to_pylist()  # fmt: skip
    return found
