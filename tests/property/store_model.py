"""A delayed-message store as a dictionary, a heap and lists: the oracle of the model test.

It knows nothing of files, runs, corners or gates. What is due and was carried over is visible, if
nothing of its queue that is due earlier is still pending and late by less than the bound; the order
of a queue is (store time, order of arrival in the commit log).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

PENDING, CARRIED, VISIBLE, CANCELLED, DROPPED = "pending", "carried", "visible", "cancelled", "gone"
EXPIRED = "expired"

Queue = tuple[str, int]


@dataclass(kw_only=True)
class Delayed:
    """One acceptance of a delayed message; a reschedule makes another one."""

    seq: int
    due_ms: int
    queue: Queue
    unique_id: str
    keys: list[str]
    body: bytes
    state: str = PENDING
    ids: list[str] = field(default_factory=list)
    done_ms: int = 0
    gate_due_ms: int = 0  # its due time, as far as the store knows it when it stands at the gate

    @property
    def key(self) -> tuple[int, int]:
        return self.due_ms, self.seq


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a consumer sees."""

    body: bytes
    store_ms: int
    seq: int | None


class Model:
    """The promised behaviour."""

    def __init__(self, order_wait_ms: int) -> None:
        self._order_wait_ms = order_wait_ms
        self.messages: list[Delayed] = []
        self.accepted_ms = 0
        self.queues: dict[Queue, list[Shown]] = defaultdict(list)
        self._carried: dict[Queue, list[tuple[int, int, int]]] = defaultdict(list)
        self._order = 0
        self._ordinary_ms: dict[str, int] = {}
        self._latest_ms = 0

    # Time

    def show_until(self, now_ms: int) -> None:
        """Whatever was carried over and is due becomes visible."""
        self._latest_ms = max(self._latest_ms, now_ms)
        for queue, rows in self._carried.items():
            for message in self._waiting(queue, now_ms):
                if self._is_overtaking(message, now_ms):
                    break
                self._show(queue, rows)

    def _waiting(self, queue: Queue, now_ms: int) -> list[Delayed]:
        """Who was carried over to a queue and is due by now, in the order of the log."""
        rows = [row for row in sorted(self._carried[queue]) if self._is_carried(row)]
        self._carried[queue][:] = rows
        return [self.messages[seq] for stamp_ms, _, seq in rows if stamp_ms <= now_ms]

    def _is_carried(self, row: tuple[int, int, int]) -> bool:
        return self.messages[row[2]].state == CARRIED

    def _is_overtaking(self, message: Delayed, now_ms: int) -> bool:
        return any(
            now_ms - self._order_wait_ms < other.due_ms < message.gate_due_ms
            for other in self.messages
            if other.state == PENDING and other.queue == message.queue
        )

    def _show(self, queue: Queue, rows: list[tuple[int, int, int]]) -> None:
        store_ms, _, seq = rows.pop(0)
        self.end(self.messages[seq], VISIBLE)
        self.queues[queue].append(Shown(body=self.messages[seq].body, store_ms=store_ms, seq=seq))

    def show_all(self, queue: Queue, now_ms: int) -> None:
        """Nobody in this queue waits for anybody."""
        for _ in self._waiting(queue, now_ms):
            self._show(queue, self._carried[queue])

    def stopped(self, ends: dict[Queue, int]) -> None:
        """The store was stopped, perhaps killed, and has so many in its queues now.

        It does not know any more who was held back. What it shows must still come in order.
        """
        for queue, end in ends.items():
            while len(self.queues[queue]) < end:
                self._waiting(queue, 0)
                self._show(queue, self._carried[queue])
        for rows in self._carried.values():
            for stamp_ms, _, seq in rows:
                self.messages[seq].gate_due_ms = stamp_ms

    @property
    def carried_count(self) -> int:
        return len(self._carried_times())

    @property
    def carried_next_ms(self) -> int | None:
        return min(self._carried_times(), default=None)

    def _carried_times(self) -> list[int]:
        return [row[0] for rows in self._carried.values() for row in rows if self._is_carried(row)]

    def end(self, message: Delayed, state: str) -> None:
        """This became of it, now."""
        message.state = state
        message.done_ms = self._latest_ms

    # Putting

    def put_ordinary(self, queue: Queue, keys: list[str], body: bytes, now_ms: int) -> int:
        """Returns the queue offset."""
        self._ordinary_ms.update(dict.fromkeys(keys, now_ms))
        self.show_all(queue, now_ms)
        self.queues[queue].append(Shown(body=body, store_ms=now_ms, seq=None))
        return len(self.queues[queue]) - 1

    def put_delayed(  # noqa: PLR0913 - the fields of a message
        self,
        *,
        due_ms: int,
        queue: Queue,
        unique_id: str,
        keys: list[str],
        body: bytes,
        offset_id: str | None,
    ) -> int:
        """Returns the acceptance number."""
        seq = len(self.messages)
        self.messages.append(
            Delayed(
                seq=seq,
                due_ms=due_ms,
                queue=queue,
                unique_id=unique_id,
                keys=keys,
                body=body,
                ids=[] if offset_id is None else [offset_id],
            )
        )
        return seq

    # Delivering

    def pending(self) -> list[Delayed]:
        """In due order."""
        return sorted(
            (message for message in self.messages if message.state == PENDING),
            key=lambda message: message.key,
        )

    def deliver(
        self, seqs: Iterable[int], dropped: Iterable[int], now_ms: int, emptied: set[Queue]
    ) -> tuple[int, int, int]:
        """Returns how many were delivered, skipped and dropped.

        Args:
            emptied: queues whose records were all deleted, so that nobody knows their last time.
        """
        seqs = list(seqs)
        rows = {seq: self.messages[seq] for seq in seqs}
        fresh = sorted(
            (message for message in rows.values() if message.state == PENDING),
            key=lambda message: message.key,
        )
        stamps = self._stamps(fresh, now_ms, emptied)
        for message, stamp_ms in zip(fresh, stamps, strict=True):
            message.state = CARRIED
            message.gate_due_ms = message.due_ms
            self._order += 1
            self._carried[message.queue].append((stamp_ms, self._order, message.seq))
        gone = [seq for seq in set(dropped) if self.messages[seq].state == PENDING]
        for seq in gone:
            self.end(self.messages[seq], DROPPED)
        self.show_until(now_ms)
        return len(fresh), len(seqs) - len(fresh), len(gone)

    def _stamps(self, fresh: list[Delayed], now_ms: int, emptied: set[Queue]) -> list[int]:
        """The store time of each: when it is due, or now. Where others of its queue are late or
        wait, when it was due, or when those were that are waited for; not before what was shown.
        """
        first_ms = now_ms - self._order_wait_ms
        at_least: dict[Queue, int] = {}
        for queue in {message.queue for message in fresh}:
            others = [
                other
                for other in self.messages
                if other.state == PENDING and other.queue == queue and other not in fresh
            ]
            is_late = any(first_ms < other.due_ms <= now_ms for other in others)
            own = [message.due_ms for message in fresh if message.queue == queue]
            if not any(first_ms < due_ms < now_ms for due_ms in own):
                continue
            if is_late or self._waiting(queue, now_ms):
                shown = self.queues[queue][-1:]
                at_least[queue] = shown[0].store_ms if shown else 0
            if queue in emptied and queue in at_least:
                at_least[queue] = now_ms
        stamps = []
        for message in fresh:
            least_ms = max(at_least.get(message.queue, now_ms), first_ms)
            if message.queue in at_least and message.due_ms < now_ms:
                at_least[message.queue] = max(message.due_ms, least_ms)
            stamps.append(max(message.due_ms, least_ms))
        return stamps

    # Changing one's mind

    def find(self, name: str, topic: str | None = None) -> list[Delayed]:
        """Acceptances by key, unique id or offset id (which stands for the unique id).

        With a topic: those that were sent there with this unique id.
        """
        newest_first = list(reversed(self.messages))
        if topic is not None:
            return [m for m in newest_first if (m.queue[0], m.unique_id) == (topic, name)]
        for message in self.messages:
            if name in message.ids:
                return self.find(message.unique_id)
        return [m for m in newest_first if name == m.unique_id or name in m.keys]

    def changeable(self, name: str, topic: str | None = None) -> list[Delayed]:
        found = self.find(name, topic)
        return [message for message in found if message.state in (PENDING, CARRIED)]

    def answers(
        self, name: str, success: str, *, retention_ms: int, topic: str | None = None
    ) -> list[str]:
        """What cancel, recall or reschedule may say, before anything is changed.

        With several messages of that name that are done, what became of any of them. That it was
        never heard of only if all of them were done longer ago than the retention.
        """
        if self.changeable(name, topic):
            return [success]
        found = self.find(name, topic)
        said = ["cancelled" if m.state == CANCELLED else "delivered" for m in found]
        times = [message.done_ms for message in found]
        if topic is None and name in self._ordinary_ms:
            said.append("delivered")
            times.append(self._ordinary_ms[name])
        if all(done_ms <= self._latest_ms - retention_ms for done_ms in times):
            said.append("unknown")
        return said

    def cancel(self, names: Iterable[str], topic: str | None = None) -> list[int]:
        """Returns how many each name has cancelled."""
        counts = []
        for name in names:
            chosen = self.changeable(name, topic)
            for message in chosen:
                self.end(message, CANCELLED)
            counts.append(len(chosen))
        return counts

    def reschedule(self, requests: list[tuple[str, int]], now_ms: int) -> None:
        chosen: dict[int, int] = {}
        for name, due_ms in requests:
            for message in self.changeable(name):
                chosen[message.seq] = max(due_ms, now_ms)
        self.move([(self.messages[seq], due_ms) for seq, due_ms in chosen.items()], now_ms)

    def move(self, chosen: list[tuple[Delayed, int]], now_ms: int) -> None:
        """Let messages be due at other times, in this order."""
        if chosen:
            self.accepted_ms = max(self.accepted_ms, now_ms)
        for old, due_ms in chosen:
            self.end(old, CANCELLED)
            self.put_delayed(
                due_ms=due_ms,
                queue=old.queue,
                unique_id=old.unique_id,
                keys=old.keys,
                body=old.body,
                offset_id=None,
            )

    # Counting

    def by_topic(self) -> dict[str, int]:
        return dict(Counter(message.queue[0] for message in self.pending()))

    def by_bucket(self, bucket_ms: int, topic: str | None) -> dict[int, int]:
        return dict(
            Counter(
                message.due_ms - message.due_ms % bucket_ms
                for message in self.pending()
                if topic in (None, message.queue[0])
            )
        )
