"""Putting: one by one, together, from many threads, refused, half and whole."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    open_store,
    ordinary,
    read_all,
    take_window,
)

from dueline.errors import InvalidRequest, LimitExceeded, StoreClosed
from dueline.message import Message
from dueline.store import PutResult, Store, restore
from dueline.store.files import File, Files
from dueline.store.pending import half_to_message


class CountingFile(File):
    """Counts syncs."""

    sync_count = 0

    def sync(self) -> None:
        CountingFile.sync_count += 1
        super().sync()


class CountingFiles(Files):
    def open(self, path: Path, *, writable: bool = False) -> File:
        return CountingFile(path, writable=writable)


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        yield store


def test_ordinary_message_is_visible_at_once(store: Store) -> None:
    result = store.put(Message(topic="orders", body=b"b", queue_id=2, properties={"TAGS": "g"}))

    assert (result.topic, result.queue_id, result.queue_offset) == ("orders", 2, 0)
    assert (result.store_ms, result.due_ms, result.seq) == (START_MS, None, None)
    (record,) = read_all(store, "orders", 2)
    assert (record.body, record.position, record.store_ms) == (b"b", result.position, START_MS)
    assert record.queue_offset == 0
    assert result.message_id == f"7F00000100002A9F{result.position:016X}"


def test_delayed_message_is_not_visible(store: Store) -> None:
    result = store.put(delayed(100, b"later"))

    assert (result.due_ms, result.seq, result.queue_offset) == (START_MS + 100, 0, 0)
    assert result.message_id == f"7F00000100002A9F{result.position | 1 << 62:016X}"
    assert bodies(store) == []
    assert store.put(delayed(100)).queue_offset == 1, "counted in the delay topic, as in RocketMQ"
    assert store.put(ordinary(DELAY="2")).queue_offset == 0


def test_past_due_time_is_an_ordinary_message(store: Store) -> None:
    assert store.put(ordinary(b"now", TIMER_DELIVER_MS=str(START_MS - 1))).due_ms is None
    assert bodies(store) == [b"now"]


def test_messages_put_together_are_answered_one_by_one(store: Store) -> None:
    results = store.put_all(
        [
            ordinary(b"0"),
            Message(topic="a b", body=b""),
            delayed(5, b"1"),
            ordinary(DELAY="x"),
            delayed(SMALL.delay_max_ms + 1),
            ordinary(b"2"),
        ]
    )

    kinds = [type(result) for result in results]
    assert kinds == [
        PutResult,
        InvalidRequest,
        PutResult,
        InvalidRequest,
        LimitExceeded,
        PutResult,
    ]
    assert bodies(store) == [b"0", b"2"]
    assert store.pending_count() == 1
    assert store.put_all([]) == []


def test_record_that_fits_no_segment_refuses_only_itself(store: Store) -> None:
    """One too large message must not fail those that happen to be written with it."""
    results = store.put_all([ordinary(b"small"), ordinary(bytes(16_384)), delayed(5, bytes(16_384)),
                             delayed(5, b"small")])  # fmt: skip

    kinds = [type(result) for result in results]
    assert kinds == [PutResult, LimitExceeded, LimitExceeded, PutResult]
    assert bodies(store) == [b"small"]


def test_what_is_accepted_can_be_delivered(store: Store) -> None:
    """A delivered record may be longer than the delayed one: its topic is the real one."""
    topic = "t" * 127
    low, high = 0, 16_384
    while high - low > 1:  # the longest body that is accepted
        middle = (low + high) // 2
        accepted = isinstance(store.put_all([delayed(5, bytes(middle), topic=topic)])[0], PutResult)
        low, high = (middle, high) if accepted else (low, middle)
    assert low > 14_000

    while store.pending_count():
        assert carry_over(store, row_count_max=1).delivered_count == 1


def test_refused_put_raises(store: Store) -> None:
    with pytest.raises(InvalidRequest):
        store.put(Message(topic="a b", body=b""))

    assert store.put(ordinary()).position == 0


def test_threads_put_each_message_once_and_in_their_order(tmp_path: Path, wall: Wall) -> None:
    count = 8 * 40
    store = Store.open(tmp_path, SMALL, clock=wall.clock(), files=CountingFiles())
    before = CountingFile.sync_count
    answers: list[PutResult] = []
    errors: list[BaseException] = []
    start = threading.Barrier(8)

    def put_some(number: int) -> None:
        start.wait()
        for turn in range(40):
            try:
                message = delayed(5, b"%d-%d" % (number, turn)) if turn % 2 else None
                message = message or ordinary(b"%d-%d" % (number, turn))
                answers.append(store.put(message))
                if turn % 10 == 0:
                    store.put(Message(topic="a b", body=b""))
            except InvalidRequest as error:
                errors.append(error)

    threads = [threading.Thread(target=put_some, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sync_count = CountingFile.sync_count - before

    assert len(answers) == count
    assert len(errors) == 8 * 4
    assert sorted(answer.seq for answer in answers if answer.seq is not None) == [*range(160)]
    visible = bodies(store)
    assert len(visible) == len(set(visible)) == 160
    for number in range(8):
        mine = [body for body in visible if body.startswith(b"%d-" % number)]
        assert mine == [b"%d-%d" % (number, turn) for turn in range(0, 40, 2)], "each in its order"
    assert store.pending_count() == 160
    assert sync_count > 0
    store.close()
    with open_store(tmp_path, wall) as store:
        assert bodies(store) == visible
        assert store.pending_count() == 160


def test_one_sync_for_a_list(tmp_path: Path, wall: Wall) -> None:
    store = Store.open(tmp_path, SMALL, clock=wall.clock(), files=CountingFiles())
    store.put_all([ordinary(), delayed(5)])
    before = CountingFile.sync_count

    store.put_all([ordinary(b"%d" % number) for number in range(5)])

    assert CountingFile.sync_count - before == 1
    store.close()


def test_closed_store_accepts_nothing(store: Store) -> None:
    store.close()

    for call in (
        lambda: store.put(ordinary()),
        lambda: store.put_all([ordinary()]),
        lambda: store.cancel("x"),
        lambda: store.deliver([]),
        lambda: store.open_gate(),
        lambda: store.checkpoint(),
    ):
        with pytest.raises(StoreClosed, match="is closed"):
            call()


# --- transactions ---------------------------------------------------------------------------------


HALF = ("RMQ_SYS_TRANS_HALF_TOPIC", 0)


@pytest.mark.parametrize("delay", [{"DELAY": "2"}, {"TIMER_DELAY_MS": "5000"}])
def test_half_message_is_delayed_from_its_commit_on(
    store: Store, wall: Wall, delay: dict[str, str]
) -> None:
    message = Message(
        topic="orders",
        body=b"tx",
        queue_id=1,
        sys_flag=4,
        properties={"TRAN_MSG": "true", "PGROUP": "g", "KEYS": "k", **delay},
    )
    half = store.put(message)
    assert (half.due_ms, half.seq, half.queue_offset) == (None, None, 0)
    assert bodies(store, *HALF) == [b"tx"]
    wall.advance(60_000)
    assert store.pending_count() == 0

    committed = store.put(half_to_message(store.record_at(half.position)))

    assert committed.due_ms == START_MS + 65_000
    (row,) = restore.messages(take_window(store)).to_pylist()
    assert (row["topic"], row["queue_id"], row["body"]) == ("orders", 1, b"tx")
    assert row["sys_flag"] & 0xC == 8
    carry_over(store)
    wall.advance(5000)
    store.open_gate()
    assert bodies(store, "orders", 1) == [b"tx"]


def test_committed_message_without_delay_is_visible(store: Store) -> None:
    half = store.put(ordinary(b"tx", TRAN_MSG="true", PGROUP="g"))

    store.put(half_to_message(store.record_at(half.position)))

    (record,) = read_all(store)
    assert record.body == b"tx"
    assert record.sys_flag & 0xC == 8
    assert record.prepared_position == half.position


def test_half_message_that_nobody_commits_is_never_visible(store: Store) -> None:
    store.put(ordinary(b"tx", TRAN_MSG="true", DELAY="1"))

    assert bodies(store) == []
    assert store.pending_count() == 0


@pytest.mark.parametrize("kind", [4, 12])
def test_prepared_and_rolled_back_records_are_in_no_queue(store: Store, kind: int) -> None:
    result = store.put(Message(topic="orders", body=b"x", sys_flag=kind))
    store.put(ordinary(b"next"))

    assert result.queue_offset == 0
    assert bodies(store) == [b"next"]
