"""Messages that wait: look them up, count them, move them, take them back.

By key or id these are requests of Dueline's own; an Apache broker does not know them, and the error
says so. Where there are several brokers all are asked, and their answers are added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Final, TypeVar

from dueline.client.cluster import Cluster, error_of
from dueline.client.values import Sent
from dueline.clock import Clock
from dueline.errors import InvalidRequest
from dueline.times import Duration, duration_ms, future_ms
from dueline.wire import RequestCode, ResponseCode
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
from dueline.wire.headers import RecallRequest

__all__ = ["Changed", "DelayedMessages", "Outcome", "Pending", "Scheduled", "State"]

B = TypeVar("B", bound=Body)


class Outcome(Enum):
    """What a request to cancel or to reschedule came to."""

    CANCELLED = "cancelled"
    RESCHEDULED = "rescheduled"
    DELIVERED = "delivered"
    UNKNOWN = "unknown"


_RANK: Final = (Outcome.UNKNOWN, Outcome.DELIVERED, Outcome.CANCELLED, Outcome.RESCHEDULED)


class State(Enum):
    """What has happened to a delayed message."""

    PENDING = "pending"
    CARRIED_OVER = "carried over"
    DELIVERED = "delivered"
    CANCELLED = "cancelled"
    MOVED = "moved"
    DROPPED = "dropped"
    DONE_LONG_AGO = "done long ago"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The answer to a change, and how many messages were changed; true if it was done.

    A key may name several messages. Done before counts as done: then `count` is 0.
    """

    outcome: Outcome
    count: int

    def __bool__(self) -> bool:
        return self.outcome in (Outcome.CANCELLED, Outcome.RESCHEDULED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """A delayed message that was found; `due_ms` in milliseconds since 1970."""

    topic: str
    queue_id: int
    id: str
    keys: tuple[str, ...]
    due_ms: int
    state: State
    body_size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """How many messages wait, and when the first one of all topics is due."""

    count: int
    by_topic: dict[str, int]
    next_due_ms: int | None


class DelayedMessages:
    """The verbs of a client for messages that wait; the client says how to reach the brokers."""

    _group: str
    _clock: Clock
    _timeout_s: float

    def _open(self) -> Cluster:
        raise NotImplementedError

    async def cancel(self, message: Sent | str) -> Changed:
        """Take a delayed message back: what `send` returned, or by key or id.

        Raises:
            InvalidRequest: the message was not delayed.
        """
        if isinstance(message, str):
            answers = await self._ask_all(
                DelayedCode.CANCEL, CancelDelayed(keys=[_name(message)]), DelayedAnswers
            )
            return _changed(answers)
        return await self._recall(message)

    async def reschedule(
        self,
        message: Sent | str,
        *,
        delay: Duration | None = None,
        deliver_at: datetime | str | None = None,
    ) -> Changed:
        """Let a message that waits be due at another time: a delay from now on, or a time.

        Raises:
            InvalidRequest: none of both or both; a time that is over.
            LimitExceeded: further away than the broker allows.
        """
        if (delay is None) == (deliver_at is None):
            raise InvalidRequest("reschedule: expected one of delay and deliver_at")
        move = MoveDelayed(
            key=_name(message),
            delay_ms=None if delay is None else duration_ms(delay),
            due_ms=None if deliver_at is None else self._time_ms(deliver_at),
        )
        return await self._move(move)

    def _time_ms(self, deliver_at: datetime | str) -> int:
        return max(future_ms(deliver_at, self._clock.now_ms(), name="deliver_at"), 0)

    async def deliver_now(self, message: Sent | str) -> Changed:
        """Let a message that waits be due now."""
        return await self._move(MoveDelayed(key=_name(message), delay_ms=0))

    async def _move(self, move: MoveDelayed) -> Changed:
        request = RescheduleDelayed(moves=[move])
        return _changed(await self._ask_all(DelayedCode.RESCHEDULE, request, DelayedAnswers))

    async def find(self, message: Sent | str) -> list[Scheduled]:
        """Delayed messages by key or id, the newest first, also those that are done."""
        answers = await self._ask_all(
            DelayedCode.LOOK_UP, LookUpDelayed(key=_name(message)), FoundDelayedList
        )
        return [_scheduled(each) for answer in answers for each in answer.messages]

    async def pending(self, topic: str | None = None) -> Pending:
        """How many messages wait, of one topic or of all."""
        answers = await self._ask_all(
            DelayedCode.COUNT_PENDING, CountPending(topic=topic), PendingCounts
        )
        by_topic: dict[str, int] = {}
        for answer in answers:
            for name, count in answer.topics.items():
                by_topic[name] = by_topic.get(name, 0) + count
        times_ms = [each.next_due_ms for each in answers if each.next_due_ms is not None]
        return Pending(
            count=sum(answer.count for answer in answers),
            by_topic=by_topic,
            next_due_ms=min(times_ms, default=None),
        )

    async def _ask_all(self, code: DelayedCode, request: Body, kind: type[B]) -> list[B]:
        found = []
        for connection in await self._open().all_brokers():
            answer = await connection.call(code, {}, request.encode(), timeout_s=self._timeout_s)
            if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise InvalidRequest(
                    f"{connection.address}: expected a broker of Dueline, which looks up and "
                    "changes messages by key or id; found one that does not know the request"
                )
            if answer.code != ResponseCode.SUCCESS:
                raise error_of(answer)
            found.append(kind.decode(answer.body))
        return found

    async def _recall(self, sent: Sent) -> Changed:
        """By its handle, as RocketMQ's clients do it: that message and no other."""
        if sent.handle is None:
            raise InvalidRequest(f"message {sent.id}: expected a delayed one, found no handle")
        ext = RecallRequest(
            topic=sent.topic, recall_handle=sent.handle, producer_group=self._group
        ).encode()
        for connection in await self._open().brokers(sent.topic):
            answer = await connection.call(
                RequestCode.RECALL_MESSAGE, ext, timeout_s=self._timeout_s
            )
            if answer.code == ResponseCode.SUCCESS:
                return Changed(outcome=Outcome.CANCELLED, count=1)
            if answer.code != ResponseCode.ILLEGAL_OPERATION:
                raise error_of(answer)
        return Changed(outcome=Outcome.DELIVERED, count=0)


def _name(message: Sent | str) -> str:
    name = message.id if isinstance(message, Sent) else message
    if not name or name.split() != [name]:
        raise InvalidRequest(f"expected a key or an id, a word without spaces, found {name!r:.100}")
    return name


def _changed(answers: Sequence[DelayedAnswers]) -> Changed:
    """What the brokers say together: if one has done it, it is done."""
    found: list[DelayedAnswer] = [each for answer in answers for each in answer.answers]
    outcomes = [Outcome(each.answer) for each in found]
    return Changed(
        outcome=max(outcomes, key=_RANK.index, default=Outcome.UNKNOWN),
        count=sum(each.count for each in found),
    )


def _scheduled(found: FoundDelayed) -> Scheduled:
    return Scheduled(
        topic=found.topic,
        queue_id=found.queue_id,
        id=found.unique_id,
        keys=tuple(found.keys.split()),
        due_ms=found.due_ms,
        state=State(found.state),
        body_size_bytes=found.body_size_bytes,
    )
