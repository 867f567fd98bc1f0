"""Requests and answers about what waits: filter, count, list, the road ahead, jobs.

Actions of the Flight port as those of `dueline.flight.operators`, which knows their names too; see
`docs/protocol/operators.md`.
"""

from __future__ import annotations

from typing import Final

from dueline.flight.values import Value

__all__ = [
    "WAITING_ACTIONS",
    "AnswerCounts",
    "Appended",
    "AskForecast",
    "ChangeNumbers",
    "CountMatching",
    "Crowd",
    "DescribeMessage",
    "FindJob",
    "Forecast",
    "Job",
    "JobList",
    "ListJobs",
    "ListMatching",
    "ListRules",
    "LookAhead",
    "MatchingCount",
    "MatchingPage",
    "MessageEntries",
    "MessageEntry",
    "MessageEvent",
    "NumberAnswers",
    "PendingFilter",
    "PendingRow",
    "Road",
    "RuleList",
    "SetRule",
    "StartJob",
    "StopJob",
    "TopicRule",
]


class PendingFilter(Value, frozen=True, kw_only=True):
    """What must hold of a message; what is null holds of all. `where` is a condition as text."""

    topic: str | None = None
    key: str | None = None
    key_prefix: str | None = None
    tag: str | None = None
    property_name: str | None = None
    property_value: str | None = None
    due_start_ms: int | None = None
    due_end_ms: int | None = None
    text: str | None = None
    where: str | None = None


class CountMatching(Value, frozen=True, kw_only=True):
    """How many of those that wait match?

    If the answer has a cursor, there is more to count: ask again with it, and add up.
    """

    filter: PendingFilter
    cursor: str | None = None


class MatchingCount(Value, frozen=True, kw_only=True):
    count: int
    at_gate: int
    topics: dict[str, int]
    cursor: str | None = None


class ListMatching(Value, frozen=True, kw_only=True):
    """The next of those that match, in due order; `limit` is at most 1,000."""

    filter: PendingFilter
    limit: int = 100
    cursor: str | None = None


class PendingRow(Value, frozen=True, kw_only=True):
    """`state`: pending, or carried over: it stands at the gate. Then `accepted_ms` is null."""

    number: int
    unique_id: str
    topic: str
    queue_id: int
    keys: str
    tags: str
    due_ms: int
    accepted_ms: int | None
    size_bytes: int
    state: str


class MatchingPage(Value, frozen=True, kw_only=True):
    """A page may be short, or empty, though more follows: only a null cursor is the end."""

    rows: tuple[PendingRow, ...]
    cursor: str | None = None


class LookAhead(Value, frozen=True, kw_only=True):
    """How many fall due in [start_ms, end_ms), in buckets, at most 4,000 of them?"""

    start_ms: int
    end_ms: int
    bucket_ms: int
    topic: str | None = None


class Road(Value, frozen=True, kw_only=True):
    """`topics` has those with most messages; `counts` has all. What is at the gate is in them."""

    start_ms: int
    bucket_ms: int
    counts: tuple[int, ...]
    topics: dict[str, tuple[int, ...]]
    before: int
    after: int
    at_gate: int


class DescribeMessage(Value, frozen=True, kw_only=True):
    """What is known of one message, by number or by unique id; and the beginning of its body."""

    number: int | None = None
    unique_id: str | None = None
    body_bytes_max: int = 0


class MessageEvent(Value, frozen=True, kw_only=True):
    """`time_ms` is null where the time is not kept."""

    name: str
    time_ms: int | None = None


class Appended(Value, frozen=True, kw_only=True):
    """`offset` is null while it stands at the gate."""

    topic: str
    queue_id: int
    offset: int | None
    visible_ms: int
    late_ms: int


class MessageEntry(Value, frozen=True, kw_only=True):
    """`body` is base64 in the JSON."""

    number: int
    unique_id: str
    topic: str
    queue_id: int
    keys: str
    tags: str
    properties: dict[str, str]
    accepted_ms: int
    born_ms: int
    due_ms: int
    state: str
    attempt: int
    body_size_bytes: int
    body: bytes
    appended: Appended | None = None
    events: tuple[MessageEvent, ...] = ()


class MessageEntries(Value, frozen=True, kw_only=True):
    """The newest first: a message that was moved has an entry for each time."""

    entries: tuple[MessageEntry, ...]


class ChangeNumbers(Value, frozen=True, kw_only=True):
    """Change messages by number at once, a few thousand at most; `dues_ms`: a time for each."""

    action: str
    numbers: tuple[int, ...]
    due_ms: int | None = None
    shift_ms: int | None = None
    dues_ms: tuple[int, ...] | None = None


class NumberAnswers(Value, frozen=True, kw_only=True):
    """One for each number: done, too late, unknown or failed."""

    answers: tuple[str, ...]


class StartJob(Value, frozen=True, kw_only=True):
    """Begin to cancel, deliver, reschedule or shift what a filter means, or some by number.

    An order with a token that is known is not begun again: the answer is the job that has it.
    """

    action: str
    filter: PendingFilter | None = None
    numbers: tuple[int, ...] | None = None
    due_ms: int | None = None
    shift_ms: int | None = None
    token: str = ""


class AnswerCounts(Value, frozen=True, kw_only=True):
    done: int
    too_late: int
    unknown: int
    failed: int


class Job(Value, frozen=True, kw_only=True):
    """`state`: waiting, running, done, stopped or failed. `total` is null if not known before.

    `is_resumed`: a restart has cut it short, and the counts may lack its last second before.
    """

    number: int
    action: str
    filter: PendingFilter | None
    number_count: int | None
    due_ms: int | None
    shift_ms: int | None
    by: str
    state: str
    started_ms: int
    ended_ms: int | None
    total: int | None
    matched: int
    answers: AnswerCounts
    error: str
    is_resumed: bool


class FindJob(Value, frozen=True, kw_only=True):
    """How far is a job?"""

    number: int


class StopJob(Value, frozen=True, kw_only=True):
    """Let a job end; what it has done stays so."""

    number: int


class ListJobs(Value, frozen=True, kw_only=True):
    """Which jobs are there?"""


class JobList(Value, frozen=True, kw_only=True):
    """The newest first."""

    jobs: tuple[Job, ...]


class SetRule(Value, frozen=True, kw_only=True):
    """Change a topic's rule; what is null stays as it is, 0 takes a rate or an expiry away."""

    topic: str
    is_paused: bool | None = None
    rate: int | None = None
    expiry_ms: int | None = None


class ListRules(Value, frozen=True, kw_only=True):
    """Which topics have rules of the road?"""


class TopicRule(Value, frozen=True, kw_only=True):
    """`rate` is in messages a second; `held_back` were due and may not go yet."""

    topic: str
    is_paused: bool
    rate: int | None
    expiry_ms: int | None
    pending: int
    held_back: int


class RuleList(Value, frozen=True, kw_only=True):
    rules: tuple[TopicRule, ...]


class AskForecast(Value, frozen=True, kw_only=True):
    """Which crowds ahead are larger than what can be carried?"""

    ahead_ms: int = 86_400_000


class Crowd(Value, frozen=True, kw_only=True):
    """`limit`: rate, pipeline or consumers; of the last two, `per_minute` is twice the most that
    was measured. An empty `topic`: all of them together."""

    topic: str
    limit: str
    per_minute: int
    start_ms: int
    end_ms: int
    peak_count: int
    wait_ms: int


class Forecast(Value, frozen=True, kw_only=True):
    """The earliest first."""

    crowds: tuple[Crowd, ...]


class ListLedger(Value, frozen=True, kw_only=True):
    """Outcomes of delayed messages: rows of the ledger, a page at a time. `late_ms`: only those
    that were at least so late."""

    topic: str | None = None
    outcome: str | None = None
    late_ms: int | None = None
    limit: int = 100
    cursor: str | None = None


class LedgerRow(Value, frozen=True, kw_only=True):
    """One delayed message; what is not known of it, or has not happened, is null."""

    number: int
    outcome: str
    topic: str | None
    queue_id: int | None
    queue_offset: int | None
    unique_id: str | None
    keys: str | None
    tags: str | None
    sent_ms: int | None
    accepted_ms: int | None
    due_ms: int | None
    visible_ms: int | None
    late_ms: int | None
    ended_ms: int | None


class LedgerPage(Value, frozen=True, kw_only=True):
    """What waits, then what ended, then what was delivered; `cursor` is null at the end. A page may
    be short though more follows."""

    rows: tuple[LedgerRow, ...]
    cursor: str | None = None


WAITING_ACTIONS: Final[dict[str, tuple[type[Value], type[Value]]]] = {
    "count_matching": (CountMatching, MatchingCount),
    "list_matching": (ListMatching, MatchingPage),
    "look_ahead": (LookAhead, Road),
    "describe_message": (DescribeMessage, MessageEntries),
    "change_numbers": (ChangeNumbers, NumberAnswers),
    "start_job": (StartJob, Job),
    "find_job": (FindJob, Job),
    "stop_job": (StopJob, Job),
    "list_jobs": (ListJobs, JobList),
    "set_rule": (SetRule, RuleList),
    "list_rules": (ListRules, RuleList),
    "forecast": (AskForecast, Forecast),
    "list_ledger": (ListLedger, LedgerPage),
}
"""Every action's name with the types of its request and its answer."""
