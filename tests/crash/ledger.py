"""Transactions and receipts over one store, and a plain account of what was promised about them.

A run of sends, halves, decisions, questions and acknowledgements in small steps. The account knows
nothing of logs and frames: per message it says what was answered, and what is still in doubt
because its answer has not come. `check` opens a copy of the folder and compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.observing import FAR_MS, parse

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.inflight import Holding, InFlight
from dueline.broker.names import UNDECIDED_TOPIC
from dueline.broker.transactions import TransactionOptions, Transactions
from dueline.broker.writing import Done
from dueline.message import Message
from dueline.store import Files, Store, StoreOptions
from dueline.testing import ManualClock

START_MS = 1_700_000_000_000
SMALL = StoreOptions(
    commit_segment_size_bytes=65_536, delay_segment_size_bytes=65_536, queue_file_units=300
)
ASKING = TransactionOptions(first_ask_ms=1_000, ask_interval_ms=1_000, ask_count_max=1)
HOLDING = Holding(invisible_ms=10_000, attempt_max=1_000)


@dataclass(slots=True)
class Account:
    """What was answered, by unique id; `doubts` are the messages of the call under way."""

    sent: dict[str, tuple[str, int]] = field(default_factory=dict)  # topic and offset
    halves: dict[str, int] = field(default_factory=dict)  # positions
    undecided: set[str] = field(default_factory=set)
    committed: set[str] = field(default_factory=set)
    undone: set[str] = field(default_factory=set)
    put_aside: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    doubts: set[str] = field(default_factory=set)


class Ledger:
    """One broker without its threads: its writer is whoever calls."""

    def __init__(self, folder: Path, files: Files, wall_ms: int = START_MS) -> None:
        self.clock = ManualClock(wall_ms)
        self.account = Account()
        self._folder = folder
        self._files = files
        self.open()

    def open(self) -> None:
        self.store = Store.open(self._folder / "store", SMALL, clock=self.clock, files=self._files)
        self.offsets = ConsumerOffsets(self._folder / "offsets.json", self._files)
        self.transactions = Transactions(self.store, self.offsets, self._submit, ASKING)
        self.inflight = InFlight(
            self._folder / "receipts.log",
            files=self._files,
            store=self.store,
            clock=self.clock,
            offsets=self.offsets,
        )

    def close(self) -> None:
        self.inflight.close()
        self.store.close()

    def _submit(self, messages: Sequence[Message], done: Done) -> None:
        done(self.store.put_all(messages))

    # Sending

    def send(self, prefix: str, count: int, size: int) -> None:
        uids = [f"{prefix}{number}" for number in range(count)]
        self._put(uids, [self._work(uid, size) for uid in uids])

    def _work(self, uid: str, size: int) -> Message:
        return Message(topic="work", body=b"x" * size, properties={"UNIQ_KEY": uid})

    def half(self, uid: str, size: int, **properties: str) -> None:
        properties = {"UNIQ_KEY": uid, "TRAN_MSG": "true", "PGROUP": "g", **properties}
        message = Message(topic="orders", body=b"h" * size, properties=properties, sys_flag=4)
        self._put([uid], [message])
        self.account.undecided.add(uid)

    def _put(self, uids: list[str], messages: list[Message]) -> None:
        self.account.doubts = set(uids)
        for message, result in zip(messages, self.store.put_all(messages), strict=True):
            assert not isinstance(result, BaseException)
            self.account.halves[result.unique_id] = result.position
            if message.topic == "work":
                self.account.sent[result.unique_id] = (message.topic, result.queue_offset)
        self.account.doubts = set()

    # Deciding

    def end(self, uid: str, *, commit: bool) -> None:
        self.account.doubts = {uid}

        def answered(error: BaseException | None) -> None:
            assert error is None
            self._decided(uid, self.account.committed if commit else self.account.undone)

        position = self.account.halves[uid]
        self.transactions.end(position, commit=commit, group="g", done=answered)
        assert not self.account.doubts

    def give_up(self, uid: str) -> None:
        """Ask until the message is put aside."""
        self.clock.advance(2_000)
        due = self.transactions.due(self.clock.now_ms())
        (half,) = [each for each in due if each.position == self.account.halves[uid]]
        while True:
            self.clock.advance(2_000)
            self.account.doubts = {uid}
            if self.transactions.asked(half, self.clock.now_ms(), is_heard=True):
                break
        self._decided(uid, self.account.put_aside)

    def _decided(self, uid: str, kind: set[str]) -> None:
        self.account.undecided.discard(uid)
        self.account.doubts.discard(uid)
        kind.add(uid)

    # Receiving

    def receive(self, count: int, finish: int) -> None:
        """Take messages, and acknowledge the first of them, all with one write."""
        taken = self.inflight.take("g", "work", [0], count_max=count, holding=HOLDING)
        self.inflight.flush()
        for held in taken.messages[:finish]:
            uid = held_uid(held.record.properties)
            self.account.doubts.add(uid)
            self.inflight.acknowledge("g", "work", held.receipt, self._finished)
        self.inflight.flush()

    def _finished(self, error: BaseException | None) -> None:
        assert error is None
        self.account.finished |= self.account.doubts
        self.account.doubts = set()

    # Looking

    def check(self, account: Account) -> None:
        """Compare with what was promised, then decide and receive all that is left."""
        assert self.store.report.damage == []
        doubts = account.doubts
        visible = self._uids("orders")
        aside = self._uids(UNDECIDED_TOPIC)
        for half in self.transactions.due(FAR_MS):
            uid = held_uid(self.transactions.record(half.position).properties)
            self.account.halves[uid] = half.position
        asked = set(self.account.halves)
        known = account.undecided | account.committed | account.undone | account.put_aside
        assert max([*visible.values(), *aside.values()], default=1) == 1, (visible, aside)
        for uid in known | doubts & (set(visible) | set(aside) | asked):
            places = (visible[uid], aside[uid], int(uid in asked))
            assert sum(places) <= 1, f"{uid}: committed, put aside, undecided: {places}"
            if uid not in doubts:
                expected = (uid in account.committed, uid in account.put_aside)
                assert places == (*map(int, expected), int(uid in account.undecided)), uid
            elif uid in account.undecided and uid not in self.undoing(account):
                assert sum(places) == 1, f"{uid}: decided, and the message is not there"
        self._check_offsets(account)
        self._decide(asked)
        self._receive_all(account)

    def undoing(self, account: Account) -> set[str]:
        """Those whose end may be that nobody sees them."""
        return {uid for uid in account.doubts if uid.startswith("undo")}

    def _uids(self, topic: str) -> Counter[str]:
        found: Counter[str] = Counter()
        for name, queue_id in self.store.queues():
            offset, end = self.store.offset_range(name, queue_id)
            while name == topic and offset < end:
                result = self.store.read(name, queue_id, offset)
                assert result.damaged == []
                found.update(parse(bytes(view)).uid for view in result.records)
                offset = result.next_offset
        if topic == "orders":
            corner = self.store.next_corner(until_ms=FAR_MS, row_count_max=10_000)
            window = self.store.read_window(self.store.window(corner))
            found.update(parse(data).uid for data in window.column("record").to_pylist())
        return found

    def _check_offsets(self, account: Account) -> None:
        for uid, (topic, offset) in account.sent.items():
            result = self.store.read(topic, 0, offset, count_max=1)
            assert [parse(bytes(view)).uid for view in result.records] == [uid]

    def _decide(self, uids: set[str]) -> None:
        """What is undecided can still be committed, once."""
        before = self._uids("orders")
        for uid in sorted(uids):
            self.end(uid, commit=True)
        assert self._uids("orders") == before + Counter(uids)

    def _receive_all(self, account: Account) -> None:
        self.clock.advance(20_000)
        found: Counter[str] = Counter()
        while messages := self.inflight.take(
            "g", "work", [0], count_max=1_000, holding=HOLDING
        ).messages:
            found.update(held_uid(held.record.properties) for held in messages)
        assert max(found.values(), default=1) == 1
        assert not set(found) & account.finished, "acknowledged, and yet received again"
        lost = set(account.sent) - account.finished - account.doubts - set(found)
        assert not lost, f"not acknowledged, and yet not received: {sorted(lost)[:5]}"


def held_uid(properties: bytes) -> str:
    entries = dict(entry.split(b"\x01") for entry in properties.split(b"\x02") if entry)
    return entries[b"UNIQ_KEY"].decode()


def run(ledger: Ledger) -> None:
    """A run through everything: stretches of less than a page, and of several."""
    ledger.send("s", 5, 100)
    ledger.half("one", 300)
    ledger.half("large", 9_000)
    ledger.half("later", 5_000, TIMER_DELAY_MS="60000")
    ledger.end("one", commit=True)
    ledger.end("large", commit=True)
    ledger.receive(3, finish=2)
    ledger.half("undo", 5_000)
    ledger.half("aside", 6_000)
    ledger.end("later", commit=True)
    ledger.end("undo", commit=False)
    ledger.store.checkpoint()
    ledger.offsets.save()
    ledger.half("second", 14_000)
    ledger.half("third", 3_500)
    ledger.end("second", commit=True)
    ledger.send("t", 200, 20)
    ledger.receive(90, finish=40)
    ledger.receive(80, finish=70)
    ledger.give_up("aside")
    ledger.end("third", commit=True)
    ledger.clock.advance(11_000)
    ledger.receive(60, finish=60)
    ledger.close()
    ledger.open()
    ledger.half("last", 4_500)
    ledger.end("last", commit=True)
    ledger.receive(200, finish=100)
