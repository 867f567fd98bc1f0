"""Connections that a server accepts by itself, and that nobody asked us about: Flight's.

Its library is written in C++, takes whatever comes, and has no bound. So this looks at the
process's open files a few times a second, tells `Connections` how many belong to such ports, and
when they are more than their part ends those that have been silent for longest, of the peer with
the most. Ending is a shutdown of the socket: its owner reads an end, and closes it.

It must work when no file is left, so it opens none then. A socket is looked at by its number: one
that is closed at that moment, and its number used again, may be taken for another. That costs a
stranger a connection that it can make again.
"""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import Final

from dueline.server.connections import Connections, peer_of
from dueline.server.threads import OnFailure, Worker

__all__ = ["Accepted"]

LOOK_EVERY_S: Final = 0.25
_PAUSE_RATIO: Final = 20
"""To look takes longer with many files: never more than a twentieth of the time."""
_FILES: Final = "/dev/fd"
_FAMILIES: Final = (socket.AF_INET, socket.AF_INET6)
_TCP_INFO_SIZE: Final = 56
_LAST_DATA_RECEIVED: Final = struct.Struct("=52xI")
"""Of Linux's `tcp_info`: milliseconds since the last bytes came."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A connection at one look."""

    number: int
    peer: str
    silent_ms: int


class Accepted(Worker):
    """Looks after some ports; `start` it once, `stop` it once."""

    def __init__(
        self,
        connections: Connections,
        ports: Callable[[], Collection[int]],
        *,
        on_failure: OnFailure = lambda error: None,
    ) -> None:
        """Prepare.

        Args:
            ports: those that accept by themselves, when they are known.
        """
        super().__init__("accepted", on_failure=on_failure)
        self._connections = connections
        self._ports = ports
        self.ended_count = 0

    def _run(self) -> None:
        pause_s = LOOK_EVERY_S
        while not self._stopping.wait(pause_s):
            start_s = monotonic()
            self.look()
            pause_s = max(LOOK_EVERY_S, _PAUSE_RATIO * (monotonic() - start_s))

    def look(self) -> None:
        """Count, and end those that are too many."""
        ports = frozenset(self._ports())
        seen = [found for number in _open_files() if (found := _look_at(number, ports))]
        self._connections.note_other(len(seen))
        for each in _surplus(seen, self._connections.file_count_max // 2):
            self.ended_count += 1
            with contextlib.suppress(OSError), _borrowed(each.number) as sock:
                sock.shutdown(socket.SHUT_RDWR)


def _open_files() -> Iterable[int]:
    try:
        return [int(name) for name in os.listdir(_FILES)]  # noqa: PTH208 - numbers, not paths
    except OSError:  # none is left to look with: then all of them are open
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


@contextlib.contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """Somebody else's socket, which stays open."""
    sock = socket.socket(fileno=number)
    try:
        yield sock
    finally:
        sock.detach()


def _look_at(number: int, ports: frozenset[int]) -> _Seen | None:
    """The connection behind a number, if it is one of these ports."""
    try:
        with _borrowed(number) as sock:
            if sock.family not in _FAMILIES or sock.getsockname()[1] not in ports:
                return None
            peer = peer_of(str(sock.getpeername()[0]))
            return _Seen(number=number, peer=peer, silent_ms=_silent_ms(sock))
    except OSError:  # a file, a listener, or closed meanwhile
        return None


def _silent_ms(sock: socket.socket) -> int:
    """How long nothing has come; 0 where the system does not say."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None:
        return 0
    data = sock.getsockopt(socket.IPPROTO_TCP, option, _TCP_INFO_SIZE)
    return int(_LAST_DATA_RECEIVED.unpack(data)[0]) if len(data) == _TCP_INFO_SIZE else 0


def _surplus(seen: list[_Seen], count_max: int) -> list[_Seen]:
    """Those beyond the bound: longest silent first, always of the peer with the most."""
    counts = Counter(each.peer for each in seen)
    chosen = []
    by_peer: dict[str, list[_Seen]] = {}
    for each in sorted(seen, key=lambda each: each.silent_ms):
        by_peer.setdefault(each.peer, []).append(each)
    for _ in range(len(seen) - count_max):
        peer = max(counts, key=counts.__getitem__)
        counts[peer] -= 1
        chosen.append(by_peer[peer].pop())
    return chosen
