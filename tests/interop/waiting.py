"""Waiting for a condition with a deadline: the only way these tests let time pass."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T | None], *, what: str, seconds_max: float = 60.0) -> T:
    """What `condition` returns once it is true; asks again every few milliseconds.

    Raises:
        TimeoutError: it never was; `what` says what was waited for.
    """
    deadline = time.monotonic() + seconds_max
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= deadline:
            raise TimeoutError(f"{what}: not within {seconds_max:g} seconds")
        time.sleep(0.02)


def free_ports(count: int, *, apart: int = 0) -> list[int]:
    """Free loopback ports; with `apart`, for each also the one that many below it.

    A RocketMQ broker listens on its port and on the one two below, whether asked to or not.
    """
    ports: list[int] = []
    held = []
    try:
        while len(ports) < count:
            one = _bound(0)
            held.append(one)
            port = one.getsockname()[1]
            if apart:
                try:
                    held.append(_bound(port - apart))
                except OSError:
                    continue
            ports.append(port)
    finally:
        for one in held:
            one.close()
    return ports


def _bound(port: int) -> socket.socket:
    one = socket.socket()
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        one.close()
        raise
    return one
