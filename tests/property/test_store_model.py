"""The store against a plain model, over random histories with restarts and crashes.

Every step may be followed by any other. After each one the store must show a prefix of what the
model shows (the gate may be behind, never ahead), in the same order, at the same offsets; when the
gate is opened, exactly that. At the end everything that is still pending is delivered and every
message must have been seen once.

The store's sizes are tiny, so that a few dozen steps fill segments, seal and merge runs, trim
states, roll queue files over and delete old segments.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.property.store_model import CANCELLED, Model, Queue, Shown
from tests.unit.store.making import Wall, int64s

from dueline.message import Message
from dueline.schedule import DelayLevels
from dueline.store import (
    CORNER_START,
    Answer,
    Corner,
    PutResult,
    ReadStatus,
    Store,
    StoreOptions,
    key_index,
    restore,
    run,
    states,
    timeline,
)
from dueline.store import record as records

IS_SOAK = os.environ.get("DUELINE_SOAK") == "1"

LEVEL_TABLES = ("1s 5s 10s", "2s 1m", "1s 2s 3s 4s")
RETENTION_MS = 30_000
TOPICS = ("a", "b%c")
QUEUES = st.tuples(st.sampled_from(TOPICS), st.integers(0, 2))
KEYS = st.lists(st.sampled_from(["k1", "k2", "k3", "k4"]), max_size=2, unique=True)
PADS = st.sampled_from([0, 0, 1, 40, 900])
DELAYS = st.one_of(st.integers(1, 3_000), st.integers(1, 5), st.sampled_from([60_000, 86_400_000]))
STEPS = st.one_of(st.integers(0, 50), st.integers(0, 4_000), st.sampled_from([60_000]))
WHEN = st.one_of(
    st.none(),
    st.tuples(st.just("DELAY"), st.integers(-1, 5)),
    st.tuples(st.just("TIMER_DELAY_SEC"), st.integers(-1, 4)),
    st.tuples(st.just("TIMER_DELAY_MS"), DELAYS),
    st.tuples(st.just("TIMER_DELIVER_MS"), DELAYS),
)
Row = tuple[Queue, tuple[str, int] | None, list[str], int]
ROWS = st.tuples(QUEUES, WHEN, KEYS, PADS)
CHOICE = st.integers(0, 1 << 20)


class StoreMachine(RuleBasedStateMachine):
    """Drives a store and the model with the same calls."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="dueline-model-"))
        self.generation = 0
        self.wall = Wall()
        self.model = Model()
        self.levels = LEVEL_TABLES[0]
        self.batches: list[pa.RecordBatch] = []
        self.corners: list[Corner] = []
        self.halves: list[tuple[int, Row, bytes]] = []
        self.token = 0
        self.seen: dict[Queue, list[Shown]] = {}
        self.starts: dict[Queue, int] = {}
        self.has_forgotten = False
        self.store: Store | None = None

    @initialize()
    def make(self) -> None:
        self.store = self._open()

    def _open(self) -> Store:
        options = StoreOptions(
            commit_segment_size_bytes=8_192,
            delay_segment_size_bytes=16_384,
            queue_file_units=5,
            open_units_max=4,
            retention_ms=RETENTION_MS,
            compact_live_ratio=0.5,
            levels=self.levels,
            disk_used_ratio_max=1.0,
        )
        return Store.open(self._path, options, clock=self.wall.clock())

    @property
    def _path(self) -> Path:
        return self.folder / str(self.generation)

    @property
    def now_ms(self) -> int:
        assert self.store is not None
        now_ms = self.store.clock.now_ms()
        self.model.show_until(now_ms)
        return now_ms

    # Putting

    @rule(row=ROWS)
    def put(self, row: Row) -> None:
        assert self.store is not None
        now_ms = self.now_ms
        message, body = self._message(row, now_ms)

        self._accepted(row, body, self.store.put(message), now_ms)

    @rule(rows=st.lists(ROWS, min_size=1, max_size=6))
    def put_all(self, rows: list[Row]) -> None:
        assert self.store is not None
        now_ms = self.now_ms
        made = [self._message(row, now_ms) for row in rows]
        bad = Message(topic="not a topic", body=b"")

        results = self.store.put_all([bad, *(message for message, _ in made)])

        assert not isinstance(results[0], PutResult)
        for row, (_, body), result in zip(rows, made, results[1:], strict=True):
            assert isinstance(result, PutResult)
            self._accepted(row, body, result, now_ms)

    @rule(rows=st.lists(ROWS, min_size=1, max_size=25))
    def put_many(self, rows: list[Row]) -> None:
        assert self.store is not None
        now_ms = self.now_ms
        table, dues, made = self._table(rows, now_ms)

        result = self.store.put_many(table)

        assert result.first_seq == len(self.model.messages)
        assert result.due_ms.tolist() == dues
        ids = [value.decode() for value in result.unique_ids.to_pylist()]
        for row, body, unique_id, due_ms in zip(rows, made, ids, dues, strict=True):
            self.model.put_delayed(
                due_ms=due_ms,
                queue=row[0],
                unique_id=unique_id,
                keys=row[2],
                body=body,
                offset_id=None,
            )

    @rule(row=ROWS)
    def put_half(self, row: Row) -> None:
        assert self.store is not None
        now_ms = self.now_ms
        message, body = self._message(row, now_ms, TRAN_MSG="true", PGROUP="g")

        result = self.store.put(message)

        assert result.seq is None
        assert result.due_ms is None
        self.model.put_ordinary(("RMQ_SYS_TRANS_HALF_TOPIC", 0), [], body, now_ms)
        self.halves.append((result.position, row, body))

    @precondition(lambda self: self.halves)
    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        assert self.store is not None
        position, row, body = self.halves.pop(0)
        if position < self.store.stats()["commit_log"]["start"]:
            return
        now_ms = self.now_ms
        if row[1] is not None and row[1][0] == "TIMER_DELIVER_MS":
            row = (row[0], None, row[2], row[3])
            commit = False  # the absolute time was fixed when the half was put; others cover it

        result = self.store.end_transaction(position, commit=commit)

        assert (result is not None) == commit
        if result is not None:
            self._accepted(row, body, result, now_ms)

    def _message(self, row: Row, now_ms: int, **properties: str) -> tuple[Message, bytes]:
        (topic, queue_id), when, keys, pad = row
        body = self._body(pad)
        if keys:
            properties["KEYS"] = " ".join(keys)
        if when is not None:
            name, number = when
            value = number + now_ms if name == "TIMER_DELIVER_MS" else number
            properties[name] = str(value)
        return Message(topic=topic, queue_id=queue_id, body=body, properties=properties), body

    def _body(self, pad: int) -> bytes:
        self.token += 1
        return b"%d " % self.token + bytes(pad)

    def _due_ms(self, when: tuple[str, int] | None, now_ms: int) -> int | None:
        if when is None or when[1] <= 0:
            return None
        name, number = when
        if name == "DELAY":
            return now_ms + DelayLevels.parse(self.levels).delay_ms(number)
        return now_ms + number * (1_000 if name == "TIMER_DELAY_SEC" else 1)

    def _accepted(self, row: Row, body: bytes, result: PutResult, now_ms: int) -> None:
        """Tell the model of an accepted message and compare the answers."""
        queue, when, keys, _ = row
        due_ms = self._due_ms(when, now_ms)
        assert result.due_ms == due_ms
        assert result.store_ms == now_ms
        assert (result.topic, result.queue_id) == queue
        if due_ms is None:
            assert result.queue_offset == self.model.put_ordinary(queue, keys, body, now_ms)
            return
        seq = self.model.put_delayed(
            due_ms=due_ms,
            queue=queue,
            unique_id=result.unique_id,
            keys=keys,
            body=body,
            offset_id=result.message_id,
        )
        assert result.seq == seq

    def _table(self, rows: list[Row], now_ms: int) -> tuple[pa.Table, list[int], list[bytes]]:
        columns: dict[str, list[Any]] = {
            name: []
            for name in (
                "topic", "queue_id", "body", "keys", "deliver_at_ms", "delay_ms", "delay_level",
            )
        }  # fmt: skip
        dues = []
        for (topic, queue_id), when, keys, pad in rows:
            values: dict[str, Any] = {"topic": topic, "queue_id": queue_id, "body": self._body(pad)}
            values["keys"] = " ".join(keys) or None
            name, number = when if when is not None else ("", 0)
            if name == "DELAY":
                values["delay_level"] = number
            elif name == "TIMER_DELIVER_MS":
                values["deliver_at_ms"] = now_ms + number
            elif name:
                values["delay_ms"] = number * (1_000 if name == "TIMER_DELAY_SEC" else 1)
            for column, entries in columns.items():
                entries.append(values.get(column))
            dues.append(self._due_ms(when, now_ms) or now_ms)
        types = {"topic": pa.string(), "body": pa.binary(), "keys": pa.string()}
        table = pa.table(
            {
                name: pa.array(column, types.get(name, pa.int64()))
                for name, column in columns.items()
            }
        )
        return table, dues, columns["body"]

    # Delivering

    @rule(ahead_ms=st.one_of(st.integers(0, 5_000), st.just(1 << 40)), limit=st.integers(1, 20))
    def read_window(self, ahead_ms: int, limit: int) -> None:
        assert self.store is not None
        until_ms = self.now_ms + ahead_ms
        corner = self.store.next_corner(until_ms=until_ms, row_count_max=limit)

        window = self.store.window(corner)

        inside = [message for message in self.model.pending() if message.due_ms <= until_ms]
        assert window.units.seq.tolist() == [message.seq for message in inside[:limit]]
        if not inside:
            assert corner == CORNER_START
            return
        self._keep(corner, self.store.read_window(window))

    @precondition(lambda self: self.corners)
    @rule(choice=CHOICE, part_count=st.integers(1, 4))
    def read_old_corner(self, choice: int, part_count: int) -> None:
        """A corner of long ago holds what is still pending inside it, in any cut."""
        assert self.store is not None
        corner = self.corners[choice % len(self.corners)]
        window = self.store.window(corner)

        parts = [
            self.store.window(corner, after=after, until=until)
            for after, until in window.split(part_count)
        ]

        inside = [m.seq for m in self.model.pending() if m.key <= corner.key and m.seq < corner.end]
        assert window.units.seq.tolist() == inside
        assert [seq for part in parts for seq in part.units.seq.tolist()] == inside

    def _keep(self, corner: Corner, batch: pa.RecordBatch) -> None:
        assert not restore.damaged(batch).any()
        for row in batch.to_pylist():
            message = self.model.messages[row["origin"]]
            assert (row["topic"], row["queue_id"]) == message.queue
            assert row["due_ms"] == message.due_ms
        self.batches = [*self.batches[-5:], batch]
        self.corners = [*self.corners[-5:], corner]

    @precondition(lambda self: self.batches)
    @rule(newest=st.booleans(), choice=CHOICE, drop=st.integers(0, 7), whole=st.booleans())
    def deliver(self, newest: bool, choice: int, drop: int, whole: bool) -> None:
        """Deliver a batch, fresh or stale or delivered before; some of its rows are dropped."""
        assert self.store is not None
        batch = self.batches[-1 if newest else choice % len(self.batches)]
        origins = batch.column("origin").to_pylist()
        dropped = [seq for number, seq in enumerate(origins) if drop and number % 7 == drop - 1]
        rows = [number for number, seq in enumerate(origins) if seq not in dropped]
        kept = batch.take(pa.array(rows, pa.int64()))
        delivery = (
            restore.deliveries(kept) if whole else restore.encode_deliveries(restore.messages(kept))
        )

        now_ms = self.now_ms
        result = self.store.deliver([delivery], dropped=int64s(*dropped))

        expected = self.model.deliver([origins[row] for row in rows], dropped, now_ms)
        assert (result.delivered_count, result.skipped_count, result.dropped_count) == expected

    @precondition(lambda self: len(self.batches) > 1)
    @rule()
    def deliver_overlapping(self) -> None:
        """Two batches that may share rows, in one delivery and out of order."""
        assert self.store is not None
        pair = [self.batches[-1], self.batches[-2]]
        now_ms = self.now_ms

        result = self.store.deliver([restore.deliveries(batch) for batch in pair])

        origins = [seq for batch in pair for seq in batch.column("origin").to_pylist()]
        delivered, skipped, _ = self.model.deliver(origins, [], now_ms)
        assert (result.delivered_count, result.skipped_count) == (delivered, skipped)

    # Time

    @rule(step_ms=STEPS)
    def advance(self, step_ms: int) -> None:
        self.wall.advance(step_ms)

    @rule(step_ms=STEPS)
    def step_back(self, step_ms: int) -> None:
        before_ms = self.now_ms
        self.wall.advance(-step_ms)
        assert self.now_ms == before_ms

    @rule()
    def open_gate(self) -> None:
        assert self.store is not None
        now_ms = self.now_ms
        self.store.open_gate()
        self._compare_exactly(now_ms)

    # Changing one's mind

    @rule(choices=st.lists(CHOICE, min_size=1, max_size=3))
    def cancel(self, choices: list[int]) -> None:
        assert self.store is not None
        names = [self._name(choice) for choice in choices]
        self.now_ms  # noqa: B018 - what is due by now can no longer be cancelled
        expected = [self.model.answers(name, "cancelled") for name in names]

        answers = self.store.cancel_many(names)

        self._compare_answers(answers, expected)
        self.model.cancel(names)

    @precondition(lambda self: self.model.messages)
    @rule(choices=st.lists(CHOICE, min_size=1, max_size=4))
    def cancel_seqs(self, choices: list[int]) -> None:
        assert self.store is not None
        seqs = [choice % len(self.model.messages) for choice in choices]
        self.now_ms  # noqa: B018
        chosen = {s for s in seqs if self.model.messages[s].state in ("pending", "carried")}

        found = self.store.cancel_seqs(int64s(*seqs))

        assert found.tolist() == sorted(chosen)
        for seq in chosen:
            self.model.messages[seq].state = CANCELLED

    @rule(choices=st.lists(st.tuples(CHOICE, DELAYS), min_size=1, max_size=3))
    def reschedule(self, choices: list[tuple[int, int]]) -> None:
        assert self.store is not None
        now_ms = self.now_ms
        requests = [(self._name(choice), now_ms + delay - 2) for choice, delay in choices]
        expected = [self.model.answers(name, "rescheduled") for name, _ in requests]

        answers = self.store.reschedule_many(requests)

        self._compare_answers(answers, expected)
        self.model.reschedule(requests, now_ms)

    def _name(self, choice: int) -> str:
        """A key, a unique id or an offset id of some message, or nobody's."""
        if choice % 7 == 0 or not self.model.messages:
            return "nobody's"
        message = self.model.messages[(choice // 7) % len(self.model.messages)]
        names = [message.unique_id, *message.keys, *message.ids]
        return names[choice % len(names)]

    def _compare_answers(self, answers: list[Answer], expected: list[list[str]]) -> None:
        """The first expected answer is the one; the others only if the store may forget."""
        assert self.store is not None
        has_forgotten = self.has_forgotten or self.store._core.timeline.states.base > 0
        for answer, wanted in zip(answers, expected, strict=True):
            assert answer.value in (wanted if has_forgotten else wanted[:1])

    # Housekeeping

    @rule()
    def checkpoint(self) -> None:
        assert self.store is not None
        self.store.checkpoint()

    @rule()
    def maintain(self) -> None:
        assert self.store is not None
        self.store.maintain()

    @rule()
    def retain(self) -> None:
        assert self.store is not None
        done = self.store.retain()
        if done.delay_segments or done.compacted_segments or done.commit_segments:
            self.has_forgotten = True

    @rule(levels=st.sampled_from(LEVEL_TABLES))
    def reopen(self, levels: str) -> None:
        assert self.store is not None
        self.store.close()
        self.levels = levels
        self._reopened()

    @rule(levels=st.sampled_from(LEVEL_TABLES))
    def crash(self, levels: str) -> None:
        """Go on with a copy of the files as they are now."""
        assert self.store is not None
        old = self._path
        self.generation += 1
        shutil.copytree(old, self._path)
        self._abandon()
        shutil.rmtree(old)
        self.levels = levels
        self._reopened()

    def _abandon(self) -> None:
        """Let go of an open store without a word to its files."""
        assert self.store is not None
        self.store._core.fail(OSError("abandoned by the test"))
        self.store.close()

    def _reopened(self) -> None:
        self.store = self._open()
        assert self.store.report.damage == []
        assert self.store.report.rebuilt == []
        latest = [shown.store_ms for queue in self.model.queues.values() for shown in queue[-1:]]
        assert self.now_ms >= max(latest, default=0), "shown times must not come again"

    # Comparing

    @invariant()
    def shows_nothing_early_and_nothing_else(self) -> None:
        if self.store is None:
            return
        now_ms = self.now_ms
        for queue in self.store.queues():
            shown = self.model.queues[queue]
            seen = self.seen.setdefault(queue, [])
            start, end = self.store.offset_range(*queue)
            assert len(seen) <= end <= len(shown), f"{queue} at {now_ms}"
            self._check_start(queue, start, now_ms)
            if end > len(seen):
                seen += self._read(queue, len(seen), end)
                assert seen == shown[:end], f"{queue} at {now_ms}"

    def _check_start(self, queue: Queue, start: int, now_ms: int) -> None:
        """Only what is older than the retention may be gone, and it never comes back."""
        assert start >= self.starts.get(queue, 0)
        self.starts[queue] = start
        for shown in self.model.queues[queue][:start]:
            assert shown.store_ms <= now_ms - RETENTION_MS

    @invariant()
    def counts_what_is_pending(self) -> None:
        if self.store is None:
            return
        pending = self.model.pending()
        assert self.store.pending_count() == len(pending), [m.seq for m in pending]
        assert self.store.next_due_ms() == (pending[0].due_ms if pending else None)

    def _compare_exactly(self, now_ms: int) -> None:
        assert self.store is not None
        for queue, shown in self.model.queues.items():
            start, end = self.store.offset_range(*queue)
            assert end == len(shown)
            assert self._read(queue, start, end) == shown[start:]
        assert self.store.gate_row_count == self.model.carried_count
        assert self.store.gate_next_ms == self.model.carried_next_ms
        assert self.store.pending_by_topic() == self.model.by_topic()
        for topic in (None, *TOPICS):
            found = self.store.pending_by_bucket(1_000, topic)
            assert found == self.model.by_bucket(1_000, topic)
        latest = max(
            (shown.store_ms for queue in self.model.queues.values() for shown in queue), default=0
        )
        assert latest <= now_ms

    def _read(self, queue: Queue, start: int, end: int) -> list[Shown]:
        assert self.store is not None
        found: list[Shown] = []
        offset = start
        while offset < end:
            result = self.store.read(*queue, offset, count_max=100, size_bytes_max=1 << 30)
            assert result.status == ReadStatus.FOUND
            assert not result.damaged
            for number, view in enumerate(result.records):
                record = records.decode(bytes(view))
                assert record.queue_offset == offset + number
                assert (record.topic.decode(), record.queue_id) == queue
                found.append(Shown(body=record.body, store_ms=record.store_ms, seq=record.seq))
            offset = result.next_offset
        return found

    def teardown(self) -> None:
        try:
            if self.store is not None and sys.exc_info()[0] is None:
                self._drain()
        finally:
            if self.store is not None:
                self._abandon()
            shutil.rmtree(self.folder)

    def _drain(self) -> None:
        """Deliver all that is left; then every message was seen once, or cancelled, or dropped."""
        assert self.store is not None
        self.wall.now_ms = max(self.wall.now_ms, self.now_ms) + 2 * 86_400_000
        for _ in range(len(self.model.messages) + 1):
            if not self.model.pending():
                break
            self.read_window(ahead_ms=0, limit=20)
            self.deliver(newest=True, choice=0, drop=0, whole=True)
        assert not self.model.pending()
        self.open_gate()
        expected = sorted(m.seq for m in self.model.messages if m.state == "visible")
        seen = [shown.seq for queue in self.model.queues.values() for shown in queue]
        assert sorted(seq for seq in seen if seq is not None) == expected


@pytest.fixture(autouse=True)
def _tiny_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few dozen messages reach what otherwise takes millions."""
    monkeypatch.setattr(timeline, "MERGE_RUN_COUNT", 3)
    monkeypatch.setattr(key_index, "_MERGE_FILE_COUNT", 3)
    monkeypatch.setattr(run, "_CURSOR_STEP", 4)
    monkeypatch.setattr(states, "_TRIM_MIN", 8)


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_store_agrees_with_its_model() -> None:
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=2_000 if IS_SOAK else 60,
            stateful_step_count=120 if IS_SOAK else 60,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
