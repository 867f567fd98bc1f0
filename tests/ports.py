"""Loopback ports for servers that a test starts.

A port that was free a moment ago may be gone when the server binds it: the system hands out the
same ephemeral ports to every outgoing connection, and test processes run side by side. So ports
come from below the ephemeral range, and each test process walks through a stripe of its own.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from itertools import cycle

__all__ = ["free_port", "free_ports"]

_START = 12_000
_END = 32_000
_STRIPE_COUNT = 8


def free_port() -> int:
    """A free loopback port."""
    return free_ports(1)[0]


def free_ports(count: int, *, apart: int = 0) -> list[int]:
    """Free loopback ports; with `apart`, for each also the one that many below it.

    A RocketMQ broker listens on its port and on the one two below, whether asked to or not.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = next(_candidates)
        if all(_is_free(one) for one in {port, port - apart}):
            ports.append(port)
    return ports


def _stripe() -> Iterator[int]:
    """This process's ports for ever, each fifth; runs beside this one start elsewhere in it."""
    worker = re.sub(r"\D", "", os.environ.get("PYTEST_XDIST_WORKER", "")) or "0"
    width = (_END - _START) // _STRIPE_COUNT
    start = _START + int(worker) % _STRIPE_COUNT * width
    numbers = range(start + 5, start + width, 5)
    first = os.getpid() * 7 % len(numbers)
    return cycle([*numbers[first:], *numbers[:first]])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


_candidates = _stripe()
