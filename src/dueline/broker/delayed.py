"""Delayed messages that were accepted, and tables of new ones: put, find, count, change one's mind.

    put_rows                 accept a table of delayed messages, all of them or none
    cancel, reschedule       by key, unique id or offset id; an answer for each name
    recall                   take back the one message that a recall handle names
    find, pending, levels    what waits, and what was done with it

Every verb of the first three lines waits for the disk, so an event loop calls it elsewhere. Any
thread may call. What becomes of a single message that is sent is the matter of
`dueline.broker.sending`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dueline.broker.acceptance import Acceptance
from dueline.broker.access.values import ANONYMOUS, Caller
from dueline.broker.quotas import Quotas
from dueline.broker.topics import Topics
from dueline.errors import InvalidRequest, NotFound
from dueline.message import LEVEL_TOPIC
from dueline.recall_handle import RecallHandle
from dueline.store import Answer, Changed, Name, PendingMessage, PutManyResult, Store
from dueline.store import record as records

__all__ = ["Delayed", "LevelProgress", "PendingMessage", "PendingSummary"]

LEVEL_LOOK_COUNT_MAX: Final = 10_000
LEVEL_MS_MAX: Final = 400 * 86_400_000
BUCKET_MS_MIN: Final = 60_000
"""A number for each millisecond would take more memory than the messages themselves."""


MayChange = Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSummary:
    """Delayed messages that nobody can see yet; buckets by the start of their due time."""

    count: int
    next_due_ms: int | None
    by_topic: dict[str, int]
    by_bucket_ms: dict[int, int]


class LevelProgress(NamedTuple):
    """How far a delay level is: its first message that is pending, and how many were accepted."""

    first: int
    end: int


class Delayed:
    """The delayed messages of one store."""

    def __init__(
        self,
        store: Store,
        acceptance: Acceptance | None = None,
        topics: Topics | None = None,
        *,
        broker_name: str = "",
        quotas: Quotas | None = None,
    ) -> None:
        """Without `topics`, rows may go to any topic and make none."""
        self._store = store
        self._acceptance = acceptance or Acceptance()
        self._topics = topics
        self._broker_name = broker_name
        self._quotas = quotas or Quotas()

    def put_rows(
        self,
        table: pa.Table,
        caller: Caller = ANONYMOUS,
        check: Callable[[Iterable[str]], None] = lambda topics: None,
    ) -> PutManyResult:
        """Accept rows of a bulk job (see `dueline.store.bulk`); new topics are made.

        Args:
            caller: whose quotas count.
            check: raises if one of these topics may not be written to.

        Raises:
            InvalidRequest, LimitExceeded, NotFound: names the first bad row or topic; nothing was
                changed.
            Unavailable: the broker is stopping.
        """
        self._acceptance.check()
        if self._quotas.is_on:
            self._check_quotas(table, caller)

        def admit(last_queue_ids: Mapping[str, int]) -> None:
            """Let rows in whose topics may be written to; those that are new are made."""
            check(last_queue_ids)
            if self._topics is not None:
                self._topics.check_rows(last_queue_ids)
                self._topics.make(last_queue_ids)

        return self._store.put_many(table, admit=admit)

    def _check_quotas(self, table: pa.Table, caller: Caller) -> None:
        counts = {
            str(each["values"].as_py()): each["counts"].as_py()
            for each in pc.value_counts(table.column("topic").combine_chunks())
        }
        if self._topics is not None:
            new = [name for name in counts if self._topics.get(name) is None]
            self._quotas.admit_topics(caller, new)
        self._quotas.admit(caller, counts, size_bytes=table.nbytes, delayed_count=table.num_rows)

    def cancel(self, keys: Sequence[str], may: MayChange | None = None) -> list[Changed]:
        """Cancel by key, unique id or offset id; an answer for each.

        Args:
            may: says for which topics; messages of others are left alone, as if unknown.
        """
        self._acceptance.check()
        return self._store.cancel_named([Name(key, may=may) for key in keys])

    def reschedule(
        self, moves: Sequence[tuple[str, int]], may: MayChange | None = None
    ) -> list[Changed]:
        """Move (key or id, due time) pairs; an answer for each. `may` as for `cancel`."""
        self._acceptance.check()
        names = [(Name(key, may=may), due_ms) for key, due_ms in moves]
        return self._store.reschedule_named(names)

    def recall(
        self,
        text: str,
        *,
        topic: str | None,
        admit: Callable[[str], None] = lambda topic: None,
    ) -> str:
        """Take back the message of a recall handle; returns its unique id.

        Args:
            topic: what the caller takes for its topic; None: it does not say.
            admit: raises if nothing of the message's topic may be taken back.

        Raises:
            InvalidRequest: no handle of this topic and broker, or the message was delivered.
            NotFound: no such topic or message.
        """
        self._acceptance.check()
        handle = RecallHandle.decode(text)
        handle.check(topic=topic or handle.topic, broker_name=self._broker_name)
        admit(handle.topic)
        answer = self._store.recall(handle.topic, handle.unique_id)
        if answer is Answer.CANCELLED:
            return handle.unique_id
        if answer is Answer.DELIVERED:
            raise InvalidRequest(
                f"recall: message {handle.unique_id[:200]} was delivered already; it is too late",
                what="delivered message",
            )
        if self._topics is not None:
            self._topics.find(handle.topic)
        raise NotFound(
            f"recall: no such message was accepted here: {handle.unique_id[:200]}",
            what="delayed message",
        )

    def find(self, key: str) -> list[PendingMessage]:
        """Delayed messages by key or id, the newest first, also those that are done."""
        return self._store.find_delayed(key)

    def pending(self, *, bucket_ms: int, topic: str | None = None) -> PendingSummary:
        """How many messages wait, by topic and by due time, also those at the gate.

        Raises:
            InvalidRequest: buckets that are too small.
        """
        if bucket_ms < BUCKET_MS_MIN:
            raise InvalidRequest(f"bucket: expected at least {BUCKET_MS_MIN} ms, found {bucket_ms}")
        survey = self._store.survey()
        names, wanted = survey.topic_names, None
        if topic is not None:
            wanted = survey.wanted(topic)
        totals = np.zeros(len(names), dtype=np.int64)
        by_bucket_ms: dict[int, int] = {}
        next_due_ms: int | None = None
        for dues in survey.dues(topics=wanted):
            first_ms = int(dues.due_ms[0])
            next_due_ms = first_ms if next_due_ms is None else min(first_ms, next_due_ms)
            totals += np.bincount(dues.topic, minlength=len(names))
            starts, counts = np.unique(dues.due_ms // bucket_ms, return_counts=True)
            for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
                by_bucket_ms[start * bucket_ms] = by_bucket_ms.get(start * bucket_ms, 0) + count
        by_topic = {
            name: count for name, count in zip(names, totals.tolist(), strict=True) if count
        }
        return PendingSummary(
            count=sum(by_topic.values()),
            next_due_ms=next_due_ms,
            by_topic=by_topic,
            by_bucket_ms=dict(sorted(by_bucket_ms.items())),
        )

    def levels(self) -> dict[int, LevelProgress]:
        """By delay level, how far it is.

        Looks at no more than `LEVEL_LOOK_COUNT_MAX` of the next messages that are due; a level that
        has none among them is shown as done.
        """
        store = self._store
        ends = {
            int(name.rpartition("/")[2]) + 1: end
            for name, end in store.stats()["delay_offsets"].items()
            if name.startswith(f"{LEVEL_TOPIC}/")
        }
        first: dict[int, int] = {}
        if ends:
            until_ms = store.clock.now_ms() + LEVEL_MS_MAX
            corner = store.next_corner(until_ms=until_ms, row_count_max=LEVEL_LOOK_COUNT_MAX)
            for data in store.read_window(store.window(corner)).column("record").to_pylist():
                record = records.decode(data)
                if record.topic == LEVEL_TOPIC.encode():
                    level = record.queue_id + 1
                    first[level] = min(record.queue_offset, first.get(level, record.queue_offset))
        return {
            level: LevelProgress(first.get(level, end), end) for level, end in sorted(ends.items())
        }
