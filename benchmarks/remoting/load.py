"""A load generator that costs little: on a small machine it shares the cores with the broker.

Requests are bytes that were made before the clock starts. A connection is a socket with so many
requests in flight; each answer that comes is a request that goes. Answers are not decoded: they
are counted by their length prefixes, and one byte pattern tells how many of them say "success".

    one in flight       about 10 µs of this process for a message, most of it system calls
    many in flight      about 1 µs
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

__all__ = ["Driven", "drive"]

_LENGTH: Final = Struct(">I")
_SUCCESS: Final = b'"code":0,'
_HEAD_BYTES: Final = 512
"""More than the answer to a send has, and where that to a pull says what it is."""
_READ_BYTES: Final = 1 << 20
_ANSWER_S_MAX: Final = 30.0

_buffer: Final = bytearray(_READ_BYTES)
"""What one peer has received; all of them use it in turn."""
_room: Final = memoryview(_buffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven:
    """What came back within the time."""

    answer_count: int
    refused_count: int
    seconds: float
    cpu_s: float
    """Processor time of the generator itself."""


class _Peer:
    """One connection and its requests in flight."""

    __slots__ = ("_ends", "_ring", "_ring_count", "_sent", "answered", "refused", "rest", "socket")

    def __init__(self, address: str, frames: Sequence[bytes], first: int) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), _ANSWER_S_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Twice, so that any run of frames is one slice.
        self._ring = memoryview(b"".join(frames) * 2)
        self._ring_count = len(frames)
        self._ends = [0]
        for frame in [*frames, *frames]:
            self._ends.append(self._ends[-1] + len(frame))
        self._sent = first % len(frames)
        self.answered = 0
        self.refused = 0
        self.rest = b""

    def send(self, count: int) -> None:
        start = self._sent
        self.socket.sendall(self._ring[self._ends[start] : self._ends[start + count]])
        self._sent = (start + count) % self._ring_count

    def receive(self) -> int:
        """Read what is there; returns how many answers are complete."""
        buffer = _buffer
        held = len(self.rest)
        buffer[:held] = self.rest
        size = self.socket.recv_into(_room[held:])
        if not size:
            raise ConnectionError("the broker closed the connection")
        size += held
        at = count = 0
        while at + 4 <= size:
            end = at + 4 + _LENGTH.unpack_from(buffer, at)[0]
            if end > size:
                break
            at = end
            count += 1
        self.rest = bytes(_room[at:size]) if at < size else b""
        self.answered += count
        # The code stands before the body: of a single answer nothing else is looked through.
        self.refused += count - buffer.count(_SUCCESS, 0, min(at, _HEAD_BYTES * count))
        return count


def drive(
    address: str,
    frames: Sequence[bytes],
    *,
    connections: int,
    in_flight: int,
    seconds: float,
) -> Driven:
    """Keep a broker busy for a time, then let it answer what is left, which is not counted."""
    assert in_flight <= len(frames)
    peers: dict[int, _Peer] = {}
    poll = select.epoll()
    try:
        for number in range(connections):
            peer = _Peer(address, frames, number * len(frames) // connections)
            peers[peer.socket.fileno()] = peer
            poll.register(peer.socket, select.EPOLLIN)
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        for peer in peers.values():
            peer.send(in_flight)
        end_s = _run(poll, peers, start_s + seconds)
        driven = Driven(
            answer_count=sum(peer.answered for peer in peers.values()),
            refused_count=sum(peer.refused for peer in peers.values()),
            seconds=end_s - start_s,
            cpu_s=time.process_time() - start_cpu_s,
        )
        _drain(poll, peers, in_flight * connections)
        return driven
    finally:
        poll.close()
        for peer in peers.values():
            peer.socket.close()


def _run(poll: select.epoll, peers: dict[int, _Peer], until_s: float) -> float:
    """Answer by request until the time is over; returns when that was."""
    while (now_s := time.perf_counter()) < until_s:
        events = poll.poll(_ANSWER_S_MAX)
        if not events:
            raise TimeoutError(f"no answer within {_ANSWER_S_MAX:g} seconds")
        for descriptor, _ in events:
            peer = peers[descriptor]
            count = peer.receive()
            if count:
                peer.send(count)
    return now_s


def _drain(poll: select.epoll, peers: dict[int, _Peer], left: int) -> None:
    while left > 0 and (events := poll.poll(_ANSWER_S_MAX)):
        for descriptor, _ in events:
            left -= peers[descriptor].receive()
