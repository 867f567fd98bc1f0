"""Waiting for a condition with a deadline: the only way these tests let time pass."""

from __future__ import annotations

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
