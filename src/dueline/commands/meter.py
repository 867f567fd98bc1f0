"""How far long work is: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Final

from dueline.commands.terminal import clear_status, show_status

__all__ = ["Meter"]

_TICK_S: Final = 0.2


class Meter:
    """A line on a terminal that says how far it is."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._next = 0.0
        self._is_open = False

    def __call__(self, what: str, done: int, total: int) -> None:
        now = monotonic()
        if not self._is_shown or now < self._next:
            return
        self._next = now + _TICK_S
        share = f", {100 * done // total} %" if total else ""
        line = f"{what}: {done / (1 << 30):.1f} of {total / (1 << 30):.1f} GiB{share}"
        show_status(line, sys.stderr)
        self._is_open = True

    def clear(self) -> None:
        if self._is_open:
            clear_status(sys.stderr)
            self._is_open = False
