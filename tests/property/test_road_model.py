"""Rules of topics, and jobs that change what waits, in random histories with restarts and crashes.

Pauses, rates and expiries come and go while messages are accepted, carried over, cancelled, moved
and shown; deliveries may be stale, jobs may be cut short by a crash or meet a pause. After each
step an oracle that knows only promises looks at the queues and at what waits (`road_model.py`).
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from tests.conftest import EXAMPLES, IS_SOAK
from tests.crash.observing import parse
from tests.property.road_model import CANCELLED, Queue, RoadModel, Sent, Step
from tests.unit.store.making import QuickFiles, Wall, open_store, routed, taken_aside

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.waiting import changing
from dueline.broker.waiting.changing import Change
from dueline.broker.waiting.filters import PendingFilter
from dueline.broker.waiting.jobs import JobOrder, Jobs
from dueline.broker.waiting.rules import TopicRules
from dueline.message import Message
from dueline.store import Answer, Observer, StoreOptions, restore
from dueline.store.carrying import carried
from dueline.store.thresholds import Thresholds

ORDER_WAIT_MS = 2_000
TOPICS = ("a", "b")
OPTIONS = StoreOptions(
    commit_segment_size_bytes=16_384,
    delay_segment_size_bytes=16_384,
    queue_file_units=7,
    order_wait_ms=ORDER_WAIT_MS,
    disk_used_ratio_max=1.0,
    thresholds=Thresholds(part_rows=3, merge_run_count=3, scan_run_rows=4, forget_states_min=8),
)
STEP_COUNT = 80 if IS_SOAK else 40
RUN_COUNT = EXAMPLES // 2 if IS_SOAK else EXAMPLES // 6

QUEUES = st.tuples(st.sampled_from(TOPICS), st.integers(0, 1))
TOPIC = st.sampled_from(TOPICS)
DELAYS = st.one_of(st.integers(1, 400), st.integers(1, 6_000), st.just(40_000))
STEPS = st.one_of(st.integers(1, 300), st.integers(1, 3_000), st.just(20_000))
CHOICE = st.integers(0, 1 << 20)


class Expiries(Observer):
    """How many have expired, as those are told who count."""

    def __init__(self) -> None:
        self.count = 0

    def expired(self, count: int) -> None:
        self.count += count


class RoadMachine(RuleBasedStateMachine):
    """Drives a store with its rules and jobs, and tells the oracle what it sees."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="dueline-road-"))
        self.generation = 0
        self.wall = Wall()
        self.model = RoadModel(ORDER_WAIT_MS)
        self.stale: list[pa.RecordBatch] = []
        self.token = 0
        self._open()

    @property
    def path(self) -> Path:
        return self.folder / str(self.generation)

    def _open(self) -> None:
        self.store = open_store(self.path / "store", self.wall, OPTIONS)
        assert self.store.report.damage == []
        self.store.aside.keep(300)
        self.expiries = Expiries()
        self.store.observe(self.expiries)
        offsets = ConsumerOffsets(self.path / "offsets.json", QuickFiles())
        self.topic_rules = TopicRules(self.store, offsets)
        self.jobs = Jobs(self.store, self.path / "jobs", QuickFiles())

    # Looking

    def look(self, step: Step = Step()) -> None:  # noqa: B008 - it cannot be changed
        """Compare all that can be seen with what may be; the end of every step."""
        now_ms = self.store.clock.now_ms()
        for queue in self.store.queues():
            self.model.see(queue, self._read(queue), now_ms, step)
        self.model.check_rates()
        pending, at_gate = self._waiting()
        before = self.expiries.count
        expired = self.model.settle(pending, at_gate, now_ms)
        if not step.is_reopened:  # nobody counts what expires while a store is opened
            self.told = getattr(self, "told", 0) + expired
            assert before == self.told, "expired, and not counted"

    def _read(self, queue: Queue) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        offset, end = self.store.offset_range(*queue)
        while offset < end:
            result = self.store.read(*queue, offset, count_max=100)
            assert result.damaged == []
            seen = [parse(bytes(view)) for view in result.records]
            found += [(each.uid, each.store_ms) for each in seen]
            offset = result.next_offset
        return found

    def _waiting(self) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
        """Due times by unique id: of what is pending, and of what stands at the gate."""
        found: tuple[dict[str, list[int]], dict[str, list[int]]]
        found = (defaultdict(list), defaultdict(list))
        survey = self.store.survey()
        for rows, _ in survey.slabs():
            records = survey.records(rows).to_pylist()
            columns = zip(rows.units.due_ms.tolist(), rows.is_at_gate.tolist(), strict=True)
            for (due_ms, is_at_gate), record in zip(columns, records, strict=True):
                found[is_at_gate][parse(record).uid].append(due_ms)
        return found

    # Putting

    def _message(self, queue: Queue, delay_ms: int | None) -> Message:
        self.token += 1
        uid = f"M{self.token}"
        properties = {"UNIQ_KEY": uid}
        due_ms = None
        if delay_ms is not None:
            properties["TIMER_DELAY_MS"] = str(delay_ms)
            due_ms = self.store.clock.now_ms() + delay_ms
        self.model.put(uid, queue, due_ms)
        return Message(topic=queue[0], queue_id=queue[1], body=b"body", properties=properties)

    @rule(queue=QUEUES, delays=st.lists(DELAYS, min_size=1, max_size=12))
    def put(self, queue: Queue, delays: list[int]) -> None:
        self.store.put_all([self._message(queue, delay_ms) for delay_ms in delays])
        self.look()

    @rule(queue=QUEUES)
    def put_ordinary(self, queue: Queue) -> None:
        self.store.put(self._message(queue, None))
        self.look(Step(ordinary=queue))

    # Delivering

    @rule(ahead_ms=st.sampled_from([0, 1_000, 30_000]), limit=st.integers(1, 30))
    def read_window(self, ahead_ms: int, limit: int) -> None:
        until_ms = self.store.clock.now_ms() + ahead_ms
        corner = self.store.next_corner(until_ms=until_ms, row_count_max=limit)
        batch = self.store.read_window(self.store.window(corner))
        if batch.num_rows:
            self.stale = [*self.stale[-2:], batch]

    @precondition(lambda self: self.stale)
    @rule(choice=CHOICE)
    def deliver(self, choice: int) -> None:
        """A window that was read now, or before rules and messages have changed."""
        batch = self.stale[choice % len(self.stale)]
        self._tell_carried(batch)
        self.store.deliver([restore.deliveries(batch)])
        self.look()

    def _tell_carried(self, batch: pa.RecordBatch) -> None:
        self.model.carried(parse(record).uid for record in batch.column("record").to_pylist())

    @rule()
    def shortcut(self) -> None:
        rows = taken_aside(self.store)
        if rows is None:
            return
        self._tell_carried(rows)
        self.store.deliver(list(carried(rows, routed(rows))))
        self.look()

    # Time

    @rule(step_ms=STEPS)
    def advance(self, step_ms: int) -> None:
        """Time passes, and the broker looks after the gate and the rules."""
        self.wall.advance(step_ms)

    @rule()
    def open_gate(self) -> None:
        self.store.open_gate()
        self.look()

    @rule()
    def sweep(self) -> None:
        self.store.numbers.sweep()
        self.look()

    # Rules

    @rule(topic=TOPIC, is_paused=st.booleans())
    def pause(self, topic: str, is_paused: bool) -> None:
        self.topic_rules.change(topic, is_paused=is_paused)
        self.look()
        self.model.change(topic, self.store.clock.now_ms(), is_paused=is_paused)

    @rule(topic=TOPIC, rate=st.sampled_from([None, 1, 3, 10]))
    def set_rate(self, topic: str, rate: int | None) -> None:
        self.topic_rules.change(topic, rate=rate or 0)
        self.look()
        self.model.change(topic, self.store.clock.now_ms(), rate=rate)

    @rule(topic=TOPIC, expiry_ms=st.sampled_from([None, 500, 5_000]))
    def set_expiry(self, topic: str, expiry_ms: int | None) -> None:
        self.topic_rules.change(topic, expiry_ms=expiry_ms or 0)
        now_ms = self.store.clock.now_ms()
        shown = self.model.rules[topic]
        self.model.change(topic, now_ms, expiry_ms=expiry_ms)
        for queue in self.store.queues():  # before the rule was there
            self.model.rules[topic], kept = shown, self.model.rules[topic]
            self.model.see(queue, self._read(queue), now_ms, Step())
            self.model.rules[topic] = kept
        self.look()

    # Changing what waits

    @precondition(lambda self: self.model.waiting())
    @rule(choice=CHOICE)
    def cancel(self, choice: int) -> None:
        waiting = self.model.waiting()
        sent = waiting[choice % len(waiting)]
        if self.store.cancel(sent.uid) == Answer.CANCELLED:
            sent.state = CANCELLED
        self.look()

    @rule(
        topic=TOPIC,
        due_ms=st.one_of(st.none(), st.tuples(st.integers(-2_000, 2_000), st.integers(1, 5_000))),
        change=st.one_of(
            st.just(("cancel", 0)),
            st.just(("deliver", 0)),
            st.tuples(st.just("shift"), st.integers(-3_000, 3_000)),
            st.tuples(st.just("reschedule"), st.integers(-10, 5_000)),
        ),
        portions=st.integers(0, 4),
        meanwhile=st.sampled_from(["", "", "pause", "rate", "crash", "reopen", "pause and crash"]),
    )
    def job(
        self,
        topic: str,
        due_ms: tuple[int, int] | None,
        change: tuple[str, int],
        portions: int,
        meanwhile: str,
    ) -> None:
        """A job over a filter, in portions of two; something may happen in the midst of it."""
        now_ms = self.store.clock.now_ms()
        self.store.open_gate()  # what is due is not the job's any more
        self.look()
        wanted = PendingFilter(topic=topic)
        if due_ms is not None:
            start_ms = now_ms + due_ms[0]
            wanted = PendingFilter(
                topic=topic, due_start_ms=start_ms, due_end_ms=start_ms + due_ms[1]
            )
        meant = [sent for sent in self.model.waiting() if self._is_meant(sent, wanted)]
        action, number = change
        order = Change(
            action=action,
            due_ms=now_ms + number if action == "reschedule" else None,
            shift_ms=number if action == "shift" else None,
        )
        with mock.patch.multiple(changing, CANCEL_ROWS=2, MOVE_ROWS=2):
            self.jobs.start(JobOrder(change=order, filter=wanted))
            while portions and self.jobs.work():
                portions -= 1
            self._meanwhile(meanwhile, topic)
            while self.jobs.work():
                pass
        assert self.jobs.list()[0].state == "done"
        for sent in meant:
            self._changed(sent, action, number, now_ms)
        self.look(Step(is_reopened=meanwhile.endswith(("crash", "reopen"))))

    def _is_meant(self, sent: Sent, wanted: PendingFilter) -> bool:
        assert sent.due_ms is not None
        start_ms, end_ms = wanted.due_start_ms or 0, wanted.due_end_ms or 1 << 60
        return sent.queue[0] == wanted.topic and start_ms <= sent.due_ms < end_ms

    def _meanwhile(self, what: str, topic: str) -> None:
        now_ms = self.store.clock.now_ms()
        if what.startswith("pause"):
            self.topic_rules.change(topic, is_paused=True)
            self.model.change(topic, now_ms, is_paused=True)
        elif what == "rate":
            self.topic_rules.change(topic, rate=2)
            self.model.change(topic, now_ms, rate=2)
        if what.endswith("crash"):
            self._crash()
        elif what == "reopen":
            self._reopen()

    def _changed(self, sent: Sent, action: str, number: int, now_ms: int) -> None:
        assert sent.due_ms is not None
        if action == "cancel":
            sent.state = CANCELLED
        elif action == "deliver":
            sent.due_ms = min(sent.due_ms, now_ms)
        elif action == "shift":
            moved_ms = sent.due_ms + number
            sent.due_ms = max(moved_ms, now_ms) if number else sent.due_ms
        elif sent.due_ms != now_ms + number:
            sent.due_ms = max(now_ms + number, now_ms)

    # Housekeeping

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()
        self.store.maintain()

    @rule()
    def reopen(self) -> None:
        self._reopen()
        self.look(Step(is_reopened=True))

    @rule()
    def crash(self) -> None:
        """Go on with a copy of the files as they are now."""
        self._crash()
        self.look(Step(is_reopened=True))

    def _reopen(self) -> None:
        self.store.close()
        self._open()
        self.told = 0

    def _crash(self) -> None:
        old = self.path
        self.generation += 1
        shutil.copytree(old, self.path)
        self._abandon()
        shutil.rmtree(old)
        self._open()
        self.told = 0

    def _abandon(self) -> None:
        self.store._core.fail(OSError("abandoned by the test"))
        self.store.close()

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self._drain()
        finally:
            self._abandon()
            shutil.rmtree(self.folder)

    def _drain(self) -> None:
        """Resume all; then everything comes as soon as its rate allows, or expires."""
        for topic in TOPICS:
            self.pause(topic, is_paused=False)
        latest = self.model.latest(self.store.clock.now_ms())
        while waiting := self.model.waiting():
            late = [sent.uid for sent in waiting if self.store.clock.now_ms() > latest[sent.uid]]
            assert not late, f"{late}: could have come by now"
            self.read_window(ahead_ms=30_000, limit=100)
            if self.stale:
                self.deliver(choice=len(self.stale) - 1)
            self.advance(500)
            self.open_gate()
            self.sweep()


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_rules_of_topics_are_kept(record_property: Callable[[str, str], None]) -> None:
    record_property("campaign", f"{RUN_COUNT} runs of up to {STEP_COUNT} steps")
    machine: Any = RoadMachine
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=RUN_COUNT,
            stateful_step_count=STEP_COUNT,
            deadline=None,
            derandomize=not IS_SOAK,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
