"""What topics' rules promise, as plain bookkeeping: the oracle of the test of rules and jobs.

It does not say what a store will do next, only what it may have done: after every step it is told
what consumers see, what waits, and the time. Nothing may be early, lost, twice or out of order;
nothing of a paused topic may come, no more in a second than its rate, and nothing after its expiry.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

Queue = tuple[str, int]
WAITING, SEEN, CANCELLED, EXPIRED = "waiting", "seen", "cancelled", "expired"
AHEAD_MS = 62_000
"""How far ahead a rate gives messages their times, at most; with an expiry they may be given up."""


@dataclass(slots=True, kw_only=True)
class Sent:
    """A message; `due_ms` is None for an ordinary one."""

    uid: str
    queue: Queue
    due_ms: int | None
    state: str = WAITING
    is_carried: bool = False
    is_before_others: bool = False  # carried over after others of its topic that are due later


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What holds for a topic, and since when there is this rate."""

    is_paused: bool = False
    rate: int | None = None
    expiry_ms: int | None = None
    rate_since_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What may excuse what happened in a step."""

    ordinary: Queue | None = None  # an ordinary message was sent there
    is_reopened: bool = False


class RoadModel:
    """Messages by unique id, rules by topic."""

    def __init__(self, order_wait_ms: int) -> None:
        self._order_wait_ms = order_wait_ms
        self.messages: dict[str, Sent] = {}
        self.rules: dict[str, Rule] = defaultdict(Rule)
        self.seen: dict[Queue, list[tuple[str, int]]] = defaultdict(list)
        self._carried_ms: dict[str, int] = {}

    def put(self, uid: str, queue: Queue, due_ms: int | None) -> None:
        self.messages[uid] = Sent(uid=uid, queue=queue, due_ms=due_ms)

    def waiting(self) -> list[Sent]:
        return [
            sent
            for sent in self.messages.values()
            if sent.state == WAITING and sent.due_ms is not None
        ]

    def count(self, state: str) -> int:
        return sum(sent.state == state for sent in self.messages.values())

    def carried(self, uids: Iterable[str]) -> None:
        """These are on their way to the commit log, in due order: who passes others?"""
        for uid in uids:
            sent = self.messages[uid]
            if sent.state == WAITING and sent.due_ms is not None:
                sent.is_carried = True
                latest_ms = self._carried_ms.get(sent.queue[0], 0)
                sent.is_before_others |= sent.due_ms < latest_ms
                self._carried_ms[sent.queue[0]] = max(latest_ms, sent.due_ms)

    def change(self, topic: str, now_ms: int, **fields: object) -> None:
        rule = replace(self.rules[topic], **fields)  # type: ignore[arg-type]
        if rule.rate != self.rules[topic].rate:
            rule = replace(rule, rate_since_ms=now_ms)
        self.rules[topic] = rule

    # What consumers see

    def see(self, queue: Queue, found: list[tuple[str, int]], now_ms: int, step: Step) -> None:
        """All that a queue holds, as (unique id, store time)."""
        seen = self.seen[queue]
        assert found[: len(seen)] == seen, f"{queue}: what was seen has changed"
        for uid, store_ms in found[len(seen) :]:
            sent = self.messages[uid]
            assert sent.queue == queue, f"{uid}: in {queue}"
            assert sent.state == WAITING, f"{uid}: {sent.state}, and seen now"
            assert store_ms <= now_ms
            assert not seen or store_ms >= seen[-1][1], f"{queue}: store times go back"
            if sent.due_ms is not None:
                self._check_delayed(sent, sent.due_ms, store_ms, now_ms, step)
            sent.state = SEEN
            seen.append((uid, store_ms))

    def _check_delayed(
        self, sent: Sent, due_ms: int, store_ms: int, now_ms: int, step: Step
    ) -> None:
        rule = self.rules[sent.queue[0]]
        assert now_ms >= due_ms, f"{sent.uid}: early"
        assert not rule.is_paused, f"{sent.uid}: its topic is paused"
        if step.ordinary == sent.queue:
            return  # it goes before the ordinary one, whatever it would have waited for
        if step.is_reopened and store_ms <= self._shown_ms():
            return  # a consumer may have seen it before the end, so it keeps its place
        if rule.expiry_ms is not None:
            assert now_ms <= due_ms + rule.expiry_ms, f"{sent.uid}: expired, and seen"
        if step.is_reopened:
            return  # who was held back is not known any more
        for other in self.waiting():
            if other.queue == sent.queue and other.due_ms is not None:
                is_late = other.due_ms <= now_ms - self._order_wait_ms
                assert is_late or other.due_ms >= due_ms, f"{sent.uid} before {other.uid}"

    def _shown_ms(self) -> int:
        return max((shown[-1][1] for shown in self.seen.values() if shown), default=0)

    def check_rates(self) -> None:
        for topic, rule in self.rules.items():
            if rule.rate is None:
                continue
            times = sorted(
                store_ms
                for queue, seen in self.seen.items()
                for uid, store_ms in seen
                if queue[0] == topic and store_ms > rule.rate_since_ms
                if self._is_counted(self.messages[uid])
            )
            for first_ms, last_ms in zip(times, times[rule.rate :], strict=False):
                assert last_ms - first_ms >= 1_000, f"{topic}: {times} at a rate of {rule.rate}"

    def _is_counted(self, sent: Sent) -> bool:
        return sent.due_ms is not None and not sent.is_before_others

    # What waits

    def latest(self, now_ms: int) -> dict[str, int]:
        """By when each must have come if everything is carried over in time from now on.

        One after the other as the rate says; what was cancelled in its slot leaves a gap.
        """
        found = {}
        for topic, rule in self.rules.items():
            own = sorted(
                (sent.due_ms or 0, sent.uid) for sent in self.waiting() if sent.queue[0] == topic
            )
            gap_ms = 0 if rule.rate is None else 1_000 / rule.rate
            free_ms = now_ms + gap_ms * sum(
                sent.is_carried and sent.state != SEEN and sent.queue[0] == topic
                for sent in self.messages.values()
            )
            for due_ms, group in groupby(own, key=lambda each: each[0]):
                uids = [uid for _, uid in group]  # of one due time: any of them may be the last
                free_ms = max(free_ms, due_ms) + gap_ms * len(uids)
                found.update(dict.fromkeys(uids, int(free_ms) + self._order_wait_ms + 3_000))
        return found

    def settle(
        self, pending: Mapping[str, list[int]], at_gate: Mapping[str, list[int]], now_ms: int
    ) -> int:
        """Compare with what waits: due times by unique id. Returns how many have expired."""
        counts = Counter({uid: len(dues) for uid, dues in pending.items()})
        counts.update({uid: len(dues) for uid, dues in at_gate.items()})
        expired_count = 0
        for sent in self.waiting():
            uid, due_ms = sent.uid, sent.due_ms
            assert due_ms is not None
            count = counts.pop(uid, 0)
            assert count <= 1, f"{uid}: waits {count} times"
            if not count:
                assert self._may_be_expired(sent, due_ms, now_ms), f"{uid}: lost"
                sent.state = EXPIRED
                expired_count += 1
            elif uid in pending:
                assert pending[uid] == [due_ms], f"{uid}: due at another time"
            else:  # after a restart the gate knows when it is to be visible
                assert at_gate[uid][0] >= due_ms
        assert not counts, f"ended, and waiting: {counts}"
        return expired_count

    def _may_be_expired(self, sent: Sent, due_ms: int, now_ms: int) -> bool:
        rule = self.rules[sent.queue[0]]
        if rule.expiry_ms is None:
            return False
        ahead_ms = 0 if rule.rate is None else AHEAD_MS
        return now_ms + ahead_ms > due_ms + rule.expiry_ms
