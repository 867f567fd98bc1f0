"""The requests and answers of the Flight service, as values; see `docs/protocol/flight.md`.

An *action* is one request and one answer, both JSON. A *ticket* asks for a stream of rows (DoGet).
A *stage* command precedes a stream of rows to the broker (DoPut). Errors travel as the class name,
message and details of our own error tree and are raised again at the other end.

A micro-batch in the order of its calls (source and sink are different processes, tasks are many):

    source   NextWindow     what is due soon, not delivered and not too much: a corner
    source   PlanWindow     the corner's rows as slices
    tasks    ReadSlice      the rows of one slice; says in which run and batch it is read
    tasks    StageRows      finished rows, under a token of the task's attempt
    sink     CommitWindow   the tokens that count, of that run and batch: all or nothing
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from dueline.errors import InvalidRequest
from dueline.flight.values import Value, dataclass

__all__ = [
    "ACTIONS",
    "PROTOCOL_VERSION",
    "UNIT_SCHEMA",
    "Answers",
    "Cancel",
    "CommitWindow",
    "Committed",
    "Corner",
    "Describe",
    "Description",
    "Discard",
    "Discarded",
    "Figures",
    "FileAccess",
    "FindPending",
    "ListQueues",
    "Move",
    "NextWindow",
    "PendingPlan",
    "PlanPending",
    "PlanWindow",
    "PutRows",
    "QueueList",
    "QueueRange",
    "ReadMessages",
    "ReadPending",
    "ReadSlice",
    "Reschedule",
    "RowsPut",
    "Slice",
    "StageRows",
    "Stats",
    "Ticket",
    "TimeRange",
    "WindowEnd",
    "WindowPlan",
]

PROTOCOL_VERSION: Final = 1

UNIT_SCHEMA: Final = pa.schema(
    [
        pa.field("origin", pa.int64(), nullable=False),
        pa.field("due_ms", pa.int64(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("queue_id", pa.int32(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("size", pa.int32(), nullable=False),
    ]
)
"""A slice without its records: for tasks that map the delay log's files themselves."""


# --- places in the timeline -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Corner(Value):
    """Everything up to (due_ms, seq) in due order that was accepted before number `end`."""

    due_ms: int
    seq: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice(Value):
    """A part of a window in due order; its plan knows which one."""

    row_count: int
    size_bytes: int


# --- actions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Describe(Value):
    """Who are you, and may I read your files?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAccess(Value):
    """Where the delay log is, for processes on the broker's own machine.

    `machine` changes with every start of the machine; `folder_id` is the folder's device and inode.
    Both must match before a task trusts `folder`: another container may have another folder of that
    name.
    """

    machine: str
    folder: str
    folder_id: str
    segment_size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Description(Value):
    """A shard, and the limits that a bulk job can check for itself."""

    protocol: int
    shard: str
    now_ms: int
    body_size_bytes_max: int
    delay_ms_max: int
    files: FileAccess | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextWindow(Value):
    """Up to which corner is there something to deliver now?

    The broker answers when a message that is not done falls due within `lead_ms`, when
    `row_count_max` of them fall due within `ahead_ms`, or after `wait_ms`. What it then gives
    reaches as far as `ahead_ms`: a message that must go now takes the ones behind it along, and a
    quiet broker is asked a few times in a second at most.

    `until_ms` replaces now + ahead: a fixed horizon, for a query that is to end.
    """

    ahead_ms: int
    lead_ms: int
    row_count_max: int
    wait_ms: int
    until_ms: int | None = None

    def check(self) -> None:
        for name in ("ahead_ms", "lead_ms", "wait_ms"):
            if not 0 <= getattr(self, name) <= 86_400_000:
                raise InvalidRequest(
                    f"{name}: expected 0 to a day, found {getattr(self, name)}", field=name
                )
        if self.row_count_max < 1:
            raise InvalidRequest(
                f"row_count_max: expected 1 or more, found {self.row_count_max}",
                field="row_count_max",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowEnd(Value):
    """The answer: a corner with something inside that is not done, or None."""

    end: Corner | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWindow(Value):
    """Cut what is inside a corner and not done into slices of about equal work."""

    end: Corner
    slice_count_max: int
    slice_row_count_min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPlan(Value):
    """A plan lives in the broker's memory until its batch is committed or it is forgotten."""

    plan: str
    slices: tuple[Slice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitWindow(Value):
    """Append what was staged under these tokens, in one step.

    What the batch read and did not stage was dropped by the transform and is marked so; without a
    transform it is a mistake, and nothing is committed.
    """

    run: str
    batch: int
    tokens: tuple[str, ...]
    is_transformed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed(Value):
    """`skipped` were done before, `repeated` came more than once and were appended once."""

    delivered: int
    skipped: int
    dropped: int
    repeated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard(Value):
    """Forget what was staged under these tokens; unknown ones are no error."""

    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Discarded(Value):
    token_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRows(Value):
    """Accept the messages staged under these tokens, all of them or none."""

    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPut(Value):
    """They have the acceptance numbers [first_seq, first_seq + row_count)."""

    first_seq: int
    row_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPending(Value):
    """Cut the messages that are due in [start_ms, end_ms) and not done into slices."""

    start_ms: int
    end_ms: int
    slice_count_max: int
    slice_row_count_min: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPlan(Value):
    """Time ranges of about equal row counts; nothing is kept, so a range may be read any time."""

    ranges: tuple[TimeRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeRange(Value):
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListQueues(Value):
    """Which queues does a topic have, and which offsets became visible in [start_ms, end_ms)?"""

    topic: str
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueList(Value):
    queues: tuple[QueueRange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRange(Value):
    """Offsets [start, end) of one queue."""

    queue_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel(Value):
    """Cancel what waits under these keys or ids."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reschedule(Value):
    """Move what waits under these keys or ids to new times."""

    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Value):
    key: str
    due_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Value):
    """One for each key: cancelled, rescheduled, delivered or unknown."""

    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats(Value):
    """How much is there?"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(Value):
    """`next_due_ms` and `gate_next_ms` are None if nothing waits there."""

    accepted: int
    pending: int
    at_gate: int
    next_due_ms: int | None
    gate_next_ms: int | None
    staged_bytes: int
    plan_count: int


ACTIONS: Final[dict[str, tuple[type[Value], type[Value]]]] = {
    "describe": (Describe, Description),
    "next_window": (NextWindow, WindowEnd),
    "plan_window": (PlanWindow, WindowPlan),
    "commit_window": (CommitWindow, Committed),
    "discard": (Discard, Discarded),
    "put_rows": (PutRows, RowsPut),
    "plan_pending": (PlanPending, PendingPlan),
    "list_queues": (ListQueues, QueueList),
    "cancel": (Cancel, Answers),
    "reschedule": (Reschedule, Answers),
    "stats": (Stats, Figures),
}
"""Every action's name with the types of its request and its answer."""


# --- streams --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSlice(Value):
    """The rows of one slice: WINDOW_SCHEMA, or UNIT_SCHEMA with `is_mapped`."""

    plan: str
    index: int
    run: str
    batch: int
    is_mapped: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPending(Value):
    """What is due in [start_ms, end_ms) and not done: WINDOW_SCHEMA."""

    start_ms: int
    end_ms: int
    topics: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FindPending(Value):
    """What waits under a key, unique id or offset id: WINDOW_SCHEMA."""

    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessages(Value):
    """What consumers can read at [start, end) of a queue: STORED_SCHEMA."""

    topic: str
    queue_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket(Value):
    """Which stream; exactly one field is set."""

    slice: ReadSlice | None = None
    pending: ReadPending | None = None
    found: FindPending | None = None
    messages: ReadMessages | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRows(Value):
    """Keep the rows that follow under a token until they are committed, discarded or too old.

    The stream's schema says what they are: DELIVERY_SCHEMA or SCHEDULE_SCHEMA.
    """

    token: str
