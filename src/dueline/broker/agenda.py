"""What is to be asked when: undecided messages by the time of their next question.

A heap of times, in which an entry counts only while it is the newest of its message; the others are
dropped when their time comes. So adding, putting off and removing take logarithmic time, however
many messages wait, and one message has at most one entry that is not over yet. Not for concurrent
use: the owner has a lock.
"""

from __future__ import annotations

import heapq

__all__ = ["Agenda"]


class Agenda:
    """Numbers of messages and when each is due.

    >>> agenda = Agenda()
    >>> agenda.put(7, 100)
    >>> agenda.put(7, 200)
    >>> agenda.put(8, 150)
    >>> agenda.due(199, 10), agenda.due(200, 10)
    ([8], [8, 7])
    """

    def __init__(self) -> None:
        self._times: dict[int, int] = {}
        self._heap: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._times)

    def put(self, number: int, at_ms: int) -> None:
        """A message is due at this time, and not when it was before."""
        self._times[number] = at_ms
        heapq.heappush(self._heap, (at_ms, number))
        if len(self._heap) > 2 * len(self._times) + 64:
            self._heap = sorted((at_ms, number) for number, at_ms in self._times.items())

    def remove(self, number: int) -> None:
        """A message is not to be asked for any more."""
        self._times.pop(number, None)

    def due(self, now_ms: int, count_max: int) -> list[int]:
        """What is due by now, earliest first; it stays due until it is put off or removed."""
        found: list[tuple[int, int]] = []
        while self._heap and self._heap[0][0] <= now_ms and len(found) < count_max:
            entry = heapq.heappop(self._heap)
            if self._times.get(entry[1]) == entry[0] and entry not in found[-1:]:
                found.append(entry)  # one that came back to a time of before is there twice
        for entry in found:
            heapq.heappush(self._heap, entry)
        return [number for _, number in found]
