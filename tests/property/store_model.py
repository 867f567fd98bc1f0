"""A delayed-message store as a dictionary, a heap and lists: the oracle of the model test.

It knows nothing of files, runs, corners or gates. What is due and was carried over is visible; the
order of a queue is (visible time, order of arrival in the commit log).
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

PENDING, CARRIED, VISIBLE, CANCELLED, DROPPED = "pending", "carried", "visible", "cancelled", "gone"

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

    def __init__(self) -> None:
        self.messages: list[Delayed] = []
        self.accepted_ms = 0
        self.queues: dict[Queue, list[Shown]] = defaultdict(list)
        self._carried: list[tuple[int, int, int]] = []
        self._order = 0
        self._ordinary_ms: dict[str, int] = {}
        self._latest_ms = 0

    # Time

    def show_until(self, now_ms: int) -> None:
        """Whatever was carried over and is due becomes visible."""
        self._latest_ms = max(self._latest_ms, now_ms)
        while self._carried and self._carried[0][0] <= now_ms:
            visible_ms, _, seq = heapq.heappop(self._carried)
            message = self.messages[seq]
            if message.state == CARRIED:
                self.end(message, VISIBLE)
                shown = Shown(body=message.body, store_ms=visible_ms, seq=seq)
                self.queues[message.queue].append(shown)

    @property
    def carried_count(self) -> int:
        return sum(self.messages[seq].state == CARRIED for _, _, seq in self._carried)

    @property
    def carried_next_ms(self) -> int | None:
        waiting = [ms for ms, _, seq in self._carried if self.messages[seq].state == CARRIED]
        return min(waiting, default=None)

    def end(self, message: Delayed, state: str) -> None:
        """This became of it, now."""
        message.state = state
        message.done_ms = self._latest_ms

    # Putting

    def put_ordinary(self, queue: Queue, keys: list[str], body: bytes, now_ms: int) -> int:
        """Returns the queue offset."""
        self._ordinary_ms.update(dict.fromkeys(keys, now_ms))
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
        self, seqs: Iterable[int], dropped: Iterable[int], now_ms: int
    ) -> tuple[int, int, int]:
        """Returns how many were delivered, skipped and dropped."""
        seqs = list(seqs)
        rows = {seq: self.messages[seq] for seq in seqs}
        fresh = sorted(
            (message for message in rows.values() if message.state == PENDING),
            key=lambda message: message.key,
        )
        for message in fresh:
            message.state = CARRIED
            self._order += 1
            entry = (max(message.due_ms, now_ms), self._order, message.seq)
            heapq.heappush(self._carried, entry)
        gone = [seq for seq in set(dropped) if self.messages[seq].state == PENDING]
        for seq in gone:
            self.end(self.messages[seq], DROPPED)
        self.show_until(now_ms)
        return len(fresh), len(seqs) - len(fresh), len(gone)

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
        if chosen:
            self.accepted_ms = max(self.accepted_ms, now_ms)
        for seq, due_ms in chosen.items():
            old = self.messages[seq]
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
