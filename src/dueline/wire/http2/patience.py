"""How much a peer may ask for that costs it nothing: pings, settings, resets, empty frames.

Each such frame is answered or obeyed, so a peer that sends nothing else keeps us busy for free.
Clients send a few in a minute, or some hundred at once when a program ends and its calls are
cancelled. Who spends what there is before it is renewed is told to calm down, and goes.
"""

from __future__ import annotations

from typing import Final

from dueline.wire.http2.faults import ErrorCode, Fault

__all__ = ["Patience"]

PATIENCE_MAX: Final = 10_000
"""Until it is renewed. A frame costs 1, a reset 4, settings 20: as much as they make us do."""


class Patience:
    """The patience with one connection."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = PATIENCE_MAX

    def spend(self, cost: int = 1) -> None:
        """The peer asks for something.

        Raises:
            Fault: too often.
        """
        self._left -= cost
        if self._left < 0:
            raise Fault(
                ErrorCode.ENHANCE_YOUR_CALM,
                "frames: expected calls, found too many pings, settings, resets or empty frames",
            )

    def renew(self) -> None:
        """Some seconds are over."""
        self._left = PATIENCE_MAX
