"""What Spark's driver and bulk jobs ask: windows, plans, commits, staged rows, tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Final

from dueline.broker.access import Action
from dueline.broker.pipeline import Changed, Corner, Pipeline
from dueline.flight import protocol
from dueline.flight.access import access_to
from dueline.server.flight.answering import Handler, handler
from dueline.server.flight.callers import caller, check_topics, may
from dueline.server.flight.waiting import Waiting

__all__ = ["PipelineActions"]


class PipelineActions:
    """The requests of `dueline.flight.protocol`, by their names in `table`."""

    def __init__(self, pipeline: Pipeline, waiting: Waiting, *, shard: str) -> None:
        self._pipeline = pipeline
        self._waiting = waiting
        self._shard = shard
        self._files = access_to(pipeline.delay_log, pipeline.delay_segment_size_bytes)
        self.table: Final[dict[str, Handler]] = {
            "describe": handler(protocol.Describe, self._describe),
            "next_window": handler(protocol.NextWindow, self._next_window),
            "plan_window": handler(protocol.PlanWindow, self._plan_window),
            "commit_window": handler(protocol.CommitWindow, self._commit_window),
            "discard": handler(protocol.Discard, self._discard),
            "put_rows": handler(protocol.PutRows, self._put_rows),
            "plan_pending": handler(protocol.PlanPending, self._plan_pending),
            "list_queues": handler(protocol.ListQueues, self._list_queues),
            "cancel": handler(protocol.Cancel, self._cancel),
            "reschedule": handler(protocol.Reschedule, self._reschedule),
            "stats": handler(protocol.Stats, self._stats),
        }

    def _describe(self, request: protocol.Describe) -> protocol.Description:
        return protocol.Description(
            protocol=protocol.PROTOCOL_VERSION,
            shard=self._shard,
            now_ms=self._pipeline.clock.now_ms(),
            body_size_bytes_max=self._pipeline.body_size_bytes_max,
            delay_ms_max=self._pipeline.delay_ms_max,
            files=self._files,
        )

    def _next_window(self, request: protocol.NextWindow) -> protocol.WindowEnd:
        self._pipeline.status.asked(is_transformed=request.is_transformed)
        request.check()

        def look() -> Corner | None:
            return self._pipeline.windows.next_corner(
                ahead_ms=request.ahead_ms,
                lead_ms=request.lead_ms,
                row_count_max=request.row_count_max,
                until_ms=request.until_ms,
            )

        end = self._waiting.wait_for(look, request.wait_ms / 1000)
        if end is None:
            return protocol.WindowEnd(end=None)
        return protocol.WindowEnd(
            end=protocol.WindowCorner(due_ms=end.due_ms, seq=end.seq, end=end.end)
        )

    def _plan_window(self, request: protocol.PlanWindow) -> protocol.WindowPlan:
        end = request.end
        plan = self._pipeline.plans.plan(
            Corner(due_ms=end.due_ms, seq=end.seq, end=end.end),
            slice_count_max=request.slice_count_max,
            slice_row_count_min=request.slice_row_count_min,
        )
        slices = (protocol.Slice(**asdict(each)) for each in plan.slices)
        return protocol.WindowPlan(plan=plan.name, slices=tuple(slices))

    def _commit_window(self, request: protocol.CommitWindow) -> protocol.Committed:
        committed = self._pipeline.plans.commit(
            run=request.run,
            batch=request.batch,
            tokens=request.tokens,
            is_transformed=request.is_transformed,
        )
        self._pipeline.status.committed()
        return protocol.Committed(**asdict(committed))

    def _discard(self, request: protocol.Discard) -> protocol.Discarded:
        return protocol.Discarded(token_count=self._pipeline.staging.discard(request.tokens))

    def _put_rows(self, request: protocol.PutRows) -> protocol.RowsPut:
        result = self._pipeline.put_rows(request.tokens, caller(), _check_sent)
        return protocol.RowsPut(first_seq=result.first_seq, row_count=result.count)

    def _plan_pending(self, request: protocol.PlanPending) -> protocol.PendingPlan:
        ranges = self._pipeline.views.plan_pending(
            request.start_ms,
            request.end_ms,
            slice_count_max=request.slice_count_max,
            slice_row_count_min=request.slice_row_count_min,
        )
        return protocol.PendingPlan(
            ranges=tuple(protocol.TimeRange(**asdict(each)) for each in ranges)
        )

    def _list_queues(self, request: protocol.ListQueues) -> protocol.QueueList:
        queues = self._pipeline.views.list_queues(
            request.topic, start_ms=request.start_ms, end_ms=request.end_ms
        )
        return protocol.QueueList(
            queues=tuple(protocol.QueueRange(**asdict(each)) for each in queues)
        )

    def _cancel(self, request: protocol.Cancel) -> protocol.Answers:
        return _answers(self._pipeline.delayed.cancel(request.keys, may(Action.PUB, Action.UPDATE)))

    def _reschedule(self, request: protocol.Reschedule) -> protocol.Answers:
        moves = [(move.key, move.due_ms) for move in request.moves]
        changed = self._pipeline.delayed.reschedule(moves, may(Action.PUB, Action.UPDATE))
        return _answers(changed)

    def _stats(self, request: protocol.Stats) -> protocol.Figures:
        return protocol.Figures(**asdict(self._pipeline.figures()))


def _check_sent(topics: Iterable[str]) -> None:
    check_topics(Action.PUB, topics)


def _answers(changed: Sequence[Changed]) -> protocol.Answers:
    return protocol.Answers(
        answers=tuple(each.answer.value for each in changed),
        counts=tuple(each.count for each in changed),
    )
