"""A store and its model, driven by the same calls: what the rules of the model test stand on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant
from tests.property.store_model import Delayed, Model, Queue, Shown
from tests.unit.store.making import Wall, open_store

from dueline.message import Message
from dueline.schedule import DelayLevels
from dueline.store import Answer, Corner, PutResult, ReadStatus, Store, StoreOptions, restore
from dueline.store import record as records
from dueline.store.thresholds import Thresholds

SHORT_MS = 500
LEVEL_TABLES = ("1s 5s 10s", "2s 1m", "1s 2s 3s 4s")
TINY = Thresholds(
    part_rows=3, merge_run_count=3, scan_run_rows=4, merge_key_file_count=3, forget_states_min=8
)
"""Let a few dozen messages reach what otherwise takes millions."""
RETENTION_MS = 30_000
ORDER_WAIT_MS = 2_000
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


def _latest(queues: dict[Queue, list[Shown]], default_ms: int) -> int:
    """The latest store time in the queues, but at least the default."""
    return max([default_ms, *(shown[-1].store_ms for shown in queues.values() if shown)])


class StoreDriver(RuleBasedStateMachine):
    """Opens, compares and abandons stores; the rules are in its subclass."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="dueline-model-"))
        self.generation = 0
        self.wall = Wall()
        self.model = Model(ORDER_WAIT_MS)
        self.levels = LEVEL_TABLES[0]
        self.batches: list[pa.RecordBatch] = []
        self.corners: list[Corner] = []
        self.halves: list[tuple[int, Row, bytes]] = []
        self.token = 0
        self.seen: dict[Queue, list[Shown]] = {}
        self.starts: dict[Queue, int] = {}
        self.has_deleted = False
        self.has_lost = False  # derived files, by a crash
        self.store = self.open_store()

    def open_store(self) -> Store:
        options = StoreOptions(
            commit_segment_size_bytes=8_192,
            delay_segment_size_bytes=16_384,
            queue_file_units=5,
            open_units_max=4,
            retention_ms=RETENTION_MS,
            order_wait_ms=ORDER_WAIT_MS,
            compact_live_ratio=0.5,
            levels=self.levels,
            disk_used_ratio_max=1.0,
            thresholds=TINY,
        )
        store = open_store(self.path, self.wall, options)
        store.aside.keep(SHORT_MS)
        return store

    @property
    def path(self) -> Path:
        return self.folder / str(self.generation)

    @property
    def now_ms(self) -> int:
        now_ms = self.store.clock.now_ms()
        self.model.show_until(now_ms)
        return now_ms

    def message(self, row: Row, now_ms: int, **properties: str) -> tuple[Message, bytes]:
        (topic, queue_id), when, keys, pad = row
        body = self.body(pad)
        if keys:
            properties["KEYS"] = " ".join(keys)
        if when is not None:
            name, number = when
            value = number + now_ms if name == "TIMER_DELIVER_MS" else number
            properties[name] = str(value)
        return Message(topic=topic, queue_id=queue_id, body=body, properties=properties), body

    def body(self, pad: int) -> bytes:
        self.token += 1
        return b"%d " % self.token + bytes(pad)

    def due_ms(self, when: tuple[str, int] | None, now_ms: int) -> int | None:
        if when is None or when[1] <= 0:
            return None
        name, number = when
        if name == "DELAY":
            return now_ms + DelayLevels.parse(self.levels).delay_ms(number)
        return now_ms + number * (1_000 if name == "TIMER_DELAY_SEC" else 1)

    def accepted(self, row: Row, body: bytes, result: PutResult, now_ms: int) -> None:
        """Tell the model of an accepted message and compare the answers."""
        queue, when, keys, _ = row
        due_ms = self.due_ms(when, now_ms)
        assert result.due_ms == due_ms
        assert result.store_ms == now_ms
        assert (result.topic, result.queue_id) == queue
        if due_ms is None:
            assert result.queue_offset == self.model.put_ordinary(queue, keys, body, now_ms)
            return
        self.model.accepted_ms = max(self.model.accepted_ms, now_ms)
        seq = self.model.put_delayed(
            due_ms=due_ms,
            queue=queue,
            unique_id=result.unique_id,
            keys=keys,
            body=body,
            offset_id=result.message_id,
        )
        assert result.seq == seq

    def table(self, rows: list[Row], now_ms: int) -> tuple[pa.Table, list[int], list[bytes]]:
        columns: dict[str, list[Any]] = {
            name: []
            for name in (
                "topic", "queue_id", "body", "keys", "deliver_at_ms", "delay_ms", "delay_level",
            )
        }  # fmt: skip
        dues = []
        for (topic, queue_id), when, keys, pad in rows:
            values: dict[str, Any] = {"topic": topic, "queue_id": queue_id, "body": self.body(pad)}
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
            dues.append(self.due_ms(when, now_ms) or now_ms)
        types = {"topic": pa.string(), "body": pa.binary(), "keys": pa.string()}
        table = pa.table(
            {
                name: pa.array(column, types.get(name, pa.int64()))
                for name, column in columns.items()
            }
        )
        return table, dues, columns["body"]

    def keep(self, corner: Corner, batch: pa.RecordBatch) -> None:
        assert not restore.damaged(batch).any()
        for row in batch.to_pylist():
            message = self.model.messages[row["origin"]]
            assert (row["topic"], row["queue_id"]) == message.queue
            assert row["due_ms"] == message.due_ms
        self.batches = [*self.batches[-5:], batch]
        self.corners = [*self.corners[-5:], corner]

    def name_of(self, choice: int) -> str:
        """A key, a unique id or an offset id of some message, or nobody's."""
        if choice % 7 == 0 or not self.model.messages:
            return "nobody's"
        message = self.model.messages[(choice // 7) % len(self.model.messages)]
        names = [message.unique_id, *message.keys, *self.usable_ids(message)]
        return names[choice % len(names)]

    def usable_ids(self, message: Delayed) -> list[str]:
        """Offset ids name a place in the delay log: they are good while there is a record."""
        return [] if self.has_deleted else message.ids

    def emptied_queues(self) -> set[Queue]:
        """Queues that held something, all of which was deleted."""
        ranges = {queue: self.store.offset_range(*queue) for queue in self.store.queues()}
        return {queue for queue, (start, end) in ranges.items() if start == end > 0}

    def answers(self, name: str, success: str, topic: str | None = None) -> list[str]:
        """What the store may say about a name."""
        return self.model.answers(name, success, retention_ms=RETENTION_MS, topic=topic)

    def compare_answers(self, answers: list[Answer], expected: list[list[str]]) -> None:
        """The first expected answer is the one; the others only once records were deleted."""
        for answer, wanted in zip(answers, expected, strict=True):
            assert answer.value in (wanted if self.has_deleted else wanted[:1])

    def abandon(self) -> None:
        """Let go of an open store without a word to its files."""
        self.store._core.fail(OSError("abandoned by the test"))
        self.store.close()

    def reopened(self, *, is_rebuilt: bool = False) -> None:
        """Take up a store again and see that it found nothing wrong with its files."""
        self.store = self.open_store()
        assert self.store.report.damage == []
        assert is_rebuilt or self.store.report.rebuilt == []
        promised_ms = max(self.wall.now_ms, self.model.accepted_ms)
        clock_ms = self.store.clock.now_ms()
        assert clock_ms >= _latest(self.seen, promised_ms), "shown times must not come again"
        assert clock_ms <= _latest(self.model.queues, promised_ms), "nobody was told of that time"
        ends = {queue: self.store.offset_range(*queue)[1] for queue in self.store.queues()}
        self.model.stopped(ends)
        self.now_ms  # noqa: B018 - what fell due meanwhile

    @invariant()
    def shows_nothing_early_and_nothing_else(self) -> None:
        now_ms = self.now_ms
        for queue in self.store.queues():
            shown = self.model.queues[queue]
            seen = self.seen.setdefault(queue, [])
            start, end = self.store.offset_range(*queue)
            assert len(seen) <= end <= len(shown), f"{queue} at {now_ms}"
            self._check_start(queue, start, now_ms)
            if end > len(seen):
                seen += self.read_queue(queue, len(seen), end)
                assert seen == shown[:end], f"{queue} at {now_ms}"

    def _check_start(self, queue: Queue, start: int, now_ms: int) -> None:
        """Only what is older than the retention may be gone, and it never comes back."""
        assert start >= self.starts.get(queue, 0)
        self.starts[queue] = start
        for shown in self.model.queues[queue][:start]:
            assert shown.store_ms <= now_ms - RETENTION_MS

    @invariant()
    def counts_what_is_pending(self) -> None:
        pending = self.model.pending()
        assert self.store.pending_count() == len(pending), [m.seq for m in pending]
        assert self.store.next_due_ms() == (pending[0].due_ms if pending else None)

    def compare_exactly(self, now_ms: int) -> None:
        for queue, shown in self.model.queues.items():
            start, end = self.store.offset_range(*queue)
            assert end == len(shown)
            assert self.read_queue(queue, start, end) == shown[start:]
        assert self.store.gate_row_count == self.model.carried_count
        next_ms = self.model.carried_next_ms
        if next_ms is None or next_ms > now_ms:
            assert self.store.gate_next_ms == next_ms
        else:  # held back, and looked at again soon
            assert self.store.gate_next_ms is not None
            assert now_ms < self.store.gate_next_ms <= now_ms + 10
        assert self.store.survey().pending_by_topic() == self.model.by_topic()
        for topic in (None, *TOPICS):
            found = self.store.survey().pending_by_bucket(1_000, topic)
            assert found == self.model.by_bucket(1_000, topic)
        latest = max(
            (shown.store_ms for queue in self.model.queues.values() for shown in queue), default=0
        )
        assert latest <= now_ms

    def read_queue(self, queue: Queue, start: int, end: int) -> list[Shown]:
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
