"""Consume queues: units in files, rolled over, trimmed, checked."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import numpy as np
import pytest

from dueline.errors import Unavailable
from dueline.store.consume_queue import (
    UNIT_DTYPE,
    UNIT_SIZE,
    ConsumeQueue,
    QueueUnits,
)
from dueline.store.consume_queues import ConsumeQueues
from dueline.store.files import File, Files
from dueline.store.kernels import Int64s
from dueline.store.unit_blocks import BLOCK_UNITS, COUNT_MAX
from dueline.testing import FaultyFiles


def units_of(*positions: int) -> QueueUnits:
    units = np.zeros(len(positions), dtype=UNIT_DTYPE)
    units["position"] = positions
    units["size"] = 91
    units["tags_code"] = [-position for position in positions]
    return units


@pytest.fixture
def queues(tmp_path: Path) -> ConsumeQueues:
    return ConsumeQueues(Files(), tmp_path, 4)


@pytest.fixture
def queue(queues: ConsumeQueues) -> ConsumeQueue:
    return queues.by_number(queues.number_of("t", 0))


def add(queues: ConsumeQueues, *positions: int, is_flushed: bool = True) -> None:
    """Put units into queue 0 of topic t, and into its files."""
    queues.append_to(queues.number_of("t", 0), units_of(*positions).tobytes())
    if is_flushed:
        queues.flush(queues.begin_flush())


def read_all(queue: ConsumeQueue) -> list[int]:
    found: list[int] = []
    offset = queue.start
    while offset < queue.end:
        units = queue.read(offset, 100)
        found += units["position"].tolist()
        offset += len(units)
    return found


def test_units_have_rocketmqs_bytes(queues: ConsumeQueues, tmp_path: Path) -> None:
    add(queues, 258)

    data = (tmp_path / "t" / "0" / ("0" * 20)).read_bytes()
    assert len(data) == 80
    assert data[:20].hex() == "0000000000000102" + "0000005b" + "fffffffffffffefe"
    assert not any(data[20:])


@pytest.mark.parametrize("is_flushed", [True, False])
def test_units_roll_over_into_the_next_file(
    queues: ConsumeQueues, queue: ConsumeQueue, tmp_path: Path, is_flushed: bool
) -> None:
    add(queues, *range(0, 600, 100), is_flushed=is_flushed)
    add(queues, *range(600, 1000, 100))

    assert queue.end == queue.flushed_end == 10
    assert read_all(queue) == list(range(0, 1000, 100))
    names = sorted(path.name for path in (tmp_path / "t" / "0").iterdir())
    assert names == [f"{base * 20:020d}" for base in (0, 4, 8)]


def test_read_stops_at_file_and_queue_end(queues: ConsumeQueues, queue: ConsumeQueue) -> None:
    add(queues, 0, 1, 2, 3, 4, 5)
    add(queues, 6, 7, 8, 9, is_flushed=False)

    assert queue.read(1, 2)["position"].tolist() == [1, 2]
    assert queue.read(2, 9)["position"].tolist() == [2, 3]
    assert queue.read(4, 2)["position"].tolist() == [4, 5]
    assert queue.read(4, 4)["position"].tolist() == [4, 5, 6, 7], "from file and memory"
    assert queue.read(4, 99)["position"].tolist() == [4, 5, 6, 7, 8, 9]
    assert queue.read(7, 2)["position"].tolist() == [7, 8]
    assert queue.read(6, 9)["position"].tolist() == [6, 7, 8, 9]
    assert len(queue.read(10, 9)) == 0
    assert len(queue.read(-1, 9)) == 0


def test_append_needs_no_disk(tmp_path: Path) -> None:
    files = FaultyFiles()
    queues = ConsumeQueues(files, tmp_path, 4)
    files.is_full = True
    before = files.operation_count

    add(queues, *range(9), is_flushed=False)

    assert files.operation_count == before
    queue = queues.by_number(0)
    assert read_all(queue) == [*range(9)]
    with pytest.raises(Unavailable):
        queues.flush(queues.begin_flush())
    assert (queues.open_count, queue.flushed_end) == (9, 0)
    assert read_all(queue) == [*range(9)]

    files.is_full = False
    queues.flush(queues.begin_flush())
    assert (queues.open_count, queue.flushed_end) == (0, 9)
    assert read_all(queue) == [*range(9)]


def test_a_flush_that_a_full_disk_interrupts_is_done_again_whole(tmp_path: Path) -> None:
    whole = ConsumeQueues(Files(), tmp_path / "whole", 4)
    add(whole, *range(11))
    add(whole, *range(11, 14))

    tried: list[int] = []
    for number in range(1, 40):  # whichever operation it hits
        folder = tmp_path / str(number)
        files = FaultyFiles()
        queues = ConsumeQueues(files, folder, 4)
        files.fail_at(files.operation_count + number, errno.ENOSPC)
        try:
            add(queues, *range(11))
        except OSError:  # of a sync: that closes a store
            continue
        except Unavailable:
            tried.append(number)
        else:
            break
        add(queues, *range(11, 14))

        assert queues.checks() == whole.checks()
        again = ConsumeQueues(Files(), folder, 4)
        again.restore(queues.ranges(), queues.checks())
        assert read_all(again.by_number(0)) == [*range(14)]
        sizes = {path.stat().st_size for path in folder.rglob("*") if path.is_file()}
        assert sizes == {4 * UNIT_SIZE}
    assert len(tried) > 5


def test_what_comes_during_a_flush_stays_in_memory(
    queues: ConsumeQueues, queue: ConsumeQueue, tmp_path: Path
) -> None:
    add(queues, 0, 1, is_flushed=False)
    pending = queues.begin_flush()
    add(queues, 2, 3, 4, is_flushed=False)

    queues.flush(pending)

    assert (queue.flushed_end, queues.open_count) == (2, 3)
    assert queues.ranges() == {"t": {"0": [0, 2]}}
    assert read_all(queue) == [0, 1, 2, 3, 4]
    queues.flush(queues.begin_flush())
    assert queues.ranges() == {"t": {"0": [0, 5]}}
    assert read_all(queue) == [0, 1, 2, 3, 4]


def test_queues_of_a_checkpoint_are_read_again(queues: ConsumeQueues, tmp_path: Path) -> None:
    add(queues, *range(7))

    again = ConsumeQueues(Files(), tmp_path, 4)
    again.restore(queues.ranges(), queues.checks())

    assert again.names() == [("t", 0)]
    assert (again.ids("t"), again.ids("other")) == ([0], [])
    assert read_all(again.by_number(0)) == [*range(7)]
    add(again, 7, 8)
    assert read_all(again.by_number(0)) == [*range(9)]
    assert again.checks() != queues.checks()


@pytest.mark.parametrize("is_many", [False, True])
def test_flushed_units_survive_a_power_cut(tmp_path: Path, is_many: bool) -> None:
    files = FaultyFiles()
    queues = ConsumeQueues(files, tmp_path, 4, sync_each_max=0 if is_many else 100)
    for topic in ("t", "u"):
        for queue_id in range(3):
            queues.append_to(queues.number_of(topic, queue_id), units_of(*range(5)).tobytes())
    queues.flush(queues.begin_flush())

    files.power_cut(0)

    again = ConsumeQueues(Files(), tmp_path, 4)
    again.restore(queues.ranges(), queues.checks())
    assert [read_all(queue) for queue in again] == [[*range(5)]] * 6


def test_trim_advances_past_what_is_gone(
    queues: ConsumeQueues, queue: ConsumeQueue, tmp_path: Path
) -> None:
    add(queues, *range(0, 1000, 100))

    queues.trim(250)
    assert queue.start == 3
    assert read_all(queue) == list(range(300, 1000, 100))

    queues.trim(500)
    assert queue.start == 5
    names = sorted(path.name for path in (tmp_path / "t" / "0").iterdir())
    assert names == [f"{base * 20:020d}" for base in (4, 8)], "a file with only old units goes"


@pytest.mark.parametrize("is_flushed", [True, False])
def test_trim_looks_beyond_a_file_of_which_all_is_alive(
    queues: ConsumeQueues, queue: ConsumeQueue, is_flushed: bool
) -> None:
    """Carried over later and visible earlier: the order of a queue is not that of its log."""
    add(queues, *range(1_000, 1_012), 100, 1_012, 200, 1_013, is_flushed=is_flushed)

    queues.trim(500)

    assert read_all(queue) == [1_013]


@pytest.mark.parametrize("is_flushed", [True, False])
def test_trim_of_everything_keeps_the_end(
    queues: ConsumeQueues, queue: ConsumeQueue, is_flushed: bool
) -> None:
    add(queues, *range(0, 1000, 100), is_flushed=is_flushed)

    queues.trim(5000)

    assert (queue.start, queue.end) == (10, 10)
    assert queue.append(units_of(5000).tobytes()) == 10
    assert read_all(queue) == [5000]


def test_trim_that_was_interrupted_is_gone_on_with(
    queues: ConsumeQueues, queue: ConsumeQueue, tmp_path: Path
) -> None:
    add(queues, *range(0, 1000, 100))
    (tmp_path / "t" / "0" / ("0" * 20)).unlink()

    queues.trim(0, after_crash=True)

    assert (queue.start, queue.end) == (4, 10)
    assert read_all(queue) == list(range(400, 1000, 100))


def test_offsets_are_given_in_row_order(tmp_path: Path) -> None:
    queues = ConsumeQueues(Files(), tmp_path, 4)
    first, second = queues.number_of("a", 0), queues.number_of("b%", 3)
    numbers = np.array([second, first, second, second, first], dtype=np.int64)

    assert queues.next_offsets(numbers).tolist() == [0, 0, 1, 2, 1]
    append(queues, numbers, [10, 20, 30, 40, 50])
    assert queues.next_offsets(numbers).tolist() == [3, 2, 4, 5, 3]

    assert read_all(queues.by_number(first)) == [20, 50]
    assert read_all(queues.by_number(second)) == [10, 30, 40]
    assert queues.names() == [("a", 0), ("b%", 3)]
    assert queues.get("a", 0) is queues.by_number(first)
    assert queues.get("a", 1) is None


def append(queues: ConsumeQueues, numbers: Int64s, positions: list[int]) -> None:
    count = len(positions)
    queues.append(
        numbers,
        np.array(positions, dtype=np.int64),
        np.full(count, 91, dtype=np.int32),
        np.zeros(count, dtype=np.int64),
    )


@pytest.mark.parametrize("first", [0, 4, 6])
def test_queue_may_begin_late(
    queues: ConsumeQueues, queue: ConsumeQueue, tmp_path: Path, first: int
) -> None:
    queues.begin(0, first)
    queues.flush(queues.begin_flush())
    add(queues, 10, 20, 30)

    assert (queue.start, queue.end) == (first, first + 3)
    assert read_all(queue) == [10, 20, 30]
    assert len(queue.read(first - 1, 9)) == 0
    if first == 6:
        data = (tmp_path / "t" / "0" / f"{80:020d}").read_bytes()
        assert data[:40].hex() == ("0000000000000000" + "7fffffff" + "0000000000000000") * 2
        assert data[40:48].hex() == "000000000000000a"


def test_queue_that_began_late_is_checked_like_any_other(tmp_path: Path) -> None:
    repaired = []

    def repair(topic: str, queue_id: int, start: int, end: int) -> QueueUnits:
        repaired.append((topic, queue_id, start, end))
        return units_of(0, 0, 10)

    queues = ConsumeQueues(Files(), tmp_path, 4)
    queues.begin(queues.number_of("t", 0), 6)
    add(queues, 10)
    path = tmp_path / "t" / "0" / f"{80:020d}"
    data = bytearray(path.read_bytes())
    data[44] ^= 1
    path.write_bytes(data)
    again = ConsumeQueues(Files(), tmp_path, 4, repair=repair)
    again.restore(queues.ranges(), queues.checks())

    assert read_all(again.by_number(0)) == [10]
    assert repaired == [("t", 0, 4, 7)]


class CountingFiles(Files):
    """Counts how often a file was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened_count = 0

    def open(self, path: Path, *, writable: bool = False) -> File:
        self.opened_count += 1
        return super().open(path, writable=writable)


def test_reads_that_follow_one_another_open_a_file_once(tmp_path: Path) -> None:
    files = CountingFiles()
    queues = ConsumeQueues(files, tmp_path, 1_000)
    add(queues, *range(900))
    add(queues, *range(900, 930), is_flushed=False)
    queue = queues.by_number(0)
    files.opened_count = 0

    found: list[int] = []
    for offset in range(0, BLOCK_UNITS, 32):
        assert queue.needs_file(offset, 32) == (offset == 0)
        found += queue.read(offset, 32)["position"].tolist()

    assert found == list(range(BLOCK_UNITS))
    assert files.opened_count == 1
    assert queue.needs_file(BLOCK_UNITS - 1, 2)
    assert queue.read(BLOCK_UNITS - 1, 2)["position"].tolist() == [BLOCK_UNITS - 1, BLOCK_UNITS]
    assert queue.read(BLOCK_UNITS - 9, 200)["position"].tolist() == list(
        range(BLOCK_UNITS - 9, BLOCK_UNITS + 191)
    )
    assert queue.read(890, 30)["position"].tolist() == list(range(890, 920)), "file and memory"
    assert files.opened_count == 2
    assert not queue.needs_file(890, 30)
    assert not queue.needs_file(900, 30), "in memory"


def test_readers_at_several_places_open_a_file_once_for_each(tmp_path: Path) -> None:
    files = CountingFiles()
    queues = ConsumeQueues(files, tmp_path, 10_000)
    add(queues, *range(5_000))
    queue = queues.by_number(0)
    files.opened_count = 0

    for step in range(0, 480, 32):
        for place in (0, 2_048, 4_096):
            assert queue.read(place + step, 32)["position"][0] == place + step

    assert files.opened_count == 3


@pytest.mark.parametrize("file_units", [700, 1_024, 5_000])
def test_a_read_is_the_same_from_blocks_and_as_bytes(tmp_path: Path, file_units: int) -> None:
    queues = ConsumeQueues(Files(), tmp_path, file_units)
    add(queues, *range(2_500))
    add(queues, *range(2_500, 2_600), is_flushed=False)
    queue = queues.by_number(0)
    generator = random.Random(5)
    at_hand_count = 0

    for _ in range(300):
        offset, count = generator.randrange(2_600), generator.choice([1, 32, 600, 2_000])
        found = queue.read(offset, count)["position"].tolist()
        end_of_file = offset - offset % file_units + file_units
        assert found == list(range(offset, offset + len(found)))
        assert len(found) >= min(count, min(end_of_file, 2_600) - offset)
        at_hand = queue.at_hand(offset, count)
        if at_hand is not None:
            at_hand_count += 1
            data, first, end = at_hand
            units = np.frombuffer(data.tobytes(), dtype=UNIT_DTYPE)
            assert units["position"].tolist() == found
            assert (first, end) == (found[0], found[-1] + units["size"][-1])
    assert 0 < at_hand_count < 300
    assert queue.at_hand(2_600, 1) is None


def test_what_is_flushed_behind_a_block_is_read(tmp_path: Path) -> None:
    queues = ConsumeQueues(Files(), tmp_path, 1_000)
    add(queues, *range(10))
    queue = queues.by_number(0)
    assert queue.read(0, 4)["position"].tolist() == [0, 1, 2, 3]

    add(queues, *range(10, 20))

    assert queue.read(8, 4)["position"].tolist() == [8, 9, 10, 11]
    assert queue.read(0, 99)["position"].tolist() == list(range(20))


def test_few_queues_have_a_block_at_a_time(tmp_path: Path) -> None:
    files = CountingFiles()
    queues = ConsumeQueues(files, tmp_path, 4)
    count = COUNT_MAX + 3
    for number in range(count):
        queues.append_to(queues.number_of("t", number), units_of(7 * number).tobytes())
    queues.flush(queues.begin_flush())

    for number in range(count):
        assert queues.by_number(number).read(0, 1)["position"].tolist() == [7 * number]

    have_none = [number for number in range(count) if queues.by_number(number).needs_file(0, 1)]
    assert have_none == [0, 1, 2]
    assert read_all(queues.by_number(0)) == [0]
