"""What operators' commands ask: what waits, a message's state, a report; what pipelines tell."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Final

from dueline import __version__
from dueline.broker import Broker
from dueline.broker.access import Action
from dueline.broker.delayed import PendingMessage
from dueline.broker.delayed_states import states_of
from dueline.flight import operators
from dueline.message import decode_properties
from dueline.server.flight.answering import Handler, handler
from dueline.server.flight.callers import may

__all__ = ["OperatorActions"]

BUCKET_COUNT_MAX: Final = 100_000
_SEE: Final = Action.PUB | Action.SUB | Action.GET


class OperatorActions:
    """The requests of `dueline.flight.operators`, by their names in `table`."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.table: Final[dict[str, Handler]] = {
            "count_pending": handler(operators.CountPending, self._count_pending),
            "look_up": handler(operators.LookUp, self._look_up),
            "complain": handler(operators.Complain, self._complain),
            "report": handler(operators.Report, self._report),
        }

    # Delayed messages

    def _count_pending(self, request: operators.CountPending) -> operators.PendingCounts:
        summary = self._broker.delayed.pending(bucket_ms=request.bucket_ms, topic=request.topic)
        is_seen = may(_SEE, Action.GET)
        buckets = sorted(summary.by_bucket_ms.items())
        return operators.PendingCounts(
            count=summary.count,
            next_due_ms=summary.next_due_ms,
            topics={name: count for name, count in summary.by_topic.items() if is_seen(name)},
            buckets={str(start_ms): count for start_ms, count in buckets[:BUCKET_COUNT_MAX]},
            is_cut=len(buckets) > BUCKET_COUNT_MAX,
        )

    def _look_up(self, request: operators.LookUp) -> operators.Found:
        is_seen = may(_SEE, Action.GET)
        found = [each for each in self._broker.delayed.find(request.key) if is_seen(each.topic)]
        return operators.Found(messages=tuple(map(_found, found, states_of(found))))

    # Figures

    def _complain(self, request: operators.Complain) -> operators.Complained:
        self._broker.pipeline.status.failed(request.error)
        return operators.Complained()

    def _report(self, request: operators.Report) -> operators.Reported:
        figures = self._broker.meter.figures()
        lateness = figures.lateness
        pipeline = self._broker.pipeline.status
        return operators.Reported(
            version=__version__,
            shard=self._broker.options.broker_name,
            pid=os.getpid(),
            folder=str(self._broker.folder.absolute()),
            now_ms=figures.now_ms,
            clock_ahead_ms=self._broker.clock.ahead_ms(),
            started_ms=figures.started_ms,
            sent=figures.sent_count,
            sent_delayed=figures.sent_delayed_count,
            refused=figures.refused_count,
            delivered=figures.delivered_count,
            dropped=figures.dropped_count,
            skipped=figures.skipped_count,
            cancelled=figures.cancelled_count,
            rescheduled=figures.rescheduled_count,
            expired=figures.expired_count,
            pending=figures.pending_count,
            at_gate=figures.at_gate_count,
            next_due_ms=figures.next_due_ms,
            waiting_readers=figures.waiting_reader_count,
            commit_log_bytes=figures.commit_log.size_bytes,
            delay_log_bytes=figures.delay_log.size_bytes,
            lateness=operators.LatenessReport(
                count=lateness.count,
                p50_ms=lateness.p50_ms,
                p99_ms=lateness.p99_ms,
                max_ms=lateness.max_ms,
                late_ms_max=figures.late_ms_max,
            ),
            driver=operators.DriverReport(
                **asdict(pipeline.report()), is_stood_in=pipeline.is_stood_in()
            ),
            overdue=figures.overdue.count,
            limited=self._broker.quotas.limited(),
            oldest_overdue=_overdue(figures.overdue.oldest),
        )


def _overdue(message: PendingMessage | None) -> operators.OverdueMessage | None:
    if message is None:
        return None
    return operators.OverdueMessage(
        topic=message.topic,
        queue_id=message.queue_id,
        unique_id=message.unique_id,
        keys=decode_properties(message.record.properties).get("KEYS", ""),
        due_ms=message.due_ms,
    )


def _found(message: PendingMessage, state: str) -> operators.FoundMessage:
    return operators.FoundMessage(
        topic=message.topic,
        queue_id=message.queue_id,
        unique_id=message.unique_id,
        keys=decode_properties(message.record.properties).get("KEYS", ""),
        due_ms=message.due_ms,
        state=state,
        body_size_bytes=len(message.record.body),
    )
