"""All connections of a broker: one budget of open files for every port.

A connection is let in while there are files for it. When there are none, the one that has been
silent for longest is closed first, if it has been silent for a while: of the peer with the most
connections, since that is who made them scarce. If there is nothing to close, a peer that has less
than its share, the most that everybody could have, takes the place of one that has more; else the
newcomer is refused. So many clients behind one address are welcome as long as there is room, and
no address can keep the others out.

    budget 6      a a a a b   + b  ──▶ let in         (there is room)
                  a a a a b b + b  ──▶ an `a` goes    (4 against 2)
                  a a a b b b + b  ──▶ refused        (nobody has more than b)

Ports with servers that accept by themselves tell how many files they use (`note_other`).

Any thread may call; `close` of a connection is called in any thread too.
"""

from __future__ import annotations

import ipaddress
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final, Protocol

__all__ = ["Connections", "OpenConnection", "Place", "peer_of"]

IDLE_S_MIN: Final = 5.0
"""A connection that has been silent for so long may be closed for another one."""
CLOSED_AT_ONCE: Final = 32
"""To look for the longest silent one takes a while: then several are closed."""
BACKLOG: Final = 1_024
"""Connections that the system keeps until they are accepted."""
ACCEPTED_AT_ONCE: Final = 16
"""asyncio accepts so many (it calls that backlog, too) before the first one is asked about."""
LOOK_EVERY_S: Final = 0.05
_LOGGED_EVERY_S: Final = 10.0

log = logging.getLogger(__name__)


class OpenConnection(Protocol):
    """What a place is taken for."""

    active_s: float
    """When it last did anything, by the monotonic clock."""

    def close_soon(self) -> None:
        """Close it; any thread may call."""


@dataclass(slots=True, kw_only=True, eq=False)
class Place:
    """A connection's place; `leave` gives it back, once."""

    owner: Connections
    peer: str
    file_count: int
    connection: OpenConnection

    def leave(self) -> None:
        self.owner._leave(self)


class Connections:
    """The places of all ports."""

    def __init__(
        self,
        file_count_max: int,
        *,
        quota: Callable[[str], int | None] = lambda peer: None,
        clock_s: Callable[[], float] = monotonic,
    ) -> None:
        """Nobody is here yet.

        Args:
            quota: the most connections that a peer may have, also while there is room; None: no
                bound of its own.
        """
        self._quota = quota
        self.file_count_max: Final = file_count_max
        self.refused_count = 0
        self.closed_count = 0
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._peers: dict[str, dict[Place, None]] = {}
        self._used: dict[str, int] = {}
        self._file_count = 0
        self._other_count = 0
        self._looked_s = -LOOK_EVERY_S
        self._logged_s = -_LOGGED_EVERY_S
        self._untold_count = 0

    @property
    def file_count(self) -> int:
        """Files that connections use, those of other servers among them."""
        return self._file_count + self._other_count

    def enter(self, peer: str, connection: OpenConnection, *, file_count: int = 1) -> Place | None:
        """Take a place; None: there is none, and the connection should be closed at once."""
        quota = self._quota(peer)
        with self._lock:
            if quota is not None and len(self._peers.get(peer, ())) >= quota:
                self.refused_count += 1
                return None
            closing = self._make_room(peer, file_count)
            for each in closing:
                self._remove(each)  # its file is closed in a moment
            has_room = self.file_count + file_count <= self.file_count_max
            place = self._add(peer, connection, file_count) if has_room else None
            self.closed_count += len(closing)
            self.refused_count += place is None
            line = self._line(peer, len(closing) + (place is None))
        for each in closing:
            each.connection.close_soon()
        if line:
            log.warning("%s", line)
        return place

    def note_other(self, file_count: int) -> None:
        """So many files are used by connections that were not let in here."""
        self._other_count = file_count

    def _add(self, peer: str, connection: OpenConnection, file_count: int) -> Place:
        place = Place(owner=self, peer=peer, file_count=file_count, connection=connection)
        self._peers.setdefault(peer, {})[place] = None
        self._used[peer] = self._used.get(peer, 0) + file_count
        self._file_count += file_count
        return place

    def _leave(self, place: Place) -> None:
        with self._lock:
            self._remove(place)

    def _remove(self, place: Place) -> None:
        places = self._peers.get(place.peer, {})
        if place not in places:
            return
        del places[place]
        self._file_count -= place.file_count
        self._used[place.peer] -= place.file_count
        if not places:
            del self._peers[place.peer], self._used[place.peer]

    # When there is no room

    def _make_room(self, peer: str, file_count: int) -> list[Place]:
        """Whom to close, so that there is room again; none if there is, or if nobody should go."""
        now_s = self._clock_s()
        is_full = self.file_count + file_count > self.file_count_max
        if not is_full or not self._peers or now_s - self._looked_s < LOOK_EVERY_S:
            return []
        self._looked_s = now_s
        largest = max(self._used, key=self._used.__getitem__)
        places = sorted(self._peers[largest], key=lambda place: place.connection.active_s)
        idle = [place for place in places if now_s - place.connection.active_s >= IDLE_S_MIN]
        closing = idle[:CLOSED_AT_ONCE]
        if not closing and self._used.get(peer, 0) + file_count < self._used[largest]:
            closing = places[: -(-file_count // places[0].file_count)]
        return closing

    def _line(self, peer: str, count: int) -> str:
        """What to log: one line for many."""
        self._untold_count += count
        now_s = self._clock_s()
        if not self._untold_count or now_s - self._logged_s < _LOGGED_EVERY_S:
            return ""
        text = (
            f"too many connections: expected at most {self.file_count_max} open files for them; "
            f"refused or closed {self._untold_count}, the last one because of {peer}"
        )
        self._logged_s, self._untold_count = now_s, 0
        return text


def peer_of(address: str) -> str:
    """Who is behind an address: itself, or with IPv6 its network of a single customer.

    >>> peer_of("10.0.0.7"), peer_of("::ffff:10.0.0.7"), peer_of("2001:db8::1:2%eth0")
    ('10.0.0.7', '10.0.0.7', '2001:db8::/64')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
