"""Dueline's own requests: delayed messages by key or id, found, counted, moved and taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from dueline.broker.delayed_states import states_of
from dueline.broker.values import Changed, PendingMessage
from dueline.errors import InvalidRequest
from dueline.message import decode_properties
from dueline.server.remoting.answers import Response
from dueline.server.remoting.channel import Request
from dueline.server.remoting.context import Context
from dueline.server.remoting.hub import Handler, Hub, blocking
from dueline.wire.body import Body
from dueline.wire.delayed import (
    CancelDelayed,
    CountPending,
    DelayedAnswer,
    DelayedAnswers,
    DelayedCode,
    FoundDelayed,
    FoundDelayedList,
    LookUpDelayed,
    MoveDelayed,
    PendingCounts,
    RescheduleDelayed,
)

__all__ = ["DelayedMessages"]

NAME_COUNT_MAX: Final = 1_000
FOUND_COUNT_MAX: Final = 1_000
_BUCKET_MS: Final = 86_400_000

B = TypeVar("B", bound=Body)


class DelayedMessages:
    """Handlers of 30001 to 30004."""

    def __init__(self, context: Context, hub: Hub) -> None:
        self._clock = context.clock
        self._delayed = context.broker.delayed
        self._hub = hub

    def table(self) -> Mapping[int, Handler]:
        return {
            DelayedCode.CANCEL: self._handler(CancelDelayed, self.cancel),
            DelayedCode.RESCHEDULE: self._handler(RescheduleDelayed, self.reschedule),
            DelayedCode.LOOK_UP: self._handler(LookUpDelayed, self.look_up),
            DelayedCode.COUNT_PENDING: self._handler(CountPending, self.count_pending),
        }

    def _handler(self, kind: type[B], work: Callable[[B], Body]) -> Handler:
        def answer(request: Request) -> Response:
            return Response(body=work(kind.decode_request(request.command.body)).encode())

        return blocking(self._hub, answer)

    def cancel(self, request: CancelDelayed) -> DelayedAnswers:
        _check_count(request.keys)
        return _answers(self._delayed.cancel(request.keys))

    def reschedule(self, request: RescheduleDelayed) -> DelayedAnswers:
        _check_count(request.moves)
        now_ms = self._clock.now_ms()
        return _answers(
            self._delayed.reschedule([(move.key, _due_ms(move, now_ms)) for move in request.moves])
        )

    def look_up(self, request: LookUpDelayed) -> FoundDelayedList:
        found = self._delayed.find(request.key)
        pairs = zip(found, states_of(found), strict=True)
        return FoundDelayedList(
            messages=[_found(each, state) for each, state in islice(pairs, FOUND_COUNT_MAX)]
        )

    def count_pending(self, request: CountPending) -> PendingCounts:
        summary = self._delayed.pending(bucket_ms=_BUCKET_MS, topic=request.topic)
        return PendingCounts(
            count=summary.count, topics=summary.by_topic, next_due_ms=summary.next_due_ms
        )


def _found(message: PendingMessage, state: str) -> FoundDelayed:
    return FoundDelayed(
        topic=message.topic,
        queue_id=message.queue_id,
        unique_id=message.unique_id,
        due_ms=message.due_ms,
        state=state,
        keys=decode_properties(message.record.properties).get("KEYS", ""),
        body_size_bytes=len(message.record.body),
    )


def _check_count(names: Sequence[object]) -> None:
    if len(names) > NAME_COUNT_MAX:
        raise InvalidRequest(
            f"keys: expected at most {NAME_COUNT_MAX} at once, found {len(names)}",
            limit=NAME_COUNT_MAX,
        )


def _due_ms(move: MoveDelayed, now_ms: int) -> int:
    if (move.due_ms is None) == (move.delay_ms is None):
        raise InvalidRequest(f"move of {move.key[:200]}: expected one of dueMs and delayMs")
    found_ms = move.due_ms if move.delay_ms is None else now_ms + move.delay_ms
    if found_ms is None or found_ms < 0:
        raise InvalidRequest(f"move of {move.key[:200]}: expected a time, found {found_ms}")
    return found_ms


def _answers(changes: Sequence[Changed]) -> DelayedAnswers:
    return DelayedAnswers(
        answers=[
            DelayedAnswer(answer=changed.answer.value, count=changed.count) for changed in changes
        ]
    )
