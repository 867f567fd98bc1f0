"""Shares of something scarce, such as waiting calls: nobody can take all of it from the others.

While there is enough, everybody gets what they ask for, also many clients behind one address. When
it is spent, the peer with the most makes room for one with less: its busiest connection gives up
its oldest share. Within one peer the busiest connection makes room for the others in the same way.
One that has the most already is refused.

    total 6     a: 5   b: 1     b asks ──▶ a gives one up       (4 and 2)
                a: 3   b: 3     b asks ──▶ b is refused

All steps take the same time, however many shares there are. For one thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from dueline.errors import LimitExceeded

__all__ = ["Share", "Shares", "Tally"]

K = TypeVar("K", bound=Hashable)

GiveUp = Callable[[], None]
"""Ends what a share was taken for."""


class Tally(Generic[K]):
    """Counts by key, and which key has the most.

    >>> tally = Tally[str]()
    >>> for letter in "abracadabra":
    ...     tally.add(letter)
    >>> tally.largest(), tally.count("a"), tally.count("z")
    ('a', 5, 0)
    """

    def __init__(self) -> None:
        self._counts: dict[K, int] = {}
        self._levels: dict[int, dict[K, None]] = {}
        self._top = 0

    def count(self, key: K) -> int:
        return self._counts.get(key, 0)

    def largest(self) -> K:
        """A key with the highest count; there must be one."""
        return next(iter(self._levels[self._top]))

    def add(self, key: K) -> None:
        self._move(key, self.count(key) + 1)

    def remove(self, key: K) -> None:
        self._move(key, self.count(key) - 1)

    def _move(self, key: K, count: int) -> None:
        before = self._counts.pop(key, 0)
        if before:
            del self._levels[before][key]
        if count:
            self._counts[key] = count
            self._levels.setdefault(count, {})[key] = None
            self._top = max(self._top, count)
        if before and not self._levels[before]:
            del self._levels[before]
            if self._top == before:  # the one with the most has one less now, or nobody has any
                self._top = before - 1


@dataclass(slots=True, kw_only=True, eq=False)
class Share:
    """One share; `leave`, or the end of a `with` block, gives it back."""

    owner: Shares
    peer: str
    connection: Hashable
    give_up: GiveUp | None

    def leave(self) -> None:
        self.owner._leave(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()


@dataclass(slots=True)
class _Peer:
    connections: Tally[Hashable] = field(default_factory=Tally)
    shares: dict[Hashable, OrderedDict[Share, None]] = field(default_factory=dict)


class Shares:
    """Shares of one thing."""

    def __init__(
        self,
        what: str,
        count_max: int,
        *,
        quota: Callable[[str], int | None] = lambda peer: None,
        on_limited: Callable[[str], None] = lambda subject: None,
    ) -> None:
        """None is taken yet.

        Args:
            what: its name in a refusal, such as "waiting pulls".
            quota: the most that a peer may have, also while there is enough; None: no bound.
            on_limited: is told whom that has bound.
        """
        self._quota = quota
        self._on_limited = on_limited
        self.count_max: Final = count_max
        self.count = 0
        self.refused_count = 0
        self.given_up_count = 0
        self._what = what
        self._tally = Tally[str]()
        self._peers: dict[str, _Peer] = {}

    def take(self, peer: str, connection: Hashable, give_up: GiveUp | None = None) -> Share:
        """Take a share for a connection of a peer.

        Args:
            give_up: ends it when somebody else needs it more; None: nothing can end it.

        Raises:
            LimitExceeded: there is none, and nobody has more than this one; or it has its quota.
        """
        self._check_quota(peer)
        if self.count >= self.count_max:
            self._make_room(peer, connection)
        share = Share(owner=self, peer=peer, connection=connection, give_up=give_up)
        found = self._peers.setdefault(peer, _Peer())
        found.connections.add(connection)
        found.shares.setdefault(connection, OrderedDict())[share] = None
        self._tally.add(peer)
        self.count += 1
        return share

    def _leave(self, share: Share) -> None:
        found = self._peers.get(share.peer)
        shares = found.shares.get(share.connection) if found is not None else None
        if found is None or shares is None or share not in shares:
            return
        del shares[share]
        found.connections.remove(share.connection)
        if not shares:
            del found.shares[share.connection]
        if not found.shares:
            del self._peers[share.peer]
        self._tally.remove(share.peer)
        self.count -= 1

    def _check_quota(self, peer: str) -> None:
        quota = self._quota(peer)
        if quota is not None and self._tally.count(peer) >= quota:
            self.refused_count += 1
            self._on_limited(f"address {peer}")
            raise LimitExceeded(
                f"{self._what} of {peer}: expected at most {quota} (quotas.rules), found more",
                limit=quota,
            )

    def _make_room(self, peer: str, connection: Hashable) -> None:
        share = self._dispensable(peer, connection)
        if share is None or share.give_up is None:
            self.refused_count += 1
            raise LimitExceeded(
                f"{self._what}: expected at most {self.count_max} of all clients together, found "
                "as many, and nobody has more than this one; come again later",
                limit=self.count_max,
                found=self.count + 1,
            )
        self.given_up_count += 1
        share.leave()
        share.give_up()

    def _dispensable(self, peer: str, connection: Hashable) -> Share | None:
        """The oldest share of one that will still have as many as the newcomer."""
        largest = self._tally.largest()
        if self._tally.count(peer) + 1 >= self._tally.count(largest):
            largest = peer
        found = self._peers.get(largest)
        if found is None:
            return None
        busiest = found.connections.largest()
        if largest == peer and (
            found.connections.count(connection) + 1 >= found.connections.count(busiest)
        ):
            return None
        return next(iter(found.shares[busiest]))
