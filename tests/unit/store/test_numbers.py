"""Changes by number: each has a definite answer, and asking twice does nothing twice."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    int64s,
    open_store,
)

from dueline.errors import InvalidRequest, LimitExceeded, StoreClosed
from dueline.message import Message
from dueline.store import Store
from dueline.store.numbers import DONE, TOO_LATE, UNKNOWN
from dueline.store.road import RoadRule
from dueline.store.states import CANCELLED, MOVED
from dueline.testing import FaultyFiles


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def store(tmp_path: Path, wall: Wall) -> Iterator[Store]:
    with open_store(tmp_path, wall) as store:
        yield store


def put(store: Store, *delays_ms: int) -> list[int]:
    results = [store.put(delayed(each, b"%d" % each, KEYS="k")) for each in delays_ms]
    return [result.seq for result in results if result.seq is not None]


def show(store: Store, wall: Wall) -> list[bytes]:
    wall.advance(1 << 36)
    carry_over(store)
    store.open_gate()
    return bodies(store)


def test_cancel_answers_each_number(store: Store, wall: Wall) -> None:
    seqs = put(store, 1_000, 2_000, 3_000)
    carry_over(store, ahead_ms=1_000)
    wall.advance(1_000)
    store.open_gate()
    carry_over(store, ahead_ms=1_000)

    answers = store.numbers.cancel(int64s(*seqs, 99, -1))

    assert answers.tolist() == [TOO_LATE, DONE, DONE, UNKNOWN, UNKNOWN]
    assert store.numbers.cancel(int64s(*seqs)).tolist() == [TOO_LATE, DONE, DONE]
    assert show(store, wall) == [b"1000"]


def test_moves_keep_everything_but_the_time(store: Store, wall: Wall) -> None:
    message = Message(
        topic="orders",
        body=b"x",
        queue_id=2,
        flag=7,
        born_ms=START_MS - 5,
        reconsume_times=3,
        properties={"DELAY": "2", "KEYS": "a b", "TAGS": "t", "mine": "yes"},
    )
    result = store.put(message)
    assert result.seq is not None

    answers = store.numbers.move(int64s(result.seq), int64s(START_MS + 60_000))

    (moved, before) = store.find_delayed(result.unique_id)
    assert answers.tolist() == [DONE]
    assert (before.state, moved.due_ms, moved.queue_id) == (MOVED, START_MS + 60_000, 2)
    wall.advance(59_999)
    carry_over(store)
    store.open_gate()
    assert bodies(store, queue_id=2) == []
    wall.advance(1)
    store.open_gate()
    record = store.query("orders", "a")[0]
    assert (record.body, record.flag, record.born_ms, record.reconsume_times) == (
        b"x",
        7,
        START_MS - 5,
        3,
    )
    assert {"mine", "TAGS", "KEYS"} <= {
        entry.partition(b"\x01")[0].decode() for entry in record.properties.split(b"\x02")
    }


def test_moving_again_to_the_same_time_is_done_and_changes_nothing(store: Store) -> None:
    seqs = put(store, 1_000, 2_000)
    wanted = np.full(2, START_MS + 9_000, dtype=np.int64)

    first = store.numbers.move(int64s(*seqs), wanted)
    again = store.numbers.move(int64s(*seqs), wanted)
    other = store.numbers.move(int64s(*seqs), wanted + 1)

    assert (first.tolist(), again.tolist()) == ([DONE, DONE], [DONE, DONE])
    assert other.tolist() == [TOO_LATE, TOO_LATE]
    assert store.pending_count() == 2
    assert store.numbers.cancel(int64s(*seqs)).tolist() == [TOO_LATE, TOO_LATE]


def test_what_stands_at_the_gate_can_be_moved_as_it_was_sent(store: Store, wall: Wall) -> None:
    seqs = put(store, 1_000, 2_000)
    carry_over(store)

    answers = store.numbers.move(int64s(*seqs), int64s(START_MS + 8_000, START_MS + 7_000))

    assert answers.tolist() == [DONE, DONE]
    assert store.gate_row_count == 0
    wall.advance(5_000)
    carry_over(store)
    store.open_gate()
    assert bodies(store) == []
    assert show(store, wall) == [b"2000", b"1000"]


def test_a_time_that_has_passed_means_now_and_keeps_the_order(store: Store, wall: Wall) -> None:
    seqs = put(store, 3_000, 4_000, 5_000)

    store.numbers.move(int64s(*seqs), np.zeros(3, dtype=np.int64))
    carry_over(store)
    store.open_gate()

    assert bodies(store) == [b"3000", b"4000", b"5000"]


def test_changes_survive_a_restart(tmp_path: Path, wall: Wall) -> None:
    with open_store(tmp_path, wall) as store:
        seqs = put(store, 1_000, 2_000, 3_000)
        store.numbers.cancel(int64s(seqs[0]))
        store.numbers.move(int64s(seqs[1]), int64s(START_MS + 50_000))
    with open_store(tmp_path, wall) as store:
        states = [message.state for message in store.find_delayed("k")]

        assert states == [0, 0, MOVED, CANCELLED]
        assert show(store, wall) == [b"3000", b"2000"]


def test_a_time_too_far_away_and_a_number_twice_are_refused(store: Store) -> None:
    seqs = put(store, 1_000)

    with pytest.raises(LimitExceeded, match="delay: expected at most"):
        store.numbers.move(int64s(*seqs), int64s(1 << 50))
    with pytest.raises(InvalidRequest, match="each once"):
        store.numbers.move(int64s(0, 0), int64s(1, 1))
    assert store.pending_count() == 1


def test_what_a_rule_has_turned_back_is_still_meant_by_its_number(store: Store, wall: Wall) -> None:
    seqs = put(store, 1_000, 2_000, 3_000)
    carry_over(store)
    store.numbers.set_rule("orders", RoadRule(is_paused=True))
    assert store.numbers.newest(int64s(*seqs, 99, -1)).tolist() == [3, 4, 5, 99, -1]

    assert store.numbers.cancel(int64s(seqs[0])).tolist() == [DONE]
    moved = store.numbers.move(int64s(seqs[1]), int64s(START_MS + 9_000)).tolist()

    assert moved == [DONE]
    store.numbers.set_rule("orders", RoadRule())
    assert show(store, wall) == [b"3000", b"2000"]
    assert store.numbers.cancel(int64s(*seqs)).tolist() == [DONE, TOO_LATE, TOO_LATE]


def test_two_numbers_of_one_message_move_it_once(store: Store, wall: Wall) -> None:
    (first,) = put(store, 9_000)
    for _ in range(2):
        carry_over(store)
        store.numbers.set_rule("orders", RoadRule(is_paused=True))
        store.numbers.set_rule("orders", RoadRule())
    (second, third) = (first + 1, first + 2)
    assert store.numbers.newest(int64s(first, second, third)).tolist() == [third] * 3

    times_ms = int64s(*(START_MS + delay for delay in (20_000, 30_000, 40_000)))
    answers = store.numbers.move(int64s(first, second, third), times_ms).tolist()

    assert answers.count(DONE) == 1
    assert store.pending_count() == 1
    wall.advance(50_000)
    assert show(store, wall) == [b"9000"]


def test_a_number_that_the_timeline_has_forgotten_means_what_was_turned_back(
    tmp_path: Path, wall: Wall
) -> None:
    with open_store(tmp_path / "forgetful", wall) as store:
        (seq,) = put(store, 9_000)
        carry_over(store)
        store.checkpoint()
    with open_store(tmp_path / "forgetful", wall) as store:
        assert store.numbers.message(seq) is None
        store.numbers.set_rule("orders", RoadRule(is_paused=True))

        assert store.numbers.move(int64s(seq), int64s(START_MS + 5_000)).tolist() == [DONE]

        store.numbers.set_rule("orders", RoadRule())
        wall.advance(5_000)
        assert show(store, wall) == [b"9000"]


@pytest.mark.parametrize("operation", range(1, 6))
def test_a_disk_that_fails_while_a_rule_is_written_closes_the_store(
    tmp_path: Path, wall: Wall, operation: int
) -> None:
    """Whether the rule holds is known when the store is opened again; it is one or the other."""
    files = FaultyFiles()
    store = Store.open(tmp_path, SMALL, clock=wall.clock(), files=files)
    files.fail_at(files.operation_count + operation, errno.EIO)

    with pytest.raises(StoreClosed, match="Input/output error"):
        store.numbers.set_rule("orders", RoadRule(is_paused=True))

    with pytest.raises(StoreClosed):
        store.put(delayed(1_000))
    store.close()
    with open_store(tmp_path, wall) as reopened:
        assert reopened.numbers.rules in ({}, {"orders": RoadRule(is_paused=True)})
