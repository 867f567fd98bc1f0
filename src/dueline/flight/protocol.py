"""The requests and answers of the Flight service, as values; see `docs/protocol/flight.md`.

An *action* is one request and one answer, both JSON. A *ticket* asks for a stream of rows (DoGet).
A *stage* command precedes a stream of rows to the broker (DoPut). Errors travel as the class name,
message and details of our own error tree and are raised again at the other end.

A micro-batch in the order of its calls (source and sink are different processes, tasks are many):

    source   NextWindow     what is due soon, not delivered and not too much: a corner
    source   PlanWindow     the corner's rows as slices
    tasks    ReadSlice      the rows of one slice; says in which run and batch it is read
    tasks    StageRows      where rows go and what was changed, under a token of the task's attempt
    sink     CommitWindow   the tokens that count, of that run and batch: all or nothing
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from dueline.errors import InvalidRequest
from dueline.flight.values import Value

__all__ = [
    "ACTIONS",
    "PROTOCOL_VERSION",
    "UNIT_SCHEMA",
    "Answers",
    "Cancel",
    "CommitWindow",
    "Committed",
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
    "ReadBackup",
    "ReadLedger",
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
    "WindowCorner",
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
"""A slice without its records: for tasks that need none, or map the delay log's files."""


# --- places in the timeline -----------------------------------------------------------------------


class WindowCorner(Value, frozen=True, kw_only=True):
    """Everything up to (due_ms, seq) in due order that was accepted before number `end`."""

    due_ms: int
    seq: int
    end: int


class Slice(Value, frozen=True, kw_only=True):
    """A part of a window in due order; its plan knows which one."""

    row_count: int
    size_bytes: int


# --- actions --------------------------------------------------------------------------------------


class Describe(Value, frozen=True, kw_only=True):
    """Who are you, and may I read your files?"""


class FileAccess(Value, frozen=True, kw_only=True):
    """Where the delay log is, for processes on the broker's own machine.

    `machine` changes with every start of the machine; `folder_id` is the folder's device and inode.
    Both must match before a task trusts `folder`: another container may have another folder of that
    name.
    """

    machine: str
    folder: str
    folder_id: str
    segment_size_bytes: int


class Description(Value, frozen=True, kw_only=True):
    """A shard, and the limits that a bulk job can check for itself."""

    protocol: int
    shard: str
    now_ms: int
    body_size_bytes_max: int
    delay_ms_max: int
    files: FileAccess | None = None


class NextWindow(Value, frozen=True, kw_only=True):
    """Up to which corner is there something to deliver now?

    The broker answers when a message that is not done falls due within `lead_ms`, when
    `row_count_max` of them fall due within `ahead_ms`, or after `wait_ms`. What it then gives
    reaches as far as `ahead_ms`: a message that must go now takes the ones behind it along, and a
    quiet broker is asked a few times in a second at most.

    `until_ms` replaces now + ahead: a fixed horizon, for a query that is to end. `is_transformed`
    says whether the query may do other than pass messages on; if none does, the broker carries
    short delays over by itself.
    """

    ahead_ms: int
    lead_ms: int
    row_count_max: int
    wait_ms: int
    until_ms: int | None = None
    is_transformed: bool = True

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


class WindowEnd(Value, frozen=True, kw_only=True):
    """The answer: a corner with something inside that is not done, or None."""

    end: WindowCorner | None


class PlanWindow(Value, frozen=True, kw_only=True):
    """Cut what is inside a corner and not done into slices of about equal work."""

    end: WindowCorner
    slice_count_max: int
    slice_row_count_min: int


class WindowPlan(Value, frozen=True, kw_only=True):
    """A plan lives in the broker's memory until its batch is committed or it is forgotten."""

    plan: str
    slices: tuple[Slice, ...]


class CommitWindow(Value, frozen=True, kw_only=True):
    """Append the messages that the rows staged under these tokens name, in one step.

    What the batch read and did not stage was dropped by the transform and is marked so; without a
    transform it is a mistake, and nothing is committed.
    """

    run: str
    batch: int
    tokens: tuple[str, ...]
    is_transformed: bool


class Committed(Value, frozen=True, kw_only=True):
    """`skipped` were done before, `repeated` came more than once and were appended once."""

    delivered: int
    skipped: int
    dropped: int
    repeated: int


class Discard(Value, frozen=True, kw_only=True):
    """Forget what was staged under these tokens; unknown ones are no error."""

    tokens: tuple[str, ...]


class Discarded(Value, frozen=True, kw_only=True):
    token_count: int


class PutRows(Value, frozen=True, kw_only=True):
    """Accept the messages staged under these tokens, all of them or none."""

    tokens: tuple[str, ...]


class RowsPut(Value, frozen=True, kw_only=True):
    """They have the acceptance numbers [first_seq, first_seq + row_count)."""

    first_seq: int
    row_count: int


class PlanPending(Value, frozen=True, kw_only=True):
    """Cut the messages that are due in [start_ms, end_ms) and wait into slices."""

    start_ms: int
    end_ms: int
    slice_count_max: int
    slice_row_count_min: int


class PendingPlan(Value, frozen=True, kw_only=True):
    """Time ranges of about equal row counts; nothing is kept, so a range may be read any time."""

    ranges: tuple[TimeRange, ...]


class TimeRange(Value, frozen=True, kw_only=True):
    start_ms: int
    end_ms: int


class ListQueues(Value, frozen=True, kw_only=True):
    """Which queues does a topic have, and which offsets became visible in [start_ms, end_ms)?"""

    topic: str
    start_ms: int | None = None
    end_ms: int | None = None


class QueueList(Value, frozen=True, kw_only=True):
    queues: tuple[QueueRange, ...]


class QueueRange(Value, frozen=True, kw_only=True):
    """Offsets [start, end) of one queue."""

    queue_id: int
    start: int
    end: int


class Cancel(Value, frozen=True, kw_only=True):
    """Cancel what waits under these keys or ids."""

    keys: tuple[str, ...]


class Reschedule(Value, frozen=True, kw_only=True):
    """Move what waits under these keys or ids to new times."""

    moves: tuple[Move, ...]


class Move(Value, frozen=True, kw_only=True):
    key: str
    due_ms: int


class Answers(Value, frozen=True, kw_only=True):
    """One for each key: cancelled, rescheduled, delivered or unknown; and how many were changed."""

    answers: tuple[str, ...]
    counts: tuple[int, ...] = ()


class Stats(Value, frozen=True, kw_only=True):
    """How much is there?"""


class Figures(Value, frozen=True, kw_only=True):
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


class ReadSlice(Value, frozen=True, kw_only=True):
    """The rows of one slice: WINDOW_SCHEMA, or UNIT_SCHEMA with `units_only`."""

    plan: str
    index: int
    run: str
    batch: int
    units_only: bool


class ReadPending(Value, frozen=True, kw_only=True):
    """What is due in [start_ms, end_ms) and waits: WAITING_SCHEMA; the first of it, or all."""

    start_ms: int
    end_ms: int
    topics: tuple[str, ...] | None = None
    row_count_max: int | None = None


class FindPending(Value, frozen=True, kw_only=True):
    """What waits under a key, unique id or offset id: WAITING_SCHEMA."""

    key: str


class ReadMessages(Value, frozen=True, kw_only=True):
    """What consumers can read at [start, end) of a queue: STORED_SCHEMA."""

    topic: str
    queue_id: int
    start: int
    end: int


class ReadBackup(Value, frozen=True, kw_only=True):
    """The list of a backup's files, or the bytes of those with the given numbers."""

    hold: str
    files: tuple[int, ...] | None = None


class ReadLedger(Value, frozen=True, kw_only=True):
    """Every delayed message within retention, with its outcome: LEDGER_SCHEMA."""


class Ticket(Value, frozen=True, kw_only=True):
    """Which stream; exactly one field is set."""

    slice: ReadSlice | None = None
    pending: ReadPending | None = None
    found: FindPending | None = None
    messages: ReadMessages | None = None
    backup: ReadBackup | None = None
    ledger: ReadLedger | None = None


class StageRows(Value, frozen=True, kw_only=True):
    """Keep the rows that follow under a token until they are committed, discarded or too old.

    The stream's schema says what they are: ROUTED or SCHEDULE rows (`dueline.store.schema`).
    """

    token: str
