"""Requests and answers of the web process: figures, topics, groups, one message, sending.

They are actions like those of `dueline.flight.operators`, in the same JSON; see
`docs/protocol/operators.md`. Every list has a bound, and goes on after a name where it has more.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dueline.errors import InvalidRequest
from dueline.flight.values import Value

__all__ = ["CONSOLE_ACTIONS"]

PAGE_COUNT_MAX: Final = 1_000
BODY_SIZE_MAX: Final = 1 << 20
"""Of a body that is looked at, no more than this is sent."""


def _check_page(count_max: int) -> None:
    if not 1 <= count_max <= PAGE_COUNT_MAX:
        raise InvalidRequest(
            f"count_max: expected 1 to {PAGE_COUNT_MAX}, found {count_max}", field="count_max"
        )


# --- figures --------------------------------------------------------------------------------------


class Measure(Value, frozen=True, kw_only=True):
    """What a monitor wants to know."""


class Histogram(Value, frozen=True, kw_only=True):
    """`counts` has one more than `bounds`: what is above the last."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


class MeasuredTopic(Value, frozen=True, kw_only=True):
    """`end` counts what became visible ever, `start` what of it is gone."""

    topic: str
    pending_count: int
    start: int
    end: int


class MeasuredPlace(Value, frozen=True, kw_only=True):
    """A group in a topic; `lag_ms`: for how long its next message has been visible."""

    group: str
    topic: str
    lag: int
    lag_ms: int
    in_flight_count: int
    client_count: int


class Measured(Value, frozen=True, kw_only=True):
    """`horizons`: how many fall due within so many ms. `runway_ms`: until the next message falls
    due that is not carried over yet; null if none waits. `is_cut`: not every topic or place is
    listed."""

    cluster: str
    runway_ms: int | None
    ahead_ms: int
    horizons: dict[str, int]
    topics: tuple[MeasuredTopic, ...]
    places: tuple[MeasuredPlace, ...]
    is_cut: bool
    disk_used_bytes: int
    disk_free_bytes: int
    first_stored_ms: int | None
    undecided_count: int
    lateness_ms: Histogram
    sync_s: Histogram
    group_rows: Histogram
    batch_rows: Histogram


class ReadHistory(Value, frozen=True, kw_only=True):
    """What happened during the last day?"""


class MinuteFigures(Value, frozen=True, kw_only=True):
    """From `start_ms` on, for a minute; lateness is null where nothing became visible."""

    start_ms: int
    sent_count: int
    delayed_count: int
    shown_count: int
    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None


class BatchFigures(Value, frozen=True, kw_only=True):
    """One delivery of the pipeline."""

    time_ms: int
    row_count: int
    skipped_count: int
    dropped_count: int


class HistoryRead(Value, frozen=True, kw_only=True):
    """Minutes in which nothing happened are left out; the oldest first."""

    now_ms: int
    minutes: tuple[MinuteFigures, ...]
    batches: tuple[BatchFigures, ...]


class ListSettings(Value, frozen=True, kw_only=True):
    """How is the broker set up?"""


class SettingValue(Value, frozen=True, kw_only=True):
    """`value` and `default` as they stand in the file; secrets are masked."""

    name: str
    value: str
    default: str
    text: str


class SettingList(Value, frozen=True, kw_only=True):
    """In the order of the documents."""

    settings: tuple[SettingValue, ...]


# --- topics ---------------------------------------------------------------------------------------


class ListTopics(Value, frozen=True, kw_only=True):
    """Which topics are there, by name, after this one?"""

    after: str = ""
    count_max: int = 100
    contains: str = ""
    is_internal: bool = False

    def check(self) -> None:
        _check_page(self.count_max)


class TopicFigures(Value, frozen=True, kw_only=True):
    """`first_ms` is when the oldest message that is kept became visible, `last_ms` when the last
    one did; null without one."""

    topic: str
    queue_count: int
    message_count: int
    pending_count: int
    last_ms: int | None
    groups: tuple[str, ...]
    is_internal: bool
    first_ms: int | None = None


class TopicList(Value, frozen=True, kw_only=True):
    """`next`: list after this one for more; null at the end. `retention_ms`: for so long messages
    are kept, in every topic."""

    topics: tuple[TopicFigures, ...]
    next: str | None
    retention_ms: int = 0


class CreateTopic(Value, frozen=True, kw_only=True):
    """Make a topic, or change how many queues it has."""

    topic: str
    queue_count: int = 4


class DeleteTopic(Value, frozen=True, kw_only=True):
    """Forget a topic; its messages go when their retention ends."""

    topic: str


class TopicChanged(Value, frozen=True, kw_only=True):
    topic: str


# --- groups ---------------------------------------------------------------------------------------


class ListGroups(Value, frozen=True, kw_only=True):
    """Which consumer groups are there, by name, after this one?"""

    after: str = ""
    count_max: int = 100
    contains: str = ""

    def check(self) -> None:
        _check_page(self.count_max)


class GroupClient(Value, frozen=True, kw_only=True):
    client_id: str
    address: str
    language: str
    seen_ms: int


class GroupTopic(Value, frozen=True, kw_only=True):
    """How far a group is in a topic; `consumed_ms`: the time of the last message it has read."""

    topic: str
    lag: int
    consumed_ms: int | None


class GroupFigures(Value, frozen=True, kw_only=True):
    group: str
    retry_count_max: int
    dead_letter_count: int
    clients: tuple[GroupClient, ...]
    topics: tuple[GroupTopic, ...]


class GroupList(Value, frozen=True, kw_only=True):
    """`next`: list after this one for more; null at the end."""

    groups: tuple[GroupFigures, ...]
    next: str | None


class ResetGroup(Value, frozen=True, kw_only=True):
    """Let a group go on from a time, or with null from the end of a topic."""

    group: str
    topic: str
    timestamp_ms: int | None


class GroupReset(Value, frozen=True, kw_only=True):
    """Where it goes on, by queue."""

    offsets: dict[str, int]


class ListDeadLetters(Value, frozen=True, kw_only=True):
    """What could a group not handle? The newest first, before an offset."""

    group: str
    before: int | None = None
    count_max: int = 50

    def check(self) -> None:
        _check_page(self.count_max)


class DeadLetter(Value, frozen=True, kw_only=True):
    """`offset` is its place among the group's dead letters."""

    offset: int
    unique_id: str
    topic: str
    keys: str
    attempts: int
    died_ms: int
    body: bytes
    body_size_bytes: int


class DeadLetterList(Value, frozen=True, kw_only=True):
    """`next`: list before this offset for more; null at the end."""

    letters: tuple[DeadLetter, ...]
    next: int | None


class ResendDeadLetter(Value, frozen=True, kw_only=True):
    """Let the group have a dead letter once more, or send it to its topic as a new message."""

    group: str
    offset: int
    is_to_topic: bool = False


class DeadLetterResent(Value, frozen=True, kw_only=True):
    unique_id: str


class ListUndecided(Value, frozen=True, kw_only=True):
    """Which transactions has nobody decided, the oldest first?"""

    count_max: int = 100

    def check(self) -> None:
        _check_page(self.count_max)


class Undecided(Value, frozen=True, kw_only=True):
    topic: str
    group: str
    stored_ms: int
    ask_count: int


class UndecidedList(Value, frozen=True, kw_only=True):
    count: int
    messages: tuple[Undecided, ...]


# --- messages -------------------------------------------------------------------------------------


class Inspect(Value, frozen=True, kw_only=True):
    """What is known of a message: by key, unique id or offset id; of those that were never delayed
    only with their topic or by offset id."""

    name: str
    topic: str | None = None


class Place(Value, frozen=True, kw_only=True):
    """Where consumers find it; `visible_ms`: since when."""

    topic: str
    queue_id: int
    offset: int
    visible_ms: int


class Readership(Value, frozen=True, kw_only=True):
    """Whether a group is past the message."""

    group: str
    has_read: bool


class Inspected(Value, frozen=True, kw_only=True):
    """`number` is its place in the order of acceptance, null if it was never delayed; `due_ms`
    likewise. Of the body no more than a bound is here."""

    number: int | None
    state: str
    topic: str
    queue_id: int
    unique_id: str
    keys: str
    tag: str
    properties: dict[str, str]
    born_ms: int
    accepted_ms: int
    due_ms: int | None
    place: Place | None
    readers: tuple[Readership, ...]
    body: bytes
    body_size_bytes: int


class InspectedList(Value, frozen=True, kw_only=True):
    """The newest first."""

    now_ms: int
    messages: tuple[Inspected, ...]


class Send(Value, frozen=True, kw_only=True):
    """A message; at most one of `deliver_at_ms`, `delay_ms` and `delay_level`."""

    topic: str
    body: bytes
    keys: tuple[str, ...] = ()
    tag: str = ""
    properties: dict[str, str] = msgspec.field(default_factory=dict)
    queue_id: int | None = None
    deliver_at_ms: int | None = None
    delay_ms: int | None = None
    delay_level: int | None = None

    def check(self) -> None:
        times = (self.deliver_at_ms, self.delay_ms, self.delay_level)
        if len([each for each in times if each is not None]) > 1:
            raise InvalidRequest(
                "expected one of deliver_at_ms, delay_ms and delay_level, found several",
                field="delay_ms",
            )
        if self.queue_id is not None and self.queue_id < 0:
            raise InvalidRequest(
                f"queue_id: expected 0 or more, found {self.queue_id}", field="queue_id"
            )


class SentMessage(Value, frozen=True, kw_only=True):
    """`due_ms` is null for a message that is not delayed."""

    unique_id: str
    topic: str
    queue_id: int
    due_ms: int | None


# --- traces ---------------------------------------------------------------------------------------


class ReadTraces(Value, frozen=True, kw_only=True):
    """Which messages that carry a trace became visible since this was asked the last time?"""


class TracedMessage(Value, frozen=True, kw_only=True):
    """Times that are not known are null; `sent_ms` is by the clock of its producer."""

    topic: str
    queue_id: int
    queue_offset: int
    unique_id: str
    traceparent: str
    tracestate: str
    size_bytes: int
    sent_ms: int
    visible_ms: int
    accepted_ms: int | None = None
    due_ms: int | None = None


class TracedHandOut(Value, frozen=True, kw_only=True):
    """A client of a group was handed a message; `attempt` counts from 1."""

    message: TracedMessage
    group: str
    attempt: int
    handed_ms: int


class TracesRead(Value, frozen=True, kw_only=True):
    """`has_more`: ask again at once; `lost_count`: hand-outs that were forgotten meanwhile."""

    messages: tuple[TracedMessage, ...]
    handed: tuple[TracedHandOut, ...]
    lost_count: int
    has_more: bool


CONSOLE_ACTIONS: Final[dict[str, tuple[type[Value], type[Value]]]] = {
    "measure": (Measure, Measured),
    "read_history": (ReadHistory, HistoryRead),
    "list_settings": (ListSettings, SettingList),
    "list_topics": (ListTopics, TopicList),
    "create_topic": (CreateTopic, TopicChanged),
    "delete_topic": (DeleteTopic, TopicChanged),
    "list_groups": (ListGroups, GroupList),
    "reset_group": (ResetGroup, GroupReset),
    "list_dead_letters": (ListDeadLetters, DeadLetterList),
    "resend_dead_letter": (ResendDeadLetter, DeadLetterResent),
    "list_undecided": (ListUndecided, UndecidedList),
    "inspect": (Inspect, InspectedList),
    "send": (Send, SentMessage),
    "read_traces": (ReadTraces, TracesRead),
}
"""Every action's name with the types of its request and its answer."""
