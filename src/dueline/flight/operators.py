"""Requests and answers of the commands: look up, count, report, back up.

They are actions of the same Flight port as `dueline.flight.protocol`'s, in the same JSON; see
`docs/protocol/operators.md`. Messages are sent and read with a RocketMQ client or with Spark.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
import pyarrow as pa

from dueline.flight.client import CALL_TIMEOUT_S, FlightClient
from dueline.flight.console import CONSOLE_ACTIONS
from dueline.flight.users import USER_ACTIONS
from dueline.flight.values import Value
from dueline.flight.waiting import WAITING_ACTIONS

__all__ = [
    "CONTROL_ACTIONS",
    "Complain",
    "Complained",
    "CountPending",
    "DriverReport",
    "Found",
    "FoundMessage",
    "LatenessReport",
    "LookUp",
    "OperatorClient",
    "OverdueMessage",
    "PendingCounts",
    "Report",
    "Reported",
]

ASKED_MS_MAX: Final = 60_000
"""A pipeline that runs elsewhere asks several times a second; one that starts may take a while."""

_Answer = TypeVar("_Answer", bound=Value)


# --- delayed messages -----------------------------------------------------------------------------


class CountPending(Value, frozen=True, kw_only=True):
    """How many messages wait, by due time in buckets of `bucket_ms`?"""

    bucket_ms: int
    topic: str | None = None


class PendingCounts(Value, frozen=True, kw_only=True):
    """`buckets` by their start in ms, the earliest first; at most a bounded number of them."""

    count: int
    next_due_ms: int | None
    topics: dict[str, int]
    buckets: dict[str, int]
    is_cut: bool


class LookUp(Value, frozen=True, kw_only=True):
    """Which delayed messages have this key, unique id or offset id?"""

    key: str


class FoundMessage(Value, frozen=True, kw_only=True):
    """`state`: pending, carried over, delivered, cancelled, moved or dropped."""

    topic: str
    queue_id: int
    unique_id: str
    keys: str
    due_ms: int
    state: str
    body_size_bytes: int


class Found(Value, frozen=True, kw_only=True):
    """The newest first."""

    messages: tuple[FoundMessage, ...]


# --- figures --------------------------------------------------------------------------------------


class Report(Value, frozen=True, kw_only=True):
    """How is it going?"""


class LatenessReport(Value, frozen=True, kw_only=True):
    """Of the messages that became visible in the last minute; `late_ms_max` since the start."""

    count: int
    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None
    late_ms_max: int


class OverdueMessage(Value, frozen=True, kw_only=True):
    """The message that has been overdue for longest."""

    topic: str
    queue_id: int
    unique_id: str
    keys: str
    due_ms: int


class DriverReport(Value, frozen=True, kw_only=True):
    """The pipeline: `status` is off, starting, ready, waiting (to be started again) or stopped.

    `asked_ms` is when a pipeline, this one or another, last asked for work. `error` is the last
    thing that went wrong in it, in one line, since it last finished a batch; `error_ms` is when.
    `is_stood_in`: the broker delivers in its place.
    """

    status: str
    is_stood_in: bool = False
    pid: int | None = None
    start_count: int = 0
    reason: str = ""
    asked_ms: int | None = None
    error: str = ""
    error_ms: int | None = None


class Complain(Value, frozen=True, kw_only=True):
    """A pipeline, wherever it runs, says in one line what went wrong in it."""

    error: str


class Complained(Value, frozen=True, kw_only=True):
    """It is in the report now."""


class Reported(Value, frozen=True, kw_only=True):
    """Counts are since the broker's start, except for what is there now.

    `clock_ahead_ms`: so long the broker's time stands still, since the wall clock was set back.
    `overdue`: was due more than a second ago and is not carried over.
    `limited`: how often a quota was spent, by user, address and topic.
    """

    version: str
    shard: str
    pid: int
    folder: str
    now_ms: int
    clock_ahead_ms: int
    started_ms: int
    sent: int
    sent_delayed: int
    refused: int
    delivered: int
    dropped: int
    skipped: int
    cancelled: int
    rescheduled: int
    pending: int
    at_gate: int
    next_due_ms: int | None
    waiting_readers: int
    commit_log_bytes: int
    delay_log_bytes: int
    lateness: LatenessReport
    driver: DriverReport
    overdue: int = 0
    oldest_overdue: OverdueMessage | None = None
    limited: dict[str, int] = msgspec.field(default_factory=dict)
    expired: int = 0

    @property
    def is_delivering(self) -> bool:
        """Does a pipeline, this broker's or another, ask for work?"""
        if self.driver.status == "ready":
            return True
        asked_ms = self.driver.asked_ms
        is_elsewhere = self.driver.status == "off" and asked_ms is not None
        return is_elsewhere and self.now_ms - (asked_ms or 0) < ASKED_MS_MAX


# --- backups --------------------------------------------------------------------------------------

BACKUP_FILES_SCHEMA: Final = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("data_bytes", pa.int64(), nullable=False),
        pa.field("identity", pa.string(), nullable=False),
        pa.field("is_sealed", pa.bool_(), nullable=False),
    ]
)
"""The files of a backup; a file's number is its row."""

BACKUP_PIECES_SCHEMA: Final = pa.schema(
    [
        pa.field("file", pa.int32(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("data", pa.binary(), nullable=False),
    ]
)
"""Bytes of files; what is not sent is zero."""


class BeginBackup(Value, frozen=True, kw_only=True):
    """Make a consistent cut, and delete nothing of it until the backup ends."""


class BackupBegun(Value, frozen=True, kw_only=True):
    """The cut: `now_ms` is when it was made, the ends are the logs'."""

    hold: str
    version: str
    shard: str
    folder: str
    now_ms: int
    file_count: int
    delay_end: int
    commit_end: int
    accepted: int
    pending: int


class RenewBackup(Value, frozen=True, kw_only=True):
    """The backup is still under way; reading its files says so too."""

    hold: str


class BackupRenewed(Value, frozen=True, kw_only=True):
    """For how long nothing is deleted."""

    lease_ms: int


class EndBackup(Value, frozen=True, kw_only=True):
    """The backup is done, or given up."""

    hold: str


class BackupEnded(Value, frozen=True, kw_only=True):
    """Whether it was under way."""

    is_known: bool


CONTROL_ACTIONS: Final[dict[str, tuple[type[Value], type[Value]]]] = {
    "count_pending": (CountPending, PendingCounts),
    "look_up": (LookUp, Found),
    "complain": (Complain, Complained),
    "report": (Report, Reported),
    "begin_backup": (BeginBackup, BackupBegun),
    "renew_backup": (RenewBackup, BackupRenewed),
    "end_backup": (EndBackup, BackupEnded),
    **USER_ACTIONS,
    **WAITING_ACTIONS,
}
"""Every action's name with the types of its request and its answer."""

_NAMES: Final = {
    request: name for name, (request, _) in (CONTROL_ACTIONS | CONSOLE_ACTIONS).items()
}


class OperatorClient(FlightClient):
    """A connection that knows the commands' requests too; `call` is for the protocol's."""

    def ask(
        self, request: Value, answer: type[_Answer], *, timeout_s: float = CALL_TIMEOUT_S
    ) -> _Answer:
        """Send a command's request and wait for its answer.

        Raises:
            BrokerError: what the broker raised, or `Unavailable` if there is none.
        """
        return self._act(_NAMES[type(request)], request, answer, timeout_s)
