"""Requests of Dueline's own: delayed messages by key or id, which RocketMQ has no codes for.

Their numbers are far from RocketMQ's; a broker that does not know them says so. Requests and
answers are JSON bodies. `docs/protocol/remoting.md` has the table.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum

from dueline.wire.body import Body, body

__all__ = [
    "CancelDelayed",
    "CountPending",
    "DelayedAnswer",
    "DelayedAnswers",
    "DelayedCode",
    "FoundDelayed",
    "FoundDelayedList",
    "LookUpDelayed",
    "MoveDelayed",
    "PendingCounts",
    "RescheduleDelayed",
]


class DelayedCode(IntEnum):
    """What is asked."""

    CANCEL = 30_001
    RESCHEDULE = 30_002
    LOOK_UP = 30_003
    COUNT_PENDING = 30_004


@body
class CancelDelayed(Body):
    """30001; each is a key, a unique id or an offset id."""

    keys: list[str]


@body
class MoveDelayed(Body):
    """One message or several of one key: a new time, or a delay from the broker's now on."""

    key: str
    due_ms: int | None = None
    delay_ms: int | None = None


@body
class RescheduleDelayed(Body):
    """30002."""

    moves: list[MoveDelayed]


@body
class DelayedAnswer(Body):
    """`answer` is cancelled, rescheduled, delivered or unknown; `count` were changed for it."""

    answer: str
    count: int


@body
class DelayedAnswers(Body):
    """The answer to 30001 and 30002, in the order of the request."""

    answers: list[DelayedAnswer] = field(default_factory=list)


@body
class LookUpDelayed(Body):
    """30003."""

    key: str


@body
class FoundDelayed(Body):
    """`state`: pending, carried over, delivered, cancelled, moved, dropped or done long ago."""

    topic: str
    queue_id: int
    unique_id: str
    due_ms: int
    state: str
    keys: str = ""
    body_size_bytes: int = 0


@body
class FoundDelayedList(Body):
    """The answer to 30003, the newest first."""

    messages: list[FoundDelayed] = field(default_factory=list)


@body
class CountPending(Body):
    """30004; without a topic, of all."""

    topic: str | None = None


@body
class PendingCounts(Body):
    """The answer to 30004; `next_due_ms` is that of all topics."""

    count: int
    topics: dict[str, int] = field(default_factory=dict)
    next_due_ms: int | None = None
