"""The broker's Flight port: the pipeline's service, and the commands' requests beside it.

Bytes to values, values to the engine's verbs, answers back; see `docs/protocol/control.md`. Calls
come from gRPC's threads.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from pyarrow import flight

from dueline import __version__
from dueline.broker import Broker
from dueline.broker.engine import Engine
from dueline.broker.pipeline import PipelineStatus
from dueline.errors import InvalidRequest
from dueline.flight import control, protocol
from dueline.flight.values import Value
from dueline.message import decode_properties
from dueline.server.backups import Backups
from dueline.server.flight import FlightService, body_of, flight_answer
from dueline.store import PendingMessage
from dueline.store.states import CANCELLED, DELIVERED, DROPPED, FORGOTTEN, PENDING

__all__ = ["BrokerService"]

STOP_S_MAX: Final = 10.0
BUCKET_COUNT_MAX: Final = 100_000
BUCKET_MS_MIN: Final = 60_000
"""A number for each millisecond would take more memory than the messages themselves."""

_STATE_NAMES: Final = {
    PENDING: "pending",
    DELIVERED: "delivered",
    CANCELLED: "cancelled",
    DROPPED: "dropped",
    FORGOTTEN: "done long ago",
}


log = logging.getLogger(__name__)


class BrokerService(FlightService):
    """Everything that a broker offers over Flight."""

    def __init__(  # noqa: PLR0913 - what it serves, mostly keyword-only
        self,
        engine: Engine,
        *,
        shard: str,
        address: str,
        pipeline: PipelineStatus,
        broker: Broker,
        backups: Backups,
    ) -> None:
        super().__init__(engine.store, shard=shard, address=address, delayed=broker.delayed)
        self._broker = broker
        self._backups = backups
        self._engine = engine
        self._pipeline = pipeline
        self.has_hung_calls = False
        self._control: Final[dict[str, Callable[[Any], Value]]] = {
            "count_pending": self._count_pending,
            "look_up": self._look_up,
            "complain": self._complain,
            "report": self._report,
            "begin_backup": backups.begin,
            "renew_backup": backups.renew,
            "end_backup": backups.end,
        }

    def serve(self) -> None:
        """Wait for `stop`, and leave signals alone.

        Arrow's own `serve` takes SIGTERM and SIGINT over: it would stop serving before the broker
        has stopped accepting, and not tell us while a call is under way.
        """
        self.wait()

    def stop(self) -> None:
        """Let calls under way end, but not for ever: a peer that has fallen silent ends none."""
        stopper = threading.Thread(target=super().stop, name="flight stop", daemon=True)
        stopper.start()
        stopper.join(STOP_S_MAX)
        self.has_hung_calls = stopper.is_alive()
        if self.has_hung_calls:
            log.warning("Flight calls did not end within %g s and are left", STOP_S_MAX)

    def list_actions(self, context: flight.ServerCallContext) -> list[tuple[str, str]]:
        ours = [
            (name, (request.__doc__ or "").splitlines()[0])
            for name, (request, _) in control.CONTROL_ACTIONS.items()
        ]
        return [*super().list_actions(context), *ours]

    def do_action(
        self, context: flight.ServerCallContext, action: flight.Action
    ) -> list[flight.Result]:
        if action.type == "next_window":
            self._pipeline.asked()
        if action.type not in self._control:
            results = super().do_action(context, action)
            if action.type == "commit_window":
                self._pipeline.committed()
            return results
        request_type, _ = control.CONTROL_ACTIONS[action.type]

        def answer() -> Value:
            with self._calls.one():
                return self._control[action.type](request_type.decode(body_of(action)))

        return [flight.Result(flight_answer(answer).encode())]

    def _stream(self, ticket: protocol.Ticket) -> flight.FlightDataStream:
        if ticket.backup is None:
            return super()._stream(ticket)
        hold, numbers = ticket.backup.hold, ticket.backup.files
        if numbers is None:
            return self.streamed(control.BACKUP_FILES_SCHEMA, self._backups.list_files(hold))
        pieces = self._backups.read_files(hold, numbers)
        return self.streamed(control.BACKUP_PIECES_SCHEMA, pieces)

    # Delayed messages

    def _count_pending(self, request: control.CountPending) -> control.PendingCounts:
        if request.bucket_ms < BUCKET_MS_MIN:
            raise InvalidRequest(
                f"bucket: expected at least {BUCKET_MS_MIN} ms, found {request.bucket_ms}"
            )
        summary = self._broker.delayed.pending(bucket_ms=request.bucket_ms, topic=request.topic)
        buckets = sorted(summary.by_bucket_ms.items())
        return control.PendingCounts(
            count=summary.count,
            next_due_ms=summary.next_due_ms,
            topics=summary.by_topic,
            buckets={str(start_ms): count for start_ms, count in buckets[:BUCKET_COUNT_MAX]},
            is_cut=len(buckets) > BUCKET_COUNT_MAX,
        )

    def _look_up(self, request: control.LookUp) -> control.Found:
        found = self._broker.delayed.find(request.key)
        moved = _moved(found)
        return control.Found(messages=tuple(_found(each, moved) for each in found))

    # Figures

    def _complain(self, request: control.Complain) -> control.Complained:
        self._pipeline.failed(request.error)
        return control.Complained()

    def _report(self, request: control.Report) -> control.Reported:
        figures = self._engine.figures()
        stats = self._engine.store.stats()
        lateness = figures.lateness
        return control.Reported(
            version=__version__,
            shard=self._shard,
            pid=os.getpid(),
            folder=str(self._engine.store.path.absolute()),
            now_ms=figures.now_ms,
            clock_ahead_ms=self._engine.clock.ahead_ms(),
            started_ms=figures.started_ms,
            sent=figures.sent_count,
            sent_delayed=figures.sent_delayed_count,
            refused=figures.refused_count,
            delivered=figures.delivered_count,
            dropped=figures.dropped_count,
            skipped=figures.skipped_count,
            cancelled=figures.cancelled_count,
            rescheduled=figures.rescheduled_count,
            pending=figures.pending_count,
            at_gate=figures.at_gate_count,
            next_due_ms=figures.next_due_ms,
            waiting_readers=figures.waiting_reader_count,
            commit_log_bytes=stats["commit_log"]["end"] - stats["commit_log"]["start"],
            delay_log_bytes=stats["delay_log"]["end"] - stats["delay_log"]["start"],
            lateness=control.LatenessReport(
                count=lateness.count,
                p50_ms=lateness.p50_ms,
                p99_ms=lateness.p99_ms,
                max_ms=lateness.max_ms,
                late_ms_max=figures.late_ms_max,
            ),
            driver=control.DriverReport(**asdict(self._pipeline.report())),
            overdue=figures.overdue.count,
            oldest_overdue=_overdue(figures.overdue.oldest),
        )


def _overdue(message: PendingMessage | None) -> control.OverdueMessage | None:
    if message is None:
        return None
    return control.OverdueMessage(
        topic=message.topic,
        queue_id=message.queue_id,
        unique_id=message.unique_id,
        keys=decode_properties(message.record.properties).get("KEYS", ""),
        due_ms=message.due_ms,
    )


def _moved(found: Sequence[PendingMessage]) -> set[int]:
    """The numbers of entries that a reschedule has replaced: cancelled, and there again since."""
    newest = {(each.topic, each.unique_id): each.seq for each in sorted(found, key=_by_seq)}
    return {
        each.seq
        for each in found
        if each.state == CANCELLED and each.seq != newest[each.topic, each.unique_id]
    }


def _by_seq(message: PendingMessage) -> int:
    return message.seq


def _found(message: PendingMessage, moved: set[int]) -> control.FoundMessage:
    state = "carried over" if message.is_at_gate else _STATE_NAMES[message.state]
    if message.seq in moved:
        state = "moved"
    return control.FoundMessage(
        topic=message.topic,
        queue_id=message.queue_id,
        unique_id=message.unique_id,
        keys=decode_properties(message.record.properties).get("KEYS", ""),
        due_ms=message.due_ms,
        state=state,
        body_size_bytes=len(message.record.body),
    )
