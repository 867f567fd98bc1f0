"""Calls that wait until there is something: they look again and again, and cost little.

Looking costs time that grows with what is looked at, so the pauses grow with it: a call that waits
takes no more than a twentieth of a core.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Final, TypeVar

__all__ = ["Waiting"]

_PAUSE_S_MIN: Final = 0.025
_PAUSE_RATIO: Final = 20

_Found = TypeVar("_Found")


class Waiting:
    """All calls that wait; `stop` lets them go. Any thread may call."""

    def __init__(self) -> None:
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Let everyone return at once, now and from now on."""
        self._stopping.set()

    def wait_for(self, look: Callable[[], _Found | None], seconds_max: float) -> _Found | None:
        """What `look` finds; None if the time is up or the broker stops. Looks at least once."""
        end_s = monotonic() + seconds_max
        while True:
            look_s = monotonic()
            found = look()
            now_s = monotonic()
            left_s = end_s - now_s
            if found is not None or left_s <= 0:
                return found
            pause_s = min(max(_PAUSE_S_MIN, _PAUSE_RATIO * (now_s - look_s)), left_s)
            if self._stopping.wait(pause_s):
                return None
