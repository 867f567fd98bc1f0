"""What a store has promised so far: a dictionary of messages, and doubts about one operation.

The model knows nothing of logs, runs or checkpoints. While an operation runs, its outcome is in
doubt; its answer removes the doubt. After a crash, `settle` looks at the store, checks that every
promise holds and that the interrupted operation happened as a whole or not at all, and takes over
which of the two it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.crash.observing import Observed, Queue, Seen, observe

from dueline.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message as its producer knows it; `due_ms` is None for an ordinary one."""

    uid: str
    topic: str
    queue_id: int
    body: bytes
    due_ms: int | None
    number: int  # in order of acceptance


@dataclass(slots=True)
class Model:
    """Promises by unique id."""

    retention_ms: int
    messages: dict[str, Sent] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    seen: dict[Queue, dict[int, Seen]] = field(default_factory=dict)
    retained_ms: int = 0  # the latest time at which old messages may have been deleted
    latest_ms: int = 0  # the latest time that the store's clock has shown
    in_order: bool = True  # delayed messages were carried over in time
    paused: set[str] = field(default_factory=set)  # topics
    rates: dict[str, tuple[int, int]] = field(default_factory=dict)  # topic: rate, since when
    carried_ms: dict[str, int] = field(default_factory=dict)  # topic: latest due time carried over
    before_others: set[str] = field(default_factory=set)  # due before such as were carried earlier
    # Doubts about the operation under way
    ruling: dict[str, tuple[bool, int | None]] = field(default_factory=dict)
    new: list[Sent] = field(default_factory=list)
    is_group: bool = False
    cancelling: set[str] = field(default_factory=set)
    moving: dict[str, Sent] = field(default_factory=dict)
    delivering: set[str] = field(default_factory=set)
    dropping: set[str] = field(default_factory=set)
    # What held at the last checkpoint
    safe_messages: dict[str, Sent] = field(default_factory=dict)
    safe_cancelled: set[str] = field(default_factory=set)
    safe_seen: dict[Queue, dict[int, Seen]] = field(default_factory=dict)
    _count: int = 0

    def number(self) -> int:
        self._count += 1
        return self._count

    # The operation under way

    def putting(self, messages: Iterable[Sent], *, is_group: bool = False) -> None:
        self.new, self.is_group = list(messages), is_group

    def answered(self) -> None:
        """The operation under way has happened."""
        for message in [*self.new, *self.moving.values()]:
            self.messages[message.uid] = message
        self.cancelled |= self.cancelling | self.dropping
        for topic, (is_paused, rate) in self.ruling.items():
            self._take_rule(topic, is_paused=is_paused, rate=rate)
        self._forget_doubts()

    def _take_rule(self, topic: str, *, is_paused: bool, rate: int | None) -> None:
        self.carried_ms.pop(topic, None)  # what stands at the gate has gone back
        self.paused -= {topic}
        self.paused |= {topic} if is_paused else set()
        if rate is None:
            self.rates.pop(topic, None)
        elif topic not in self.rates or self.rates[topic][0] != rate:
            self.rates[topic] = rate, self.latest_ms

    def carrying(self, uids: Iterable[str]) -> None:
        """These are being delivered, in due order."""
        self.delivering = set(uids)
        for message in sorted(
            map(self.messages.__getitem__, uids), key=lambda each: each.due_ms or 0
        ):
            due_ms, latest_ms = message.due_ms or 0, self.carried_ms.get(message.topic, 0)
            if due_ms < latest_ms:
                self.before_others.add(message.uid)
            self.carried_ms[message.topic] = max(due_ms, latest_ms)

    def refused(self, store: Store) -> None:
        """The operation under way was refused: nothing of it has happened."""
        self._settle_rules(store)
        found = observe(store, self.uids())
        visible = found.visible_counts()
        for message in self.new:
            assert not self._is_there(message, found, visible), f"{message.uid}: refused, yet there"
        waiting = self.cancelling | self.dropping | set(self.moving) | self.delivering
        assert {uid for uid in waiting if not found.is_waiting(uid)} == set()
        self._forget_doubts()
        self._check_all(found)

    def _forget_doubts(self) -> None:
        self.new = []
        self.is_group = False
        self.cancelling = set()
        self.moving = {}
        self.delivering = set()
        self.dropping = set()
        self.ruling = {}

    def uids(self) -> list[str]:
        return [*self.messages, *(message.uid for message in self.new)]

    def checkpointed(self) -> None:
        """From now on this much survives a power cut even if the store is not sync."""
        self.safe_messages = dict(self.messages)
        self.safe_cancelled = set(self.cancelled)
        self.safe_seen = {queue: dict(known) for queue, known in self.seen.items()}

    # Consuming

    def consume(self, store: Store) -> None:
        """Read everything visible, as a consumer does, and compare with what was read before."""
        self.latest_ms = max(self.latest_ms, store.clock.now_ms())
        self._check_queues(observe(store, self.uids()))

    def _check_queues(self, found: Observed) -> None:
        for queue, records in found.visible.items():
            known = self.seen.setdefault(queue, {})
            start = found.starts[queue]
            by_offset = {record.offset: record for record in records}
            for offset, record in known.items():
                if offset >= start:
                    assert by_offset.get(offset) == record, f"{queue}: offset {offset} changed"
                else:
                    assert self.may_be_gone(record), f"{queue}: {record} deleted too early"
            if queue[0] in self.paused and queue[0] not in self.ruling:
                for offset in by_offset.keys() - known.keys():
                    message = self.messages.get(by_offset[offset].uid)
                    assert message is None or message.due_ms is None, f"{queue}: paused, and shown"
            known.update(by_offset)
        self._check_rates()
        for queue, known in self.seen.items():
            assert not known or queue in found.visible, f"{queue}: gone"

    def _check_rates(self) -> None:
        """No more in any second than the rate says; order comes first for those that are due before
        others that have their slots."""
        for topic, (rate, since_ms) in self.rates.items():
            times = sorted(
                record.store_ms
                for queue, known in self.seen.items()
                for record in known.values()
                if queue[0] == topic and record.store_ms > since_ms
                if record.uid not in self.before_others
            )
            for first_ms, last_ms in zip(times, times[rate:], strict=False):
                assert last_ms - first_ms >= 1_000, f"{topic}: {times}"

    def may_be_gone(self, record: Seen) -> bool:
        return record.store_ms <= self.retained_ms - self.retention_ms

    # After a crash

    def settle(self, store: Store) -> None:
        """Check every promise against a store that was just opened, and end all doubts."""
        self.latest_ms = max(self.latest_ms, store.clock.now_ms())
        found = observe(store, self.uids())
        self._settle_rules(store)
        self._check_queues(found)
        self._settle_new(found)
        self._settle_changes(found)
        self._check_delivery_is_whole(found)
        self._forget_doubts()
        self._check_all(found)

    def _settle_rules(self, store: Store) -> None:
        """A rule that was being set holds, or the one before."""
        rules = store.numbers.rules
        for topic in {*self.paused, *self.rates, *self.ruling}:
            found = rules.get(topic)
            now = (False, None) if found is None else (found.is_paused, found.rate)
            before = (topic in self.paused, self.rates.get(topic, (None, 0))[0])
            assert now in (before, self.ruling.get(topic)), f"{topic}: another rule"
            if topic in self.ruling:
                self._take_rule(topic, is_paused=now[0], rate=now[1])

    def _settle_new(self, found: Observed) -> None:
        visible = found.visible_counts()
        there = [message for message in self.new if self._is_there(message, found, visible)]
        if self.is_group:
            assert len(there) in (0, len(self.new)), f"a part of a group: {there}"
        for message in there:
            self.messages[message.uid] = message

    def _is_there(self, message: Sent, found: Observed, visible: dict[str, int]) -> bool:
        return bool(visible.get(message.uid)) or found.is_waiting(message.uid)

    def _settle_changes(self, found: Observed) -> None:
        for uid in self.cancelling | self.dropping:
            if not found.is_waiting(uid) and uid not in self._seen_uids():
                self.cancelled.add(uid)
        if uids := self.cancelling:
            assert len(uids & self.cancelled) in (0, len(uids)), "a part of a cancel"
        moved = [uid for uid, message in self.moving.items() if _due(found, uid) == message.due_ms]
        assert len(moved) in (0, len(self.moving)), f"a part of a reschedule: {moved}"
        for uid in moved:
            self.messages[uid] = self.moving[uid]

    def _check_delivery_is_whole(self, found: Observed) -> None:
        pending = {uid for uid in self.delivering | self.dropping if uid in found.pending}
        assert pending in (set(), self.delivering | self.dropping), "a part of a delivery"
        if not pending and self.dropping:
            assert self.dropping <= self.cancelled

    # Every promise

    def _check_all(self, found: Observed) -> None:
        visible = found.visible_counts()
        assert set(visible) <= set(self.messages), set(visible) - set(self.messages)
        assert set(found.pending) <= set(self.messages), set(found.pending) - set(self.messages)
        assert max(visible.values(), default=1) == 1, f"twice: {visible.most_common(3)}"
        assert not self.cancelled & set(visible), "cancelled and yet delivered"
        for uid, message in self.messages.items():
            if uid in self.cancelled:
                assert not found.is_waiting(uid), f"{uid}: cancelled and yet waiting"
            else:
                self._check_one(message, found, visible)
        for queue, records in found.visible.items():
            self._check_order(queue, records)

    def _check_one(self, message: Sent, found: Observed, visible: dict[str, int]) -> None:
        uid = message.uid
        places = [
            bool(visible.get(uid)),
            *[True for _ in found.pending.get(uid, [])],
            uid in found.at_gate,
        ]
        if sum(places) == 0:
            gone = [record for known in self.seen.values() for record in known.values()]
            assert any(record.uid == uid and self.may_be_gone(record) for record in gone), (
                f"{uid}: lost"
            )
            return
        assert sum(places) == 1, f"{uid}: visible, pending, at the gate: {places}"
        if uid in found.pending:
            expected = (message.due_ms, message.topic, message.queue_id)
            assert found.pending[uid] == [expected]
        elif uid in found.at_gate:
            assert found.at_gate[uid] == message.due_ms

    def _check_order(self, queue: Queue, records: list[Seen]) -> None:
        times = [record.store_ms for record in records]
        assert times == sorted(times), f"{queue}: store times go back"
        delayed, ordinary = [], []
        for record in records:
            message = self.messages[record.uid]
            assert (message.topic, message.queue_id, message.body) == (*queue, record.body)
            if message.due_ms is None:
                ordinary.append(message.number)
            else:
                assert message.due_ms <= self.latest_ms, f"{record.uid}: early"
                delayed.append((message.due_ms, message.number))
        assert ordinary == sorted(ordinary), f"{queue}: ordinary messages out of order"
        if self.in_order:
            assert delayed == sorted(delayed), f"{queue}: delayed messages out of order"

    def _seen_uids(self) -> set[str]:
        return {record.uid for known in self.seen.values() for record in known.values()}

    def check_all_delivered(self, store: Store) -> None:
        """At the end of time: everything is visible once, or cancelled, or deleted for its age."""
        found = observe(store, self.uids())
        assert found.pending == {}
        assert found.at_gate == {}
        self._check_queues(found)
        self._check_all(found)

    def moved(self, uid: str, due_ms: int) -> Sent:
        return replace(self.messages[uid], due_ms=due_ms, number=self.number())


def _due(found: Observed, uid: str) -> int | None:
    """The due time under which a waiting message is found."""
    if uid in found.pending:
        return found.pending[uid][0][0]
    return found.at_gate.get(uid)
