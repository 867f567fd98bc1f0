"""The one place that verbs and doors ask before they accept work: does it fit into the quotas?

    admit            sends, bytes, and delayed messages that wait; also counts them
    admit_topics     topics that a send would create
    connection_count_max, poll_count_max    what an address may have at a time

What is over a quota raises `LimitExceeded`, which each protocol turns into its own "slow down", and
nothing of the request is done or counted. Time is the machine's monotonic clock, not the broker's:
that one stands still while the wall clock is behind, and quotas must not.

Messages that wait are counted by the store now and then (`note_pending`) and here in between: the
count is a few seconds behind at most. Any thread may call.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from time import monotonic
from typing import Final

from dueline.broker.access.values import Caller
from dueline.broker.quotas.buckets import Buckets
from dueline.broker.quotas.rules import Allowance, Rules
from dueline.errors import LimitExceeded

__all__ = ["Quotas"]

TOPICS_PERIOD_S: Final = 3_600.0
LIMITED_COUNT_MAX: Final = 1_000
"""Users, addresses and topics that are remembered as limited."""

_NO_RULES: Final = Rules(users={}, addresses={}, networks=(), topics={})

_Demand = tuple[Buckets, Hashable, float, float, str]
"""From which bucket, how fast it fills, how much is taken, and the bound in words."""


class Quotas:
    """The quotas of a broker, and who was limited by them."""

    def __init__(
        self, rules: Rules = _NO_RULES, *, clock_s: Callable[[], float] = monotonic
    ) -> None:
        self.rules: Final = rules
        self.is_on: Final = not rules.is_empty
        self.counts_pending: Final = any(each.pending for each in rules.topics.values())
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._sends = Buckets()
        self._bytes = Buckets()
        self._topics = Buckets(burst_s=TOPICS_PERIOD_S)
        self._pending: dict[str, int] = {}
        self._limited: OrderedDict[str, int] = OrderedDict()
        self.limited_count = 0

    # Sends

    def admit(
        self, caller: Caller, topics: Mapping[str, int], *, size_bytes: int, delayed_count: int = 0
    ) -> None:
        """Let messages in, and count them.

        Args:
            topics: how many messages for each.
            delayed_count: how many of them are delayed, if they are of one topic.

        Raises:
            LimitExceeded: names the quota and what to do; nothing was counted.
        """
        if not self.is_on:
            return
        with self._lock:
            now_s = self._clock_s()
            total = sum(topics.values())
            demands = [
                *self._demands(
                    "user", caller.user, self.rules.of_user(caller.user), total, size_bytes
                ),
                *self._demands(
                    "address",
                    caller.address,
                    self.rules.of_address(caller.address),
                    total,
                    size_bytes,
                ),
            ]
            for name, count in topics.items():
                share = size_bytes * count // max(total, 1)
                demands += self._demands("topic", name, self.rules.of_topic(name), count, share)
                self._check_pending(name, delayed_count if len(topics) == 1 else count)
            self._take(demands, now_s)
            if self.counts_pending:
                for name, count in topics.items():
                    self._count_pending(name, delayed_count if len(topics) == 1 else count)

    def admit_topics(self, caller: Caller, names: Iterable[str]) -> None:
        """Let topics be created.

        Raises:
            LimitExceeded: too many within an hour; nothing was counted.
        """
        if not self.is_on:
            return
        count = sum(1 for _ in names)
        subjects = (
            ("user", caller.user, self.rules.of_user(caller.user)),
            ("address", caller.address, self.rules.of_address(caller.address)),
        )
        with self._lock:
            demands: list[_Demand] = [
                (
                    self._topics,
                    (kind, name),
                    allowance.topics / TOPICS_PERIOD_S,
                    count,
                    f"{kind} {name}: expected at most {allowance.topics} new topics an hour",
                )
                for kind, name, allowance in subjects
                if allowance.topics is not None
            ]
            self._take(demands, self._clock_s())

    def _demands(
        self, kind: str, name: str | None, allowance: Allowance, count: int, size_bytes: int
    ) -> Iterable[_Demand]:
        if allowance.sends is not None:
            words = f"{kind} {name}: expected at most {allowance.sends} messages a second"
            yield self._sends, (kind, name), allowance.sends, count, words
        if allowance.bytes is not None:
            words = f"{kind} {name}: expected at most {allowance.bytes} bytes a second"
            yield self._bytes, (kind, name), allowance.bytes, size_bytes, words

    def _take(self, demands: list[_Demand], now_s: float) -> None:
        """All or nothing."""
        for buckets, name, rate, count, words in demands:
            if count and not buckets.has(name, rate, count, now_s):
                raise self._exceeded(words)
        for buckets, name, rate, count, _ in demands:
            buckets.take(name, rate, count, now_s)

    # What waits

    def note_pending(self, counts: Mapping[str, int]) -> None:
        """So many delayed messages wait, by topic."""
        with self._lock:
            self._pending = dict(counts)

    def _check_pending(self, topic: str, count: int) -> None:
        limit = self.rules.of_topic(topic).pending
        if count and limit is not None and self._pending.get(topic, 0) + count > limit:
            raise self._exceeded(
                f"topic {topic}: expected at most {limit} delayed messages that wait"
            )

    def _count_pending(self, topic: str, count: int) -> None:
        if self.rules.of_topic(topic).pending is not None:
            self._pending[topic] = self._pending.get(topic, 0) + count

    # At a time

    def connection_count_max(self, address: str) -> int | None:
        """How many connections an address may have; None: no bound of its own."""
        return self.rules.of_address(address).connections if self.is_on else None

    def poll_count_max(self, address: str) -> int | None:
        """How many of its requests may wait for messages."""
        return self.rules.of_address(address).polls if self.is_on else None

    # Who was limited

    def limited(self) -> dict[str, int]:
        """How often each was, the latest last; of very many the latest."""
        with self._lock:
            return dict(self._limited)

    def note_limited(self, subject: str) -> None:
        """Somebody was refused elsewhere, by a bound from here."""
        with self._lock:
            self._note(subject)

    def _exceeded(self, words: str) -> LimitExceeded:
        self._note(words.partition(": expected")[0])
        return LimitExceeded(f"{words}, found more; send again later, and less at a time")

    def _note(self, subject: str) -> None:
        self.limited_count += 1
        self._limited[subject] = self._limited.pop(subject, 0) + 1
        if len(self._limited) > LIMITED_COUNT_MAX:
            self._limited.popitem(last=False)
