"""What was sent, acknowledged and received, and whether that is a history Dueline may have.

The checker knows nothing of the store: it compares what producers were told with what consumers
saw. A send without an answer may have been accepted or not; everything else is certain.
"""

import threading
from collections import Counter
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One message as a consumer saw it."""

    name: str
    queue_id: int
    offset: int
    due_ms: int
    visible_ms: int
    came_ms: int


@dataclass(slots=True)
class History:
    """Events of one run; several threads may add to it."""

    due_ms: dict[str, int] = field(default_factory=dict)
    unanswered: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    seen: list[Seen] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def acknowledged(self, name: str, due_ms: int) -> None:
        with self.lock:
            self.due_ms[name] = due_ms

    def left_open(self, names: list[str]) -> None:
        with self.lock:
            self.unanswered |= set(names)

    def saw(self, seen: Seen) -> None:
        with self.lock:
            self.seen.append(seen)

    def missing(self) -> set[str]:
        """What was acknowledged and has not been received."""
        with self.lock:
            return set(self.due_ms) - {seen.name for seen in self.seen} - self.cancelled

    def check(self) -> None:
        """Nothing lost, early, twice, unasked for or out of order."""
        assert not self.missing(), f"lost: {sorted(self.missing())[:10]}"
        twice = [name for name, count in Counter(s.name for s in self.seen).items() if count > 1]
        assert not twice, f"twice: {twice[:10]}"
        known = set(self.due_ms) | self.unanswered
        unknown = [seen.name for seen in self.seen if seen.name not in known]
        assert not unknown, f"never sent: {unknown[:10]}"
        revived = [seen.name for seen in self.seen if seen.name in self.cancelled]
        assert not revived, f"cancelled and received: {revived[:10]}"
        early = [seen for seen in self.seen if min(seen.came_ms, seen.visible_ms) < seen.due_ms]
        assert not early, f"early: {early[:10]}"
        moved = [s for s in self.seen if s.name in self.due_ms and s.due_ms != self.due_ms[s.name]]
        assert not moved, f"another due time than was promised: {moved[:10]}"
        self._check_order()

    def _check_order(self) -> None:
        """By queue: offsets without holes, visible times that rise, due order where on time."""
        for queue_id in {seen.queue_id for seen in self.seen}:
            queue = sorted(
                (seen for seen in self.seen if seen.queue_id == queue_id), key=lambda s: s.offset
            )
            assert [seen.offset for seen in queue] == list(range(len(queue)))
            visible = [seen.visible_ms for seen in queue]
            assert visible == sorted(visible), f"queue {queue_id}: visible times go back"
            on_time = [seen.due_ms for seen in queue if seen.visible_ms == seen.due_ms]
            assert on_time == sorted(on_time), f"queue {queue_id}: not in due order"

    def late_ms(self) -> list[int]:
        return sorted(seen.visible_ms - seen.due_ms for seen in self.seen)
