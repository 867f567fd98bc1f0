"""Whether a writer waits for more messages before it writes a group, for how long, and which groups
a sender writes itself.

Senders that were just answered send again at once, most of them, and arrive one after the other. A
writer that takes the first of them alone lets all others wait for a disk that writes one message:

    without      write 63 │ write 1 │ write 63 │ write 1 │ …      64 messages, two writes
    with         write 64 ·· write 64 ·· write 64 ·· …            ·· until they are back

So it waits until most of as many are there as were under way of late, at most for a while that
depends on how long writes take. Where writes take next to no time, and where nobody sends again
(waits that did not help), it does not wait.

A few messages that are most of what was under way need no other thread, if the disk is quick: while
they are written next to nothing else would be done, and two changes of threads cost as much as the
write. So whoever brings them writes them.

Knows no clock and no lock: the writer tells it what happened, one thread at a time.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Gathering"]

WAIT_S_MAX: Final = 0.004
WRITE_S_MIN: Final = 0.0002
"""Writes that are quicker are not waited for: the wait would cost as much."""
WRITES: Final = 1.5
"""How many writes a wait may last."""
WANTED: Final = 0.9
"""Which part of those under way is enough."""
HELPED: Final = 0.5
"""With fewer at its end a wait was in vain."""
DECAY: Final = 0.9
"""What is left of the number under way after a write that had fewer."""
SMOOTHING: Final = 1 / 8
VAIN_COUNT_MAX: Final = 6
OWN_WRITE_S_MAX: Final = 0.0005
"""Senders write themselves where writes take less: others in their thread wait for them."""
OWN_COUNT_MAX: Final = 64
"""Many messages take so long that the next ones had better be read meanwhile."""
OWN_SIZE_BYTES_MAX: Final = 64 << 10
"""So do many bytes, however few messages they are."""


class Gathering:
    """Learns from the writes of one writer when waiting helps."""

    __slots__ = ("_rest_count", "_under_way", "_vain_count", "_waits", "_write_s")

    def __init__(self, *, waits: bool = True) -> None:
        """Prepare; `waits` is False where no write waits for the disk."""
        self._waits = waits
        self._under_way = 0.0
        self._write_s = 0.0
        self._vain_count = 0
        self._rest_count = 0

    def wrote(self, under_way: int, took_s: float) -> None:
        """A group was written; under way: its messages and those that wait behind it."""
        self._under_way = max(float(under_way), self._under_way * DECAY)
        self._write_s += (took_s - self._write_s) * SMOOTHING

    def plan(self) -> tuple[int, float]:
        """How many messages to wait for, and for how long at most; 0 seconds: not at all."""
        if self._rest_count:
            self._rest_count -= 1
            return 0, 0.0
        if not self._waits or self._write_s < WRITE_S_MIN:
            return 0, 0.0
        return round(self._under_way * WANTED), min(self._write_s * WRITES, WAIT_S_MAX)

    def waited(self, count: int) -> None:
        """So many were there at the end of a wait. The oftener in vain, the longer the rest."""
        if count >= self._under_way * HELPED:
            self._vain_count = 0
        else:
            self._vain_count = min(self._vain_count + 1, VAIN_COUNT_MAX)
            self._rest_count = (1 << self._vain_count) - 1

    def leaves_to_sender(self, count: int, size_bytes: int) -> bool:
        """Had whoever brings so many messages better write them, if nobody writes?"""
        return (
            count <= OWN_COUNT_MAX
            and size_bytes <= OWN_SIZE_BYTES_MAX
            and count >= self._under_way * WANTED
            and 0 < self._write_s < OWN_WRITE_S_MAX
        )
