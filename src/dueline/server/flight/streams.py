"""Rows that go out: which stream a ticket names."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from dueline.broker.access import Action
from dueline.broker.backups import Backups
from dueline.broker.pipeline import (
    STORED_SCHEMA,
    WAITING_SCHEMA,
    WINDOW_SCHEMA,
    Pipeline,
    Window,
)
from dueline.broker.waiting.ledger import LEDGER_SCHEMA
from dueline.errors import InvalidRequest
from dueline.flight import protocol
from dueline.server.flight import backup_actions
from dueline.server.flight.callers import may

__all__ = ["Stream", "Streams"]

Stream = tuple[pa.Schema, Iterator[pa.RecordBatch]]


class Streams:
    """The streams of one broker."""

    def __init__(self, pipeline: Pipeline, backups: Backups | None = None) -> None:
        self._pipeline = pipeline
        self._backups = backups

    def find(self, ticket: protocol.Ticket) -> Stream:
        """The schema and the rows of a ticket.

        Raises:
            InvalidRequest: a ticket that names none.
        """
        views = self._pipeline.views
        if ticket.slice is not None:
            return self._slice(ticket.slice)
        if (wanted := ticket.pending) is not None:
            rows = views.pending(
                wanted.start_ms,
                wanted.end_ms,
                topics=wanted.topics,
                row_count_max=wanted.row_count_max,
            )
            return WAITING_SCHEMA, rows
        if ticket.found is not None:
            is_seen = may(Action.SUB | Action.GET, Action.GET)
            return WAITING_SCHEMA, views.found(ticket.found.key, is_seen)
        if (queue := ticket.messages) is not None:
            rows = views.messages(queue.topic, queue.queue_id, start=queue.start, end=queue.end)
            return STORED_SCHEMA, rows
        if ticket.ledger is not None:
            return LEDGER_SCHEMA, self._pipeline.views.ledger()
        if ticket.backup is not None and self._backups is not None:
            return backup_actions.stream(self._backups, ticket.backup)
        raise InvalidRequest("ticket: expected the name of a stream, found none")

    def _slice(self, wanted: protocol.ReadSlice) -> Stream:
        window = self._pipeline.plans.read(
            wanted.plan, wanted.index, run=wanted.run, batch=wanted.batch
        )
        if wanted.units_only:
            return protocol.UNIT_SCHEMA, iter([_units(window)])
        return WINDOW_SCHEMA, self._pipeline.views.window(window)


def _units(window: Window) -> pa.RecordBatch:
    units = window.units
    return pa.RecordBatch.from_arrays(
        [
            pa.array(units.seq),
            pa.array(units.due_ms),
            window.topics(),
            pa.array(units.queue_id),
            pa.array(units.position),
            pa.array(units.size),
        ],
        schema=protocol.UNIT_SCHEMA,
    )
