"""So much a second, with a burst: one bucket for each of many users, addresses or topics.

A bucket holds what may be taken at once, a second's worth by default, and fills steadily. More than
it can hold may be taken from a full one, which is in debt then: a batch that is larger than the
burst is let through now and then instead of never. The rate holds all the same.

    rate 10 a second      take 10 ──▶ yes    take 1 ──▶ no    0.1 s later: take 1 ──▶ yes

Bounded: with too many buckets the one that was not used for longest goes, and its owner begins with
a full one. For one thread at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

__all__ = ["Buckets"]

BUCKET_COUNT_MAX: Final = 100_000
_ROUNDING: Final = 1e-6


class _Bucket:
    __slots__ = ("level", "seen_s")

    def __init__(self, level: float, seen_s: float) -> None:
        self.level = level
        self.seen_s = seen_s


class Buckets:
    """Buckets by name."""

    def __init__(self, *, burst_s: float = 1.0, count_max: int = BUCKET_COUNT_MAX) -> None:
        """Make none yet.

        Args:
            burst_s: for how many seconds' worth a bucket has room.
        """
        self._burst_s = burst_s
        self._count_max = count_max
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def has(self, name: Hashable, rate: float, count: float, now_s: float) -> bool:
        """Whether so much may be taken now; `take` takes it."""
        bucket = self._filled(name, rate, now_s)
        return bucket.level >= min(count, self._room(rate)) - _ROUNDING

    def take(self, name: Hashable, rate: float, count: float, now_s: float) -> None:
        """Take, whatever is there."""
        self._filled(name, rate, now_s).level -= count

    def _room(self, rate: float) -> float:
        return max(rate * self._burst_s, 1.0)

    def _filled(self, name: Hashable, rate: float, now_s: float) -> _Bucket:
        room = self._room(rate)
        bucket = self._buckets.get(name)
        if bucket is None:
            if len(self._buckets) >= self._count_max:
                self._buckets.popitem(last=False)
            bucket = self._buckets[name] = _Bucket(room, now_s)
            return bucket
        bucket.level = min(bucket.level + rate * (now_s - bucket.seen_s), room)
        bucket.seen_s = now_s
        self._buckets.move_to_end(name)
        return bucket
