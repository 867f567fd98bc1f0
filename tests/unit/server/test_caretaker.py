from collections.abc import Iterator
from pathlib import Path

import pytest

from dueline.broker.consumer_offsets import ConsumerOffsets
from dueline.broker.housekeeping import Housekeeping
from dueline.clock import Clock
from dueline.errors import StoreClosed
from dueline.message import Message
from dueline.server.caretaker import CHECKPOINT_TURNS, OFFSETS_TURNS, RETRY_TURNS, Caretaker
from dueline.store import Files, Store, StoreOptions
from dueline.testing import FaultyFiles, ManualClock

OPTIONS = StoreOptions(
    commit_segment_size_bytes=1 << 16, delay_segment_size_bytes=1 << 16, open_units_max=10
)


class Time:
    now_ms = 1_000_000


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(tmp_path: Path, time: Time) -> Iterator[Store]:
    store = Store.open(tmp_path / "store", OPTIONS, clock=Clock(lambda: time.now_ms))
    yield store
    store.close()


@pytest.fixture
def offsets(tmp_path: Path) -> ConsumerOffsets:
    return ConsumerOffsets(tmp_path / "offsets.json", Files())


def caretaker_of(store: Store, offsets: ConsumerOffsets) -> Caretaker:
    return Caretaker(Housekeeping(store, offsets), on_failure=lambda error: None)


def checkpoint_of(store: Store) -> bytes:
    return (store.path / "checkpoint.json").read_bytes()


def delayed(number: int) -> Message:
    return Message(topic="t", body=b"%d" % number, properties={"TIMER_DELAY_MS": "3600000"})


def test_a_full_open_run_is_written_at_the_next_turn(
    store: Store, offsets: ConsumerOffsets
) -> None:
    caretaker = caretaker_of(store, offsets)
    store.put_all([delayed(number) for number in range(9)])
    caretaker.turn(1)
    assert store.stats()["run_count"] == 0

    store.put(delayed(9))
    caretaker.turn(2)

    assert store.stats()["run_count"] == 1


def test_each_minute_what_changed_is_checkpointed_and_nothing_else(
    store: Store, offsets: ConsumerOffsets
) -> None:
    caretaker = caretaker_of(store, offsets)
    before = checkpoint_of(store)
    caretaker.turn(CHECKPOINT_TURNS)
    assert checkpoint_of(store) == before

    store.put(delayed(1))
    for number in range(1, CHECKPOINT_TURNS):
        caretaker.turn(number)
    assert checkpoint_of(store) == before
    caretaker.turn(CHECKPOINT_TURNS)

    after = checkpoint_of(store)
    assert after != before
    caretaker.turn(2 * CHECKPOINT_TURNS)
    assert checkpoint_of(store) == after


def test_old_segments_go_each_minute(store: Store, offsets: ConsumerOffsets, time: Time) -> None:
    caretaker = caretaker_of(store, offsets)
    for _ in range(20):
        store.put(Message(topic="t", body=bytes(10_000)))
    caretaker.turn(CHECKPOINT_TURNS)
    segment_count = store.stats()["commit_log"]["segment_count"]
    assert store.offset_range("t", 0)[0] == 0
    time.now_ms += OPTIONS.retention_ms + 1

    caretaker.turn(2 * CHECKPOINT_TURNS)

    assert store.stats()["commit_log"]["segment_count"] < segment_count
    assert store.offset_range("t", 0)[0] > 0


def test_offsets_are_saved_every_few_seconds(
    store: Store, offsets: ConsumerOffsets, tmp_path: Path
) -> None:
    caretaker = caretaker_of(store, offsets)
    offsets.set("g", "t", {0: 1})

    caretaker.turn(1)
    assert not (tmp_path / "offsets.json").exists()
    caretaker.turn(OFFSETS_TURNS)

    assert (tmp_path / "offsets.json").exists()


def test_a_failure_that_leaves_the_store_open_is_tried_again(
    store: Store, offsets: ConsumerOffsets, tmp_path: Path
) -> None:
    caretaker = caretaker_of(store, offsets)
    offsets.set("g", "t", {0: 1})
    (tmp_path / "offsets.json").mkdir()  # cannot be replaced by a file

    caretaker.turn(OFFSETS_TURNS)
    (tmp_path / "offsets.json").rmdir()
    caretaker.turn(2 * OFFSETS_TURNS)

    assert ConsumerOffsets(tmp_path / "offsets.json", Files()).get("g", "t") == {0: 1}


def test_a_checkpoint_without_disk_space_is_tried_again_after_a_while(
    tmp_path: Path, offsets: ConsumerOffsets
) -> None:
    files = FaultyFiles()
    with Store.open(tmp_path / "store", OPTIONS, clock=ManualClock(), files=files) as store:
        caretaker = caretaker_of(store, offsets)
        store.put_all([delayed(number) for number in range(10)])
        files.is_full = True
        caretaker.turn(1)
        tried_count = files.operation_count

        caretaker.turn(2)

        assert files.operation_count == tried_count
        files.is_full = False
        caretaker.turn(RETRY_TURNS)
        assert store.stats()["run_count"] == 1


def test_a_closed_store_ends_the_housekeeping(tmp_path: Path, offsets: ConsumerOffsets) -> None:
    store = Store.open(tmp_path / "closed", OPTIONS)
    caretaker = caretaker_of(store, offsets)
    store.close()

    with pytest.raises(StoreClosed):
        caretaker.turn(CHECKPOINT_TURNS)


def test_a_clock_that_was_set_back_is_said_each_minute_and_at_the_start(
    store: Store, offsets: ConsumerOffsets, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    caretaker = caretaker_of(store, offsets)
    time.now_ms += 8 * 3_600_000
    store.put(Message(topic="t", body=b"shown by a clock that is ahead"))
    caretaker.turn(CHECKPOINT_TURNS)
    assert "stands still" not in caplog.text

    time.now_ms -= 8 * 3_600_000
    caretaker.turn(2 * CHECKPOINT_TURNS)
    assert "time stands still for 28800 s" in caplog.text

    caplog.clear()
    store.close()
    Store.open(store.path, OPTIONS, clock=Clock(lambda: time.now_ms)).close()
    assert "time stands still for 28800 s" in caplog.text
