"""What is put aside for the shortcut (`soon.py`), as a verb of the store. Any thread may call."""

from __future__ import annotations

from dueline.store.core import Core
from dueline.store.corner import CORNER_START
from dueline.store.timeline import Window

__all__ = ["Aside"]


class Aside:
    """Messages of one store that are due soon after they were accepted."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def keep(self, within_ms: int) -> None:
        """From now on put aside what is due within this time of its acceptance.

        0: nothing, and what was put aside is the pipeline's.
        """
        with self._core.lock:
            self._core.timeline.soon.keep(within_ms)

    @property
    def has_news(self) -> bool:
        """Was something accepted since the last `take` that is due soon, put aside or not?"""
        return self._core.timeline.soon.has_news

    def take(self) -> Window | None:
        """What was put aside since the last call and may be carried over; None if nothing was."""
        with self._core.lock:
            self._core.road.hold(self._core.clock.now_ms())
            timeline = self._core.timeline
            units = timeline.soon.take()
            if units is None:
                return None
            units = timeline.held.left(units)
            return Window(end=CORNER_START, units=units, topic_names=timeline.topics.names)

    def next_due_ms(self) -> int | None:
        """When the next pending message is due that is not put aside, or on its way."""
        with self._core.lock:
            self._core.road.hold(self._core.clock.now_ms())
            return self._core.timeline.next_due_ms_but_soon()
