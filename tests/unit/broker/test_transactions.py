"""Half messages: decided once, whoever asks how often, and whatever crashes."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.small_disk import SmallDisk, mounted
from tests.waiting import PATIENCE_S

from dueline.broker import transactions
from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.names import OUTCOME_TOPIC, UNDECIDED_TOPIC
from dueline.broker.transactions import TransactionOptions, Transactions
from dueline.broker.writing import Done
from dueline.errors import InvalidRequest, LimitExceeded, NotFound, Unavailable
from dueline.message import Message, decode_properties
from dueline.store import Files, PutResult, Record, Store, StoreOptions, restore
from dueline.store import record as records
from dueline.testing import ManualClock

OPTIONS = TransactionOptions(first_ask_ms=6_000, ask_interval_ms=30_000, ask_count_max=2)
SMALL = StoreOptions(
    flush="async",  # no power fails here
    commit_segment_size_bytes=65_536,
    delay_segment_size_bytes=65_536,
    queue_file_units=100,
)


class Broker:
    """A store whose writer is this thread, and which can be made to fail."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.folder = folder
        self.clock = clock
        self.open()

    def open(self) -> None:
        self.store = Store.open(self.folder / "s", SMALL, clock=self.clock, files=Files())
        self.offsets = ConsumerOffsets(self.folder / "offsets.json", Files())
        self.is_failing = False
        self.is_full = False
        self.fails_from: int | None = None  # so many writes succeed
        self.writes: list[Sequence[Message]] = []
        self.transactions = Transactions(self.store, self.offsets, self._submit, OPTIONS)

    def reopen(self, *, save: bool) -> None:
        if save:
            self.offsets.save()
        self.store.close()
        self.open()

    def _submit(self, messages: Sequence[Message], done: Done) -> None:
        if self.is_full:
            raise LimitExceeded("too much waits")
        self.writes.append(messages)
        is_failing = self.is_failing or self.fails_from == 0
        if self.fails_from:
            self.fails_from -= 1
        if is_failing:
            done(Unavailable("the disk is full"))
        else:
            done(self.store.put_all(messages))

    def half(self, body: bytes = b"half", **properties: str) -> PutResult:
        return self.store.put(
            Message(
                topic="orders",
                queue_id=1,
                body=body,
                properties={"TRAN_MSG": "true", "PGROUP": "pg", **properties},
                sys_flag=4,
            )
        )

    def end(self, half: PutResult, *, commit: bool, group: str = "pg") -> BaseException | None:
        answers: list[BaseException | None] = []
        self.transactions.end(half.position, commit=commit, group=group, done=answers.append)
        assert len(answers) == 1
        return answers[0]

    def read(self, topic: str, queue_id: int = 0) -> list[Record]:
        result = self.store.read(topic, queue_id, 0, count_max=1_000)
        return [records.decode(view) for view in result.records]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path, ManualClock(1_700_000_000_000))
    yield made
    made.store.close()


def test_half_message_is_not_seen_until_it_is_committed(broker: Broker) -> None:
    half = broker.half()
    assert broker.read("orders", 1) == []

    assert broker.end(half, commit=True) is None

    (committed,) = broker.read("orders", 1)
    assert committed.body == b"half"
    assert committed.sys_flag & 0xC == 8
    assert committed.prepared_position == half.position
    assert [record.body for record in broker.read(OUTCOME_TOPIC)] == [b"0"]


def test_rolled_back_message_is_never_seen(broker: Broker) -> None:
    assert broker.end(broker.half(), commit=False) is None

    assert broker.read("orders", 1) == []
    assert len(broker.read(OUTCOME_TOPIC)) == 1
    assert len(broker.transactions) == 1  # until the next look
    assert broker.transactions.due(1 << 60) == []
    assert len(broker.read(OUTCOME_TOPIC)) == 1


@pytest.mark.parametrize("second", [True, False])
def test_first_decision_stays(broker: Broker, second: bool) -> None:
    half = broker.half()
    broker.end(half, commit=not second)

    assert broker.end(half, commit=second) is None

    assert len(broker.read("orders", 1)) == (0 if second else 1)


def test_committed_delay_is_waited_for(broker: Broker) -> None:
    half = broker.half(TIMER_DELAY_MS="5000")
    broker.clock.advance(1_000)

    broker.end(half, commit=True)

    assert broker.read("orders", 1) == []
    assert broker.store.next_due_ms() == broker.clock.now_ms() + 5_000
    corner = broker.store.next_corner(until_ms=1 << 60, row_count_max=10)
    broker.store.deliver(
        [restore.deliveries(broker.store.read_window(broker.store.window(corner)))]
    )
    broker.clock.advance(5_000)
    broker.store.open_gate()
    assert [record.body for record in broker.read("orders", 1)] == [b"half"]


def test_strangers_and_strange_places_are_refused(broker: Broker) -> None:
    half = broker.half()
    plain = broker.store.put(Message(topic="orders", body=b"plain"))

    with pytest.raises(InvalidRequest, match="group"):
        broker.end(half, commit=True, group="other")
    with pytest.raises(NotFound):
        broker.end(plain, commit=True)
    with pytest.raises(NotFound):
        broker.transactions.record(half.position + 1)
    assert broker.read("orders", 1) == []


def test_failed_write_can_be_tried_again(broker: Broker) -> None:
    half = broker.half()
    broker.is_failing = True
    assert isinstance(broker.end(half, commit=True), Unavailable)

    broker.is_failing = False
    assert broker.end(half, commit=True) is None

    assert len(broker.read("orders", 1)) == 1


@pytest.mark.parametrize("is_delayed", [False, True])
def test_outcome_is_written_when_the_message_is_on_disk(broker: Broker, is_delayed: bool) -> None:
    """Not with it: a power cut may lose the message's part of a write and keep the outcome's."""
    half = broker.half(DELAY="3") if is_delayed else broker.half()
    broker.writes.clear()

    broker.end(half, commit=True)

    assert [[message.topic for message in write] for write in broker.writes] == [
        ["orders"],
        [OUTCOME_TOPIC],
    ]


def test_commit_that_is_refused_decides_nothing(broker: Broker) -> None:
    half = broker.half()
    core = broker.store._core
    core.rules = replace(core.rules, body_size_max=2)  # the broker was started with less
    assert isinstance(broker.end(half, commit=True), LimitExceeded)

    broker.reopen(save=True)

    assert [each.position for each in broker.transactions.due(1 << 60)] == [half.position]
    assert broker.end(half, commit=True) is None
    assert len(broker.read("orders", 1)) == 1


def test_outcome_that_could_not_be_written_is_written_later(broker: Broker) -> None:
    half = broker.half()
    broker.fails_from = 1
    assert broker.end(half, commit=True) is None, "the message is on disk"
    assert broker.read(OUTCOME_TOPIC) == []
    assert broker.end(half, commit=True) is None

    broker.fails_from = None
    assert broker.transactions.due(1 << 60) == []

    assert len(broker.read(OUTCOME_TOPIC)) == 1
    assert len(broker.read("orders", 1)) == 1
    broker.transactions.refresh()
    assert len(broker.transactions) == 0


def test_others_can_decide_while_an_outcome_is_written_again(broker: Broker) -> None:
    half, other = broker.half(), broker.half()
    broker.fails_from = 1
    broker.end(half, commit=True)
    broker.fails_from = None

    def submit(messages: Sequence[Message], done: Done) -> None:
        if messages[0].body == b"0":
            thread = threading.Thread(target=broker.end, args=(other,), kwargs={"commit": True})
            thread.start()
            thread.join(PATIENCE_S)
        broker._submit(messages, done)

    broker.transactions._put = submit
    broker.transactions.due(1 << 60)

    outcomes = [record.body for record in broker.read(OUTCOME_TOPIC)]
    assert outcomes == [b"1", b"0"], "whoever writes may wait, and nobody else with it"


def test_message_that_was_put_aside_without_its_outcome_is_not_put_aside_again(
    broker: Broker,
) -> None:
    broker.half()
    (half,) = broker.transactions.due(1 << 60)
    half.ask_count = 99
    broker.fails_from = 1
    assert broker.transactions.asked(half, broker.clock.now_ms(), is_heard=True)

    broker.reopen(save=True)

    assert broker.transactions.due(1 << 60) == []
    assert len(broker.read(UNDECIDED_TOPIC)) == 1


@pytest.mark.parametrize("save", [True, False])
def test_restart_forgets_no_decision_and_no_question(broker: Broker, save: bool) -> None:
    first, second, third = broker.half(b"1"), broker.half(b"2"), broker.half(b"3")
    broker.end(second, commit=False)
    broker.end(third, commit=True)
    broker.transactions.refresh()

    broker.reopen(save=save)

    broker.clock.advance(6_000)
    due = broker.transactions.due(broker.clock.now_ms())
    assert [half.position for half in due] == [first.position]
    broker.end(second, commit=True)
    broker.end(third, commit=True)
    assert [record.body for record in broker.read("orders", 1)] == [b"3"]


@pytest.mark.parametrize("start", [1 << 44, 1 << 45, (1 << 62) - (1 << 20)])
def test_transactions_work_however_long_the_log_has_become(tmp_path: Path, start: int) -> None:
    """More has passed a log than the bits of a mark can count."""
    segment = tmp_path / "s" / "commitlog" / f"{start:020d}"
    segment.parent.mkdir(parents=True)
    segment.write_bytes(bytes(SMALL.commit_segment_size_bytes))
    broker = Broker(tmp_path, ManualClock(1_700_000_000_000))
    halves = [broker.half(b"%d" % number) for number in range(3)]
    assert halves[0].position == start
    broker.fails_from = 1  # the outcome of the first is not written
    broker.end(halves[0], commit=True)
    broker.fails_from = None

    broker.reopen(save=True)

    due = broker.transactions.due(1 << 60)
    assert [half.position for half in due] == [half.position for half in halves[1:]]
    assert broker.end(halves[1], commit=True) is None
    committed = broker.read("orders", 1)
    assert [record.prepared_position for record in committed] == [
        half.position for half in halves[:2]
    ]
    broker.store.close()


@pytest.mark.parametrize("is_delayed", [False, True])
def test_commit_without_its_outcome_is_not_committed_again(
    broker: Broker, is_delayed: bool
) -> None:
    half = broker.half(DELAY="3") if is_delayed else broker.half()
    committed = Message(
        topic="orders",
        queue_id=1,
        body=b"half",
        properties={"TRAN_MSG": "true", "PGROUP": "pg", "UNIQ_KEY": half.unique_id}
        | ({"DELAY": "3"} if is_delayed else {}),
        sys_flag=8,
        prepared_position=half.position,
    )
    broker.store.put(committed)  # and then the broker died

    broker.reopen(save=True)

    assert broker.transactions.due(1 << 60) == []
    assert broker.end(half, commit=True) is None
    assert len(broker.read("orders", 1)) + broker.store.pending_count() == 1


def test_question_comes_after_a_while_and_again_after_the_interval(broker: Broker) -> None:
    broker.half()
    now_ms = broker.clock.now_ms()
    assert broker.transactions.due(now_ms + 5_999) == []

    (half,) = broker.transactions.due(now_ms + 6_000)
    broker.transactions.asked(half, now_ms + 6_000, is_heard=True)

    assert broker.transactions.due(now_ms + 35_999) == []
    assert broker.transactions.due(now_ms + 36_000) == [half]


def test_producer_can_ask_for_more_time(broker: Broker) -> None:
    broker.half(CHECK_IMMUNITY_TIME_IN_SECONDS="60")
    now_ms = broker.clock.now_ms()

    assert broker.transactions.due(now_ms + 59_999) == []
    assert len(broker.transactions.due(now_ms + 60_000)) == 1


def test_message_that_nobody_decides_is_put_aside(broker: Broker) -> None:
    broker.half(DELAY="3")
    now_ms = broker.clock.now_ms()
    (half,) = broker.transactions.due(now_ms + 6_000)
    for number in range(2):
        assert not broker.transactions.asked(half, now_ms + number, is_heard=True)
    assert not broker.transactions.asked(half, now_ms, is_heard=False)

    assert broker.transactions.asked(half, now_ms, is_heard=True)

    (aside,) = broker.read(UNDECIDED_TOPIC)
    assert aside.body == b"half"
    assert decode_properties(aside.properties)["REAL_TOPIC"] == "orders"
    assert broker.transactions.due(1 << 60) == []
    assert broker.read("orders", 1) == []
    assert broker.store.pending_count() == 0


def test_full_writer_puts_nothing_aside_and_loses_nothing(broker: Broker) -> None:
    sent = broker.half()
    now_ms = broker.clock.now_ms()
    (half,) = broker.transactions.due(now_ms + 6_000)
    half.ask_count = 99
    broker.is_full = True
    with pytest.raises(LimitExceeded):
        broker.transactions.asked(half, now_ms, is_heard=True)
    with pytest.raises(LimitExceeded):
        broker.end(sent, commit=True)

    broker.is_full = False

    assert broker.end(sent, commit=True) is None
    assert [record.body for record in broker.read("orders", 1)] == [b"half"]


def test_decision_names_the_half_message_that_stands_there(broker: Broker) -> None:
    sent = broker.half()

    with pytest.raises(NotFound, match="queue offset"):
        broker.transactions.end(
            sent.position, commit=True, group="pg", queue_offset=sent.queue_offset + 1, done=print
        )
    assert broker.read("orders", 1) == []


def test_half_messages_are_refused_while_too_many_are_undecided(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "UNDECIDED_COUNT_MAX", 2)
    first, _ = broker.half(), broker.half()
    broker.transactions.refresh()
    with pytest.raises(LimitExceeded, match="decide some of them first"):
        broker.transactions.check_room()

    broker.end(first, commit=True)
    broker.transactions.refresh()

    broker.transactions.check_room()


def steps_of(call: Callable[[], object]) -> int:
    """How many lines of Python run in a call, its loops among them."""
    count = 0

    def trace(frame: FrameType, event: str, arg: object) -> object:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def test_deciding_takes_as_long_behind_many_decided_ones(broker: Broker) -> None:
    broker.half(b"stuck")

    def decide_one() -> int:
        half = broker.half()
        return steps_of(lambda: broker.end(half, commit=False))

    early = max(decide_one() for _ in range(5))
    for _ in range(2_000):
        broker.end(broker.half(), commit=False)
    late = max(decide_one() for _ in range(5))

    assert late <= 1.5 * early
    assert len(broker.transactions) <= 2
    assert pickled_size(broker.transactions) < 20_000


def pickled_size(owner: Transactions) -> int:
    """About how much it remembers, in bytes: everything of its own but what it stands on."""
    own = {
        name: value
        for name, value in vars(owner).items()
        if name not in ("_put", "_store", "_offsets", "_lock")
    }
    return len(pickle.dumps(own))


@settings(max_examples=25, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["half", "end", "refresh", "restart"]), st.integers(0, 30)),
        max_size=40,
    )
)
def test_what_is_undecided_is_known_after_any_run(
    steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    broker = Broker(tmp_path_factory.mktemp("run"), ManualClock(1_700_000_000_000))
    undecided: list[PutResult] = []

    for step, number in steps:
        if step == "half":
            undecided.append(broker.half())
        elif step == "end" and undecided:
            half = undecided.pop(number % len(undecided))
            assert broker.end(half, commit=number % 2 == 0) is None
        elif step == "refresh":
            broker.transactions.refresh()
        elif step == "restart":
            broker.reopen(save=number % 2 == 0)

    found = broker.transactions.due(1 << 60)
    assert [half.position for half in found] == [half.position for half in undecided]
    broker.store.close()


@pytest.mark.slow
def test_a_full_disk_does_not_keep_transactions_from_starting(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", 2 << 20) as disk:
        broker = Broker(disk.path, ManualClock())
        half = broker.half()
        broker.fails_from = len(broker.writes) + 1  # the message is written, its outcome is not
        assert broker.end(half, commit=True) is None
        fill(broker, disk)

        broker.reopen(save=False)

        assert broker.read(OUTCOME_TOPIC) == []
        disk.free()
        broker.transactions.due(broker.clock.now_ms())
        assert len(broker.read(OUTCOME_TOPIC)) == 1
        assert len(broker.read("orders", 1)) == 1
        broker.store.close()


def fill(broker: Broker, disk: SmallDisk) -> None:
    """Until nothing more is accepted, also within the space that the log has reserved."""
    disk.fill()
    for number in range(10_000):
        try:
            broker.store.put(Message(topic="other", body=bytes(100), properties={"K": str(number)}))
        except Unavailable:
            return
