"""Dueline's own requests: delayed messages by key or id, found, counted, moved and taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from dueline.broker.access import CLUSTER, Action, topic
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
NAMED_COUNT_MAX: Final = 10
"""Keys that the audit trail names; of the others it has the number."""
_BUCKET_MS: Final = 86_400_000
_SEE: Final = Action.PUB | Action.SUB | Action.GET

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

    def _handler(self, kind: type[B], work: Callable[[Request, B], Body]) -> Handler:
        def answer(request: Request) -> Response:
            return Response(body=work(request, kind.decode_request(request.command.body)).encode())

        return blocking(self._hub, answer)

    def cancel(self, request: Request, asked: CancelDelayed) -> DelayedAnswers:
        _check_count(asked.keys)
        changes = self._delayed.cancel(asked.keys, _may(request, Action.PUB, Action.UPDATE))
        return _answers(request, asked.keys, changes)

    def reschedule(self, request: Request, asked: RescheduleDelayed) -> DelayedAnswers:
        _check_count(asked.moves)
        now_ms = self._clock.now_ms()
        moves = [(move.key, _due_ms(move, now_ms)) for move in asked.moves]
        changes = self._delayed.reschedule(moves, _may(request, Action.PUB, Action.UPDATE))
        return _answers(request, [move.key for move in asked.moves], changes)

    def look_up(self, request: Request, asked: LookUpDelayed) -> FoundDelayedList:
        may = _may(request, _SEE, Action.GET)
        found = [each for each in self._delayed.find(asked.key) if may(each.topic)]
        pairs = zip(found, states_of(found), strict=True)
        return FoundDelayedList(
            messages=[_found(each, state) for each, state in islice(pairs, FOUND_COUNT_MAX)]
        )

    def count_pending(self, request: Request, asked: CountPending) -> PendingCounts:
        """Of one topic, or of all that the caller may see."""
        if asked.topic is None:
            request.check(Action.GET, CLUSTER)
        else:
            request.check(_SEE, topic(asked.topic))
        summary = self._delayed.pending(bucket_ms=_BUCKET_MS, topic=asked.topic)
        may = _may(request, _SEE, Action.GET)
        return PendingCounts(
            count=summary.count,
            topics={name: count for name, count in summary.by_topic.items() if may(name)},
            next_due_ms=summary.next_due_ms,
        )


def _may(request: Request, actions: Action, on_cluster: Action) -> Callable[[str], bool]:
    """For which topics the caller may; with `on_cluster` on the cluster, for all of them."""
    is_all = request.may(on_cluster, CLUSTER)
    return lambda name: is_all or request.may(actions, topic(name))


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


def _answers(request: Request, keys: Sequence[str], changes: Sequence[Changed]) -> DelayedAnswers:
    request.changed_names = tuple(keys[:NAMED_COUNT_MAX])
    request.changed_count = sum(changed.count for changed in changes)
    return DelayedAnswers(
        answers=[
            DelayedAnswer(answer=changed.answer.value, count=changed.count) for changed in changes
        ]
    )
