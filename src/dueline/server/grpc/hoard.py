"""Bytes that connections make us keep: requests that are not whole, answers that nobody takes.

Each connection may keep some; all together may keep so many that the broker stays well. When that
is spent, room is made: of the address with the most, the connection with the most is ended. So a
peer that hoards, on however many connections, hurts nobody but itself.

For one thread.
"""

from __future__ import annotations

from typing import Final, Protocol

from dueline.server.grpc.peer import Peer

__all__ = ["Hoard", "Keeper"]

SIZE_BYTES_MAX: Final = 256 << 20


class Keeper(Protocol):
    """A connection."""

    peer: Peer

    def abort(self) -> None:
        """End it now."""


class Hoard:
    """What all connections keep."""

    def __init__(self, size_bytes_max: int = SIZE_BYTES_MAX) -> None:
        self.size_bytes = 0
        self.ended_count = 0
        self._size_bytes_max: Final = size_bytes_max
        self._kept: dict[Keeper, int] = {}

    def keeps(self, keeper: Keeper, size_bytes: int) -> None:
        """A connection keeps so much now, in all; 0 when it is over."""
        self.size_bytes += size_bytes - self._kept.pop(keeper, 0)
        if size_bytes:
            self._kept[keeper] = size_bytes
        while self.size_bytes > self._size_bytes_max:
            self._end_largest()

    def _end_largest(self) -> None:
        sums: dict[str, int] = {}
        for keeper, size_bytes in self._kept.items():
            sums[keeper.peer.key] = sums.get(keeper.peer.key, 0) + size_bytes
        largest = max(sums, key=sums.__getitem__)
        keeper = max(
            (each for each in self._kept if each.peer.key == largest), key=self._kept.__getitem__
        )
        self.size_bytes -= self._kept.pop(keeper)
        self.ended_count += 1
        keeper.abort()
