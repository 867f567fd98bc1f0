"""The store against a plain model, over random histories with restarts and crashes.

Every step may be followed by any other. After each one the store must show a prefix of what the
model shows (the gate may be behind, never ahead), in the same order, at the same offsets; when the
gate is opened, exactly that. At the end everything that is still pending is delivered and every
message must have been seen once.

The store's sizes are tiny, so that a few dozen steps fill segments, seal and merge runs, trim
states, roll queue files over and delete old segments.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.conftest import EXAMPLES, IS_SOAK
from tests.property.store_driver import (
    CHOICE,
    DELAYS,
    LEVEL_TABLES,
    ROWS,
    STEPS,
    Row,
    StoreDriver,
)
from tests.property.store_model import CANCELLED, EXPIRED, Delayed
from tests.unit.store.making import int64s, routed, taken_aside

from dueline.audit import Severity, audit
from dueline.message import Message
from dueline.store import (
    CORNER_START,
    Name,
    PutResult,
    restore,
)
from dueline.store.carrying import carried
from dueline.store.numbers import DONE, UNKNOWN
from dueline.store.pending import half_to_message

# What recovery must be able to make again from the logs; mostly nothing is lost.
LOSSES = st.sampled_from(
    [
        (),
        (),
        (),
        ("checkpoint.json", "checkpoint.json.mirror"),
        ("timeline",),
        ("index",),
        ("consumequeue",),
        ("timeline.states",),
    ]
)
STEP_COUNT = 150 if IS_SOAK else 100
RUN_COUNT = EXAMPLES // 4  # each is many steps


class StoreMachine(StoreDriver):
    """Drives a store and the model with the same calls."""

    # Putting

    @rule(row=ROWS)
    def put(self, row: Row) -> None:
        now_ms = self.now_ms
        message, body = self.message(row, now_ms)

        self.accepted(row, body, self.store.put(message), now_ms)

    @rule(rows=st.lists(ROWS, min_size=1, max_size=6))
    def put_all(self, rows: list[Row]) -> None:
        now_ms = self.now_ms
        made = [self.message(row, now_ms) for row in rows]
        bad = Message(topic="not a topic", body=b"")

        results = self.store.put_all([bad, *(message for message, _ in made)])

        assert not isinstance(results[0], PutResult)
        for row, (_, body), result in zip(rows, made, results[1:], strict=True):
            assert isinstance(result, PutResult)
            self.accepted(row, body, result, now_ms)

    @rule(rows=st.lists(ROWS, min_size=1, max_size=25))
    def put_many(self, rows: list[Row]) -> None:
        now_ms = self.now_ms
        table, dues, made = self.table(rows, now_ms)

        result = self.store.put_many(table)

        assert result.first_seq == len(self.model.messages)
        self.model.accepted_ms = max(self.model.accepted_ms, now_ms)
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
        now_ms = self.now_ms
        message, body = self.message(row, now_ms, TRAN_MSG="true", PGROUP="g")

        result = self.store.put(message)

        assert result.seq is None
        assert result.due_ms is None
        self.model.put_ordinary(("RMQ_SYS_TRANS_HALF_TOPIC", 0), [], body, now_ms)
        self.halves.append((result.position, row, body))

    @precondition(lambda self: self.halves)
    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        position, row, body = self.halves.pop(0)
        if position < self.store.stats()["commit_log"]["start"]:
            return
        now_ms = self.now_ms
        if row[1] is not None and row[1][0] == "TIMER_DELIVER_MS":
            row = (row[0], None, row[2], row[3])
            commit = False  # the absolute time was fixed when the half was put; others cover it

        if commit:
            result = self.store.put(half_to_message(self.store.record_at(position)))
            self.accepted(row, body, result, now_ms)

    # Delivering

    @rule(ahead_ms=st.one_of(st.integers(0, 5_000), st.just(1 << 40)), limit=st.integers(1, 20))
    def read_window(self, ahead_ms: int, limit: int) -> None:
        until_ms = self.now_ms + ahead_ms
        corner = self.store.next_corner(until_ms=until_ms, row_count_max=limit)

        window = self.store.window(corner)

        inside = [message for message in self.model.pending() if message.due_ms <= until_ms]
        assert window.units.seq.tolist() == [message.seq for message in inside[:limit]]
        if not inside:
            assert corner == CORNER_START
            return
        self.keep(corner, self.store.read_window(window))

    @precondition(lambda self: self.corners)
    @rule(choice=CHOICE, part_count=st.integers(1, 4))
    def read_old_corner(self, choice: int, part_count: int) -> None:
        """A corner of long ago holds what is still pending inside it, in any cut."""
        corner = self.corners[choice % len(self.corners)]
        window = self.store.window(corner)

        parts = [
            self.store.window(corner, after=after, until=until)
            for after, until in window.split(part_count)
        ]

        inside = [m.seq for m in self.model.pending() if m.key <= corner.key and m.seq < corner.end]
        assert window.units.seq.tolist() == inside
        assert [seq for part in parts for seq in part.units.seq.tolist()] == inside

    @precondition(lambda self: self.batches)
    @rule(newest=st.booleans(), choice=CHOICE, drop=st.integers(0, 7), whole=st.booleans())
    def deliver(self, newest: bool, choice: int, drop: int, whole: bool) -> None:
        """Deliver a batch, fresh or stale or delivered before; some of its rows are dropped."""
        batch = self.batches[-1 if newest else choice % len(self.batches)]
        origins = batch.column("origin").to_pylist()
        dropped = [seq for number, seq in enumerate(origins) if drop and number % 7 == drop - 1]
        rows = [number for number, seq in enumerate(origins) if seq not in dropped]
        kept = batch.take(pa.array(rows, pa.int64()))
        delivery = (
            restore.deliveries(kept) if whole else restore.encode_deliveries(restore.messages(kept))
        )

        now_ms = self.now_ms
        emptied = self.emptied_queues()
        result = self.store.deliver([delivery], dropped=int64s(*dropped))

        origins = [origins[row] for row in rows]
        expected = self.model.deliver(origins, dropped, now_ms, emptied)
        assert (result.delivered_count, result.skipped_count, result.dropped_count) == expected

    @precondition(lambda self: len(self.batches) > 1)
    @rule()
    def deliver_overlapping(self) -> None:
        """Two batches that may share rows, in one delivery and out of order."""
        pair = [self.batches[-1], self.batches[-2]]
        now_ms, emptied = self.now_ms, self.emptied_queues()

        result = self.store.deliver([restore.deliveries(batch) for batch in pair])

        origins = [seq for batch in pair for seq in batch.column("origin").to_pylist()]
        delivered, skipped, _ = self.model.deliver(origins, [], now_ms, emptied)
        assert (result.delivered_count, result.skipped_count) == (delivered, skipped)

    @rule()
    def shortcut(self) -> None:
        """Short delays are carried over without a window; a pipeline may have been quicker."""
        rows = taken_aside(self.store)
        if rows is None:
            return
        now_ms, emptied = self.now_ms, self.emptied_queues()

        result = self.store.deliver(list(carried(rows, routed(rows))))

        origins = rows.column("origin").to_pylist()
        delivered, skipped, _ = self.model.deliver(origins, [], now_ms, emptied)
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
        now_ms = self.now_ms
        self.store.open_gate()
        self.compare_exactly(now_ms)

    # Changing one's mind

    @rule(choices=st.lists(CHOICE, min_size=1, max_size=3))
    def cancel(self, choices: list[int]) -> None:
        names = [self.name_of(choice) for choice in choices]
        self.now_ms  # noqa: B018 - what is due by now can no longer be cancelled
        expected = [self.answers(name, "cancelled") for name in names]

        changed = self.store.cancel_named([Name(name) for name in names])

        self.compare_answers([each.answer for each in changed], expected)
        assert [each.count for each in changed] == self.model.cancel(names)

    @precondition(lambda self: self.model.messages)
    @rule(choice=CHOICE, is_elsewhere=st.booleans())
    def recall(self, choice: int, is_elsewhere: bool) -> None:
        """Nothing but the messages of that id in that topic."""
        message = self.model.messages[choice % len(self.model.messages)]
        topic = "elsewhere" if is_elsewhere else message.queue[0]
        name = [message.unique_id, *message.keys][choice % (1 + len(message.keys))]
        self.now_ms  # noqa: B018
        expected = self.answers(name, "cancelled", topic)

        (changed,) = self.store.cancel_named([Name(name, topic)])

        self.compare_answers([changed.answer], [expected])
        assert [changed.count] == self.model.cancel([name], topic)

    @precondition(lambda self: self.model.messages)
    @rule(choices=st.lists(CHOICE, min_size=1, max_size=4))
    def cancel_seqs(self, choices: list[int]) -> None:
        seqs = [choice % len(self.model.messages) for choice in choices]
        self.now_ms  # noqa: B018
        chosen = {s for s in seqs if self.model.messages[s].state in ("pending", "carried")}

        found = self.store.cancel_seqs(int64s(*seqs))

        assert found.tolist() == sorted(chosen)
        for seq in chosen:
            self.model.end(self.model.messages[seq], CANCELLED)

    @precondition(lambda self: self.model.messages)
    @rule(choices=st.lists(CHOICE, min_size=1, max_size=6), is_expiry=st.booleans())
    def end_numbers(self, choices: list[int], is_expiry: bool) -> None:
        """Cancel by number, as jobs do, or let expire."""
        seqs = sorted({choice % (len(self.model.messages) + 2) for choice in choices})
        self.now_ms  # noqa: B018
        known = [seq for seq in seqs if seq < len(self.model.messages)]
        free = [s for s in known if self.model.messages[s].state in ("pending", "carried")]

        if is_expiry:
            assert self.store.numbers.expire(int64s(*seqs)) == len(free)
        else:
            answers = self.store.numbers.cancel(int64s(*seqs)).tolist()
            assert all(answers[seqs.index(seq)] == DONE for seq in free)
            assert all(answers[n] == UNKNOWN for n, seq in enumerate(seqs) if seq not in known)
        for seq in free:
            self.model.end(self.model.messages[seq], EXPIRED if is_expiry else CANCELLED)

    @precondition(lambda self: self.model.messages)
    @rule(choices=st.lists(CHOICE, min_size=1, max_size=5), delay=DELAYS, is_shift=st.booleans())
    def move_numbers(self, choices: list[int], delay: int, is_shift: bool) -> None:
        """Move by number, as jobs do: to a time, by a shift, or to now."""
        now_ms = self.now_ms
        seqs = sorted({choice % len(self.model.messages) for choice in choices})
        rows = [self.model.messages[seq] for seq in seqs]
        free = [message for message in rows if message.state in ("pending", "carried")]
        due_ms = [m.due_ms + delay - 2 if is_shift else now_ms + delay - 2 for m in rows]
        moves = [
            (message, max(due, now_ms))
            for message, due in zip(rows, due_ms, strict=True)
            if message in free and not self.is_due_at(message, due)
        ]

        answers = self.store.numbers.move(int64s(*seqs), int64s(*due_ms)).tolist()

        assert all(answers[rows.index(message)] == DONE for message in free)
        self.model.move(moves, now_ms)

    def is_due_at(self, message: Delayed, due_ms: int) -> bool:
        """Does the store take it for one that need not be moved?"""
        known_ms = message.due_ms if message.state == "pending" else message.gate_due_ms
        return known_ms == due_ms

    @rule(choices=st.lists(st.tuples(CHOICE, DELAYS), min_size=1, max_size=3))
    def reschedule(self, choices: list[tuple[int, int]]) -> None:
        now_ms = self.now_ms
        requests = [(self.name_of(choice), now_ms + delay - 2) for choice, delay in choices]
        expected = [self.answers(name, "rescheduled") for name, _ in requests]

        answers = self.store.reschedule_many(requests)

        self.compare_answers(answers, expected)
        self.model.reschedule(requests, now_ms)

    # Housekeeping

    @rule()
    def checkpoint(self) -> None:
        self.store.checkpoint()

    @rule()
    def maintain(self) -> None:
        self.store.maintain()

    @rule()
    def retain(self) -> None:
        done = self.store.retain()
        if done.delay_segments or done.compacted_segments or done.commit_segments:
            self.has_deleted = True

    @rule(levels=st.sampled_from(LEVEL_TABLES))
    def reopen(self, levels: str) -> None:
        self.store.close()
        found = audit(self.path, is_running=False)
        # A queue whose files were lost is made again when it is read.
        worst = Severity.REPAIR if self.has_lost else Severity.NOTE
        assert found.findings.worst <= worst, found.findings.kept
        assert found.counts["pending"] == len(self.model.pending())
        self.levels = levels
        self.reopened()

    @rule(levels=st.sampled_from(LEVEL_TABLES), lost=LOSSES)
    def crash(self, levels: str, lost: tuple[str, ...]) -> None:
        """Go on with a copy of the files as they are now, perhaps without some derived ones."""
        if self.wall.now_ms < self.now_ms:
            # The clock was set back, and forgets that it was further: so may the gate, of what it
            # has not shown yet.
            self.store.open_gate()
        old = self.path
        self.generation += 1
        shutil.copytree(old, self.path)
        self.abandon()
        shutil.rmtree(old)
        for name in lost:
            path = self.path / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        self.levels = levels
        self.has_lost |= bool(lost)
        self.reopened(is_rebuilt=bool(lost))

    # Comparing

    def teardown(self) -> None:
        try:
            if self.store is not None and sys.exc_info()[0] is None:
                self._drain()
        finally:
            if self.store is not None:
                self.abandon()
            shutil.rmtree(self.folder)

    def _drain(self) -> None:
        """Deliver all that is left; then every message was seen once, or cancelled, or dropped."""
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


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_store_agrees_with_its_model(record_property: Callable[[str, str], None]) -> None:
    record_property("campaign", f"{RUN_COUNT} runs of up to {STEP_COUNT} steps")
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=RUN_COUNT,
            stateful_step_count=STEP_COUNT,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
