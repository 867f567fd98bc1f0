"""What a running broker must do now and then; `dueline.server.caretaker` says when."""

from __future__ import annotations

import logging
from typing import Final

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.quotas import Quotas
from dueline.broker.waiting.forecast import Forecast
from dueline.clock import standstill
from dueline.store import Store

__all__ = ["Housekeeping"]

_CHANGES: Final = ("commit_log", "delay_log", "accepted_delayed", "pending", "at_gate")

log = logging.getLogger(__name__)


class Housekeeping:
    """The chores of one store and its groups' offsets; one thread calls."""

    def __init__(
        self,
        store: Store,
        offsets: ConsumerOffsets,
        quotas: Quotas | None = None,
        forecast: Forecast | None = None,
    ) -> None:
        self._store = store
        self._quotas = quotas
        self._offsets = offsets
        self._forecast = forecast
        self._checkpointed = self._mark()

    def look_at_disk(self) -> None:
        """Notice a disk that is full, or has room again."""
        self._store.look_at_disk()

    def maintain(self) -> None:
        """Write a checkpoint, if the store says that enough has come together."""
        self._store.maintain()

    def keep_rules(self) -> None:
        """Let expire what is too late by its topic's rule; measure who carries how much."""
        self._store.numbers.sweep()
        if self._forecast is not None:
            self._forecast.sample()

    def save_offsets(self) -> None:
        """Make the groups' offsets durable, if they changed."""
        self._offsets.save()

    def count_pending(self) -> None:
        """Count what waits, if a quota is on that."""
        if self._quotas is not None and self._quotas.counts_pending:
            self._quotas.note_pending(self._store.survey().pending_by_topic())

    def checkpoint(self) -> None:
        """Write a checkpoint, if anything was written or became visible since the last one."""
        mark = self._mark()
        if mark != self._checkpointed:
            self._store.checkpoint()
            self._checkpointed = mark

    def retain(self) -> None:
        """Delete what is older than its retention, and compact what is sparse."""
        retained = self._store.retain()
        if retained.commit_segments or retained.delay_segments or retained.compacted_segments:
            log.info("retention: %s", retained)

    def look_at_clock(self) -> None:
        """Warn if the wall clock was set far back."""
        warning = standstill(self._store.clock)
        if warning is not None:
            log.warning("%s", warning)

    def _mark(self) -> tuple[str, ...]:
        stats = self._store.stats()
        return tuple(str(stats[name]) for name in _CHANGES)
