"""Whether the broker takes anything new: it does until it begins to stop."""

from __future__ import annotations

from dueline.errors import Unavailable

__all__ = ["Acceptance"]


class Acceptance:
    """Open from the start, and ended once. Any thread may ask."""

    __slots__ = ("is_open",)

    def __init__(self) -> None:
        self.is_open = True

    def end(self) -> None:
        """Take nothing more; what was accepted is still written and answered."""
        self.is_open = False

    def check(self) -> None:
        """Raises Unavailable once the broker is stopping."""
        if not self.is_open:
            raise Unavailable("the broker is stopping; send again when it is back")
