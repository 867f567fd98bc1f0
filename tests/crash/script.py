"""A run through everything that a store does, in small steps, against the model.

Stores are made tiny, so that segments roll, queue files roll, old segments are dropped and sparse
ones compacted within a few hundred disk operations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tests.crash.model import Model, Sent
from tests.crash.observing import parse
from tests.unit.store.making import routed, taken_aside
from tests.unit.store.row_making import rows_of

from dueline import compiled
from dueline.broker.waiting.changing import Change, change_rows
from dueline.errors import BrokerError, OutcomeUnknown
from dueline.message import Message
from dueline.store import Answer, Files, PutResult, Store, StoreOptions, restore
from dueline.store.block import BLOCK_KERNELS
from dueline.store.bulk_rows import BULK_KERNELS
from dueline.store.carrying import carried
from dueline.store.kernels import Int64s
from dueline.store.numbers import DONE
from dueline.store.road import RoadRule
from dueline.store.stamp import STAMP_KERNELS
from dueline.testing import ManualClock

OPTIONS = StoreOptions(
    commit_segment_size_bytes=8_192,
    delay_segment_size_bytes=16_384,
    queue_file_units=16,
    levels="1s 5s 10s",
    retention_ms=20_000,
    disk_used_ratio_max=1.0,
    compact_live_ratio=0.5,
)
START_MS = 1_700_000_000_000
PAD_SIZE = 120
"""Of bodies, so that the steps fill segments of the delay log."""


class Driver:
    """Drives a store and keeps the model up to date."""

    def __init__(self, path: Path, files: Files, options: StoreOptions = OPTIONS) -> None:
        self.path = path
        self.files = files
        self.options = options
        self.clock = ManualClock(START_MS)
        self.model = Model(retention_ms=options.retention_ms)
        self.step = 0
        self.is_interrupted = False  # the step was begun
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None
        return self._store

    def open(self) -> None:
        self.clock = ManualClock(self.clock.wall_ms)
        self._store = Store.open(self.path, self.options, clock=self.clock, files=self.files)
        self._store.aside.keep(450)

    def close(self) -> None:
        store, self._store = self.store, None
        store.close()

    @property
    def is_open(self) -> bool:
        return self._store is not None

    def close_failed(self) -> None:
        """Let go of a store that a failed write has closed."""
        if self.is_open:
            self.close()

    # Putting

    def put(self, uid: str, *, queue_id: int = 0, delay_ms: int = 0, level: int = 0) -> None:
        sent, message = self._message(uid, queue_id, delay_ms, level)
        self.model.putting([sent])
        self._check_result(self.store.put(message), sent)
        self.model.answered()

    def put_all(self, *arguments: tuple[str, int, int]) -> None:
        """Several (uid, queue id, delay) with one call."""
        pairs = [self._message(uid, queue_id, delay, 0) for uid, queue_id, delay in arguments]
        self.model.putting([sent for sent, _ in pairs])
        results = self.store.put_all([message for _, message in pairs])
        for result, (sent, _) in zip(results, pairs, strict=True):
            if not isinstance(result, BrokerError):
                self._check_result(result, sent)
        self._answered(
            [
                (sent, result if isinstance(result, BrokerError) else None)
                for result, (sent, _) in zip(results, pairs, strict=True)
            ]
        )

    def put_rows(self, *arguments: tuple[str, int, int]) -> None:
        """The same as rows, by kernels."""
        if not compiled.load([BLOCK_KERNELS, BULK_KERNELS, STAMP_KERNELS]):
            self.put_all(*arguments)
            return
        pairs = [self._message(uid, queue_id, delay, 0) for uid, queue_id, delay in arguments]
        self.model.putting([sent for sent, _ in pairs])
        parts = [rows_of([message for _, message in part]) for part in (pairs[:1], pairs[1:])]
        results = self.store.put_rows(parts)
        outcomes: list[tuple[Sent, BrokerError | None]] = []
        for result, part in zip(results, (pairs[:1], pairs[1:]), strict=True):
            columns = zip(part, result.is_delayed.tolist(), result.dues.tolist(), strict=True)
            for (sent, _), is_delayed, due_ms in columns:
                error = result.delayed_error if is_delayed else result.ordinary_error
                assert error is not None or (due_ms or None) == sent.due_ms
                outcomes.append((sent, error))
        self._answered(outcomes)

    def _answered(self, outcomes: list[tuple[Sent, BrokerError | None]]) -> None:
        """What a call said of each message."""
        self.model.new = []
        in_doubt: list[Sent] = []
        errors: list[BrokerError] = []
        for sent, error in outcomes:
            if error is None:
                self.model.new.append(sent)
            else:
                errors.append(error)
                in_doubt += [sent] if isinstance(error, OutcomeUnknown) else []
        self.model.answered()
        if errors:
            self.model.putting(in_doubt)
            raise errors[0]

    def _message(self, uid: str, queue_id: int, delay_ms: int, level: int) -> tuple[Sent, Message]:
        properties = {"UNIQ_KEY": uid, "KEYS": f"key-{uid}", "TAGS": "tag"}
        if level:
            properties["DELAY"] = str(level)
            delay_ms = (1_000, 5_000, 10_000)[level - 1]
        elif delay_ms:
            properties["TIMER_DELAY_MS"] = str(delay_ms)
        sent = Sent(
            uid=uid,
            topic="t",
            queue_id=queue_id,
            body=f"body of {uid}".encode() + b"." * (PAD_SIZE if delay_ms else 0),
            due_ms=self.clock.now_ms() + delay_ms if delay_ms else None,
            number=self.model.number(),
        )
        message = Message(topic="t", queue_id=queue_id, body=sent.body, properties=properties)
        return sent, message

    def _check_result(self, result: PutResult, sent: Sent) -> None:
        assert (result.unique_id, result.due_ms) == (sent.uid, sent.due_ms)

    def put_many(self, prefix: str, delays_ms: list[int]) -> None:
        now_ms = self.clock.now_ms()
        rows = [
            Sent(
                uid=f"{prefix}{number}",
                topic="x",
                queue_id=number % 2,
                body=f"row {number}".encode() * (1 + number % 3) + b"." * PAD_SIZE,
                due_ms=now_ms + delay_ms,
                number=self.model.number(),
            )
            for number, delay_ms in enumerate(delays_ms)
        ]
        table = pa.table(
            {
                "topic": [row.topic for row in rows],
                "body": [row.body for row in rows],
                "queue_id": pa.array([row.queue_id for row in rows], pa.int32()),
                "delay_ms": delays_ms,
                "unique_id": [row.uid for row in rows],
            }
        )
        self.model.putting(rows, is_group=True)
        result = self.store.put_many(table)
        assert result.due_ms.tolist() == [row.due_ms for row in rows]
        self.model.answered()

    # Delivering

    def deliver(self, ahead_ms: int, *, row_count_max: int = 10_000, drop: str = "") -> None:
        """Carry over what is due by now + ahead; the message `drop` is left out on purpose."""
        until_ms = self.clock.now_ms() + ahead_ms
        corner = self.store.next_corner(until_ms=until_ms, row_count_max=row_count_max)
        batch = self.store.read_window(self.store.window(corner))
        uids = [parse(record).uid for record in batch.column("record").to_pylist()]
        dropped = batch.column("origin").to_numpy()[[uid == drop for uid in uids]]
        kept = batch.filter(pc.invert(pa.array([uid == drop for uid in uids], pa.bool_())))
        self.model.dropping = {uid for uid in uids if uid == drop}
        self.model.carrying(set(uids) - self.model.dropping)
        rows = restore.deliveries(kept)
        result = self.store.deliver([rows], dropped=dropped.astype(np.int64))
        assert (result.delivered_count, result.dropped_count) == (kept.num_rows, len(dropped))
        self.model.answered()
        again = self.store.deliver([rows], dropped=dropped.astype(np.int64))
        assert (again.delivered_count, again.dropped_count) == (0, 0), "delivered twice"

    def shortcut(self) -> None:
        """Carry over the short delays that were accepted since the last time."""
        batch = taken_aside(self.store)
        if batch is None:
            return
        uids = {parse(record).uid for record in batch.column("record").to_pylist()}
        self.model.carrying(uids)
        result = self.store.deliver(list(carried(batch, routed(batch))))
        assert result.delivered_count == len(uids)
        self.model.answered()

    def open_gate(self) -> None:
        self.store.open_gate()
        self.model.consume(self.store)

    # Changing one's mind

    def cancel(self, *uids: str) -> None:
        uids = tuple(uid for uid in uids if self._is_waiting(uid))
        self.model.cancelling = set(uids)
        answers = self.store.cancel_many(uids)
        assert answers == [Answer.CANCELLED] * len(uids)
        self.model.answered()

    def reschedule(self, delay_ms: int, *uids: str) -> None:
        due_ms = self.clock.now_ms() + delay_ms
        uids = tuple(uid for uid in uids if self._is_waiting(uid))
        self.model.moving = {uid: self.model.moved(uid, due_ms) for uid in uids}
        answers = self.store.reschedule_many([(uid, due_ms) for uid in uids])
        assert answers == [Answer.RESCHEDULED] * len(uids)
        self.model.answered()

    # By number, as jobs do it

    def cancel_numbers(self, *uids: str) -> None:
        uids = tuple(uid for uid in uids if self._is_waiting(uid))
        self.model.cancelling = set(uids)
        answers = self.store.numbers.cancel(self._numbers(uids))
        assert answers.tolist() == [DONE] * len(uids)
        self.model.answered()

    def expire(self, *uids: str) -> None:
        uids = tuple(uid for uid in uids if self._is_waiting(uid))
        self.model.cancelling = set(uids)
        assert self.store.numbers.expire(self._numbers(uids)) == len(uids)
        self.model.answered()

    def move_numbers(self, delay_ms: int, *uids: str) -> None:
        due_ms = self.clock.now_ms() + delay_ms
        uids = tuple(uid for uid in uids if self._is_waiting(uid))
        self.model.moving = {uid: self.model.moved(uid, due_ms) for uid in uids}
        dues_ms = np.full(len(uids), due_ms, dtype=np.int64)
        answers = self.store.numbers.move(self._numbers(uids), dues_ms)
        assert answers.tolist() == [DONE] * len(uids)
        self.model.answered()

    def change_all(self, topic: str, change: Change) -> None:
        """All of a topic that waits, as a portion of a job."""
        self.open_gate()  # what is due by now does not wait any more
        now_ms = self.clock.now_ms()
        survey = self.store.survey()
        number = survey.topic_names.index(topic) if topic in survey.topic_names else -1
        found = [rows for rows, _ in survey.slabs() if len(rows)]
        for rows in found:
            rows = rows.take(np.flatnonzero(rows.units.topic == number))
            uids = [parse(record).uid for record in survey.records(rows).to_pylist()]
            if change.action == "cancel":
                self.model.cancelling = set(uids)
            else:
                for uid in uids:
                    due_ms = self.model.messages[uid].due_ms
                    assert due_ms is not None
                    moved_ms = due_ms + (change.shift_ms or 0)
                    moved_ms = max(moved_ms, now_ms) if change.shift_ms else min(due_ms, now_ms)
                    self.model.moving[uid] = self.model.moved(uid, moved_ms)
            assert change_rows(self.store, change, rows).tolist() == [DONE] * len(uids)
            self.model.answered()

    def set_rule(self, topic: str, *, is_paused: bool = False, rate: int | None = None) -> None:
        self.model.latest_ms = max(self.model.latest_ms, self.clock.now_ms())
        self.model.ruling = {topic: (is_paused, rate)}
        self.store.numbers.set_rule(topic, RoadRule(is_paused=is_paused, rate=rate))
        self.model.consume(self.store)  # the last that may have come before the rule
        self.model.answered()

    def _numbers(self, uids: tuple[str, ...]) -> Int64s:
        seqs = [self.store.find_delayed(uid)[0].seq for uid in uids]
        return np.array(seqs, dtype=np.int64)

    def _is_waiting(self, uid: str) -> bool:
        """Accepted, not cancelled and not yet due? A crash may have prevented that."""
        message = self.model.messages.get(uid)
        if message is None or uid in self.model.cancelled:
            return False
        return message.due_ms is not None and message.due_ms > self.clock.now_ms()

    # Housekeeping

    def checkpoint(self) -> None:
        self.store.checkpoint()
        self.model.checkpointed()

    def retain(self) -> None:
        self.model.retained_ms = self.clock.now_ms()
        self.store.retain()

    def reopen(self) -> None:
        self.close()
        self.open()
        self.model.settle(self.store)
        self.model.checkpointed()


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `is_repeated`: after a crash in it, it is done again."""

    action: Callable[[Driver], object]
    is_repeated: bool = False


def _once(action: Callable[[Driver], object]) -> Step:
    return Step(action)


def _again(action: Callable[[Driver], object]) -> Step:
    return Step(action, is_repeated=True)


def _pass_time(delta_ms: int) -> list[Step]:
    """Carry over in time what falls due, let the time pass, and let consumers see it."""
    return [
        _again(lambda driver: driver.deliver(delta_ms + 500)),
        _once(lambda driver: driver.clock.advance(delta_ms)),
        _again(Driver.open_gate),
    ]


STEPS: list[Step] = [
    _once(lambda driver: driver.put("a0")),
    _once(lambda driver: driver.put("d0", delay_ms=5_000)),
    _once(lambda driver: driver.put("d1", queue_id=1, level=2)),
    _once(lambda driver: driver.put("d2", level=1)),
    _once(lambda driver: driver.put_all(("a1", 1, 0), ("d3", 0, 3_000), ("a2", 0, 0))),
    _once(lambda driver: driver.put_rows(("r1", 1, 0), ("r2", 0, 3_500), ("r3", 0, 0))),
    _once(lambda driver: driver.put_rows(("r4", 0, 2_500), ("r5", 1, 2_000))),
    _once(
        lambda driver: driver.put_many(
            "m", [90_000 if n % 23 == 7 else 2_000 + 25 * n for n in range(70)]
        )
    ),
    _again(Driver.checkpoint),
    _again(lambda driver: driver.deliver(3_500, row_count_max=20)),
    _again(lambda driver: driver.deliver(3_500, drop="m60")),
    *_pass_time(1_100),
    _once(lambda driver: driver.cancel("m7", "m65")),  # one that stays long, one pending
    _once(lambda driver: driver.cancel("m10")),  # at the gate
    _once(lambda driver: driver.reschedule(2_500, "m62", "m63")),  # pending
    _once(lambda driver: driver.reschedule(1_500, "m12", "m64")),  # at the gate, and pending
    _once(lambda driver: driver.cancel_numbers("m66", "m11")),  # pending, and at the gate
    _once(lambda driver: driver.move_numbers(2_600, "m67", "m13")),
    _once(lambda driver: driver.expire("m68", "m14")),
    _once(lambda driver: driver.put("a3", queue_id=1)),
    *_pass_time(1_000),
    _again(Driver.checkpoint),  # with something at the gate
    _once(lambda driver: driver.put("d4", delay_ms=400)),
    _again(Driver.shortcut),
    *_pass_time(2_000),
    _again(Driver.checkpoint),
    _again(Driver.retain),
    _again(Driver.reopen),
    _once(lambda driver: driver.put_many("n", [500 + 40 * n for n in range(60)])),
    _again(lambda driver: driver.deliver(1_500)),
    _again(lambda driver: driver.set_rule("x", is_paused=True)),  # some stand at the gate
    *_pass_time(800),
    _once(lambda driver: driver.change_all("x", Change(action="shift", shift_ms=300))),
    _again(Driver.checkpoint),
    _again(Driver.reopen),
    _again(lambda driver: driver.set_rule("x", rate=100)),
    *_pass_time(3_000),
    _again(lambda driver: driver.set_rule("x", rate=25)),
    _once(lambda driver: driver.put("a4")),
    _once(lambda driver: driver.cancel("m53")),  # its tombstone is in a segment that fills up now
    _once(lambda driver: driver.put_many("p", [300 + 10 * n for n in range(45)])),
    _again(Driver.shortcut),  # sixteen of them; the others go with the window
    *_pass_time(1_500),
    _again(Driver.retain),  # no checkpoint since
    _again(Driver.checkpoint),
    _again(Driver.retain),
    *_pass_time(22_000),
    _again(lambda driver: driver.set_rule("x")),
    _once(lambda driver: driver.put("a5", queue_id=1)),
    _once(lambda driver: driver.put("d5", delay_ms=30_000)),
    _again(lambda driver: driver.deliver(40_000)),  # d5 waits long at the gate
    _again(Driver.checkpoint),
    _again(Driver.retain),
    _once(lambda driver: driver.put("a6")),
    _once(lambda driver: driver.cancel("m30", "d5")),
    _once(lambda driver: driver.put("d6", delay_ms=1_000)),
    _again(Driver.reopen),
    *_pass_time(2_000),
    _again(Driver.retain),
    _once(lambda driver: driver.put("a7", queue_id=1)),
    _once(lambda driver: driver.put("d7", delay_ms=50_000)),
    _once(lambda driver: driver.change_all("t", Change(action="deliver"))),
    _once(lambda driver: driver.put_many("q", [10_000 + 100 * n for n in range(6)])),
    _again(lambda driver: driver.deliver(10_300)),
    _once(lambda driver: driver.change_all("x", Change(action="cancel"))),
    *_pass_time(120_000),
    _again(Driver.checkpoint),
    _again(Driver.retain),  # all delay segments but the last are done
    _again(Driver.reopen),
]
