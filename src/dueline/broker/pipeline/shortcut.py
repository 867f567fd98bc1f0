"""Delays that are shorter than a batch takes: carried over without the pipeline.

A message that is due in 50 ms would be late by the rest of a batch. If nobody decides anything on
the way (there is no transform), the broker copies it to the commit log itself, as it does at the
commit of a batch, as soon as it is accepted. It has its place in the delay log by then, its number
and its state: the producer has its answer, it can be cancelled and moved, and if the broker dies
in between it is the pipeline's like any other. The second finds it done.

Levels are a second at least, and what is short is less (`delivery.shortcut`): they all go through
the pipeline. So do crowds (`dueline.store.soon`).
"""

from __future__ import annotations

import logging
from typing import Final

from dueline.broker.pipeline.carry_over import pass_on
from dueline.broker.pipeline.status import PipelineStatus
from dueline.errors import InvalidRequest, Unavailable
from dueline.store import Store

__all__ = ["Shortcut"]

WITHIN_MS_MAX: Final = 999

log = logging.getLogger(__name__)


class Shortcut:
    """Carries over what the store has put aside; one thread calls it."""

    def __init__(self, store: Store, status: PipelineStatus, *, within_ms: int) -> None:
        """`within_ms`: delays up to this are short; 0: none is.

        Raises:
            InvalidRequest: a level could be as short.
        """
        if within_ms > WITHIN_MS_MAX:
            raise InvalidRequest(
                f"delivery.shortcut: expected at most {WITHIN_MS_MAX} ms, found {within_ms} ms",
                field="delivery.shortcut",
            )
        self._store = store
        self._status = status
        self._within_ms = within_ms
        self.is_open = False
        self.look()

    def look(self) -> None:
        """Follow the pipeline: no shortcut around a transform."""
        self.is_open = bool(self._within_ms) and not self._status.may_decide()
        self._store.aside.keep(self._within_ms if self.is_open else 0)

    @property
    def has_news(self) -> bool:
        """Was something accepted for it, or a crowd of such? Any thread may ask."""
        return self._store.aside.has_news

    def carry_over(self) -> int:
        """Carry over what was put aside; returns how many messages."""
        self.look()
        window = self._store.aside.take()
        if window is None or not len(window):
            return 0
        try:
            return pass_on(self._store, window).delivered_count
        except Unavailable as error:
            log.info("left to the pipeline: %d messages: %s", len(window), error)
            return 0
