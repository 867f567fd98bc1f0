"""Waiting for what other processes do."""

import time
from collections.abc import Callable

DEADLINE_S = 120.0


def wait_until(condition: Callable[[], bool], what: str, *, deadline_s: float = DEADLINE_S) -> None:
    """Return when the condition holds; fail if it does not within the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, f"waited {deadline_s} s in vain: {what}"
        time.sleep(0.05)
