"""Opening a RocketMQ store: what is none, what is in use, what it says of itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.unit.store.making import Wall, open_store
from tests.unit.takeover.making import START_MS, FakeBroker

from dueline.errors import CorruptRecord, InvalidRequest, NotFound, StoreLocked
from dueline.takeover import Source
from dueline.takeover.source import TimerProgress

# What a Java broker's lock is: one byte, exclusive, of the process.
HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
print("held", flush=True)
sys.stdin.read()
"""
TRY = HOLD.replace("sys.stdin.read()", "")


def test_folder_without_a_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()

    with pytest.raises(NotFound, match=r"found config; name the broker's storePathRootDir"):
        Source(tmp_path)


def test_store_of_ours_is_refused(tmp_path: Path) -> None:
    open_store(tmp_path, Wall()).close()

    with pytest.raises(InvalidRequest, match="found one of Dueline"):
        Source(tmp_path)


def test_store_of_a_running_broker_is_refused(fake: FakeBroker) -> None:
    fake.message("orders", 0, b"x")
    lock = fake.save() / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"

        with pytest.raises(StoreLocked, match="stop the broker"):
            Source(fake.path)
        holder.communicate()

    Source(fake.path).close()


def test_broker_cannot_start_while_the_source_is_open(fake: FakeBroker) -> None:
    fake.message("orders", 0, b"x")
    lock = fake.save() / "lock"

    def can_be_locked() -> bool:
        done = subprocess.run([sys.executable, "-c", TRY, str(lock)], capture_output=True)
        return done.returncode == 0

    with Source(fake.path):
        assert not can_be_locked()
    assert can_be_locked()
    assert lock.read_bytes() == b"lock", "nothing was written"


def test_log_may_be_elsewhere(fake: FakeBroker, tmp_path: Path) -> None:
    fake.message("orders", 0, b"x")
    (fake.save() / "commitlog").rename(tmp_path / "log")

    with Source(fake.path, commit_log=tmp_path / "log") as source:
        assert [len(batch.positions) for batch in source.batches()] == [1]


def test_records_of_all_segments_come_in_order(fake: FakeBroker) -> None:
    fake.base = fake._end = 8192
    positions = [fake.message("orders", 0, bytes(900)) for _ in range(14)]

    with Source(fake.save()) as source:
        found = [at for batch in source.batches() for at in batch.positions.tolist()]
        assert source.start == 8192

    assert found == positions
    assert max(positions) > 8192 + 3 * 4096
    assert not source.damage


def test_missing_segment_is_damage(fake: FakeBroker) -> None:
    for _ in range(12):
        fake.message("orders", 0, bytes(900))
    (fake.save() / "commitlog" / f"{4096:020d}").unlink()

    with Source(fake.path) as source:
        list(source.batches())

        assert [(one.start, one.end, one.reason) for one in source.damage] == [
            (4096, 8192, "missing segments")
        ]


def test_units_are_found_by_offset(fake: FakeBroker) -> None:
    positions = [fake.message("orders", 0, b"x") for _ in range(20)]
    fake.units["orders", 0][0] = (0, 0x7FFFFFFF, 0)

    with Source(fake.save()) as source:
        units = source.units("orders", 0).find(np.array([19, 0, 7, 8, 20, 99]))

    assert units["position"].tolist() == [positions[19], 0, positions[7], positions[8], 0, 0]
    assert (units["size"] > 0).tolist() == [True, False, True, True, False, False]
    assert units["size"][1] == -1, "a filler: the queue begins later"


def test_many_queues_do_not_stay_open(fake: FakeBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dueline.takeover.source._OPEN_QUEUES_MAX", 2)
    for queue_id in range(5):
        fake.message("orders", queue_id, b"x")

    with Source(fake.save()) as source:
        for queue_id in (0, 1, 2, 3, 4, 0):
            found = source.units("orders", queue_id).find(np.array([0]))
            assert found["size"][0] > 0
        assert len(source._queues) == 2


def test_mark_tells_stores_apart(fake: FakeBroker, tmp_path: Path) -> None:
    other = FakeBroker(tmp_path / "other", now_ms=START_MS + 1)
    marks = []
    for broker in (fake, other):
        position = broker.message("orders", 0, b"x")
        with Source(broker.save()) as source:
            (batch,) = source.batches()
            marks.append(source.mark(position, int(batch.sizes[0]), 0))

    with Source(fake.path) as source:
        assert [source.has(mark) for mark in marks] == [True, False]


def test_configuration_that_is_none_is_refused(fake: FakeBroker) -> None:
    fake.message("orders", 0, b"x")
    (fake.save() / "config" / "topics.json").write_text("[1]")

    with Source(fake.path) as source, pytest.raises(CorruptRecord, match=r"topics\.json\.bak"):
        source.table("topics.json", "topicConfigTable")


def test_progress_of_the_timer_is_read(fake: FakeBroker) -> None:
    fake.message("orders", 0, b"x")
    fake.timer_check = (START_MS, 12)

    with Source(fake.save()) as source:
        assert source.timer_progress() == TimerProgress(read_ms=START_MS, queue_offset=12)
        (fake.path / "config" / "timercheck").write_bytes(b"short")
        assert source.timer_progress() is None


def test_end_of_what_was_entered_is_that_of_the_last_unit(fake: FakeBroker) -> None:
    fake.message("orders", 0, b"x")
    for _ in range(9):
        last = fake.message("mails", 3, b"y")
    not_entered = fake.message("orders", 0, b"not entered")
    del fake.units["orders", 0][1]
    folder = fake.save() / "consumequeue" / "mails" / "3"
    (folder / f"{16 * 20:020d}").write_bytes(bytes(160))  # made ahead, still empty

    with Source(fake.path) as source:
        assert last < source.entered_end == not_entered
    (fake.path / "abort").touch()
    with Source(fake.path) as source:
        assert source.entered_end == 0
