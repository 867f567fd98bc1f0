"""Consume queues: units in files, rolled over, trimmed, checked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dueline.store.consume_queue import UNIT_DTYPE, ConsumeQueue, ConsumeQueues, Units
from dueline.store.files import Files
from dueline.store.kernels import Int64s


def units_of(*positions: int) -> Units:
    units = np.zeros(len(positions), dtype=UNIT_DTYPE)
    units["position"] = positions
    units["size"] = 91
    units["tags_code"] = [-position for position in positions]
    return units


@pytest.fixture
def queue(tmp_path: Path) -> ConsumeQueue:
    return ConsumeQueue(Files(), tmp_path / "t" / "0", 4)


def read_all(queue: ConsumeQueue) -> list[int]:
    found: list[int] = []
    offset = queue.start
    while offset < queue.end:
        units = queue.read(offset, 100)
        found += units["position"].tolist()
        offset += len(units)
    return found


def test_units_have_rocketmqs_bytes(queue: ConsumeQueue, tmp_path: Path) -> None:
    queue.append(units_of(258))

    data = (tmp_path / "t" / "0" / ("0" * 20)).read_bytes()
    assert len(data) == 80
    assert data[:20].hex() == "0000000000000102" + "0000005b" + "fffffffffffffefe"
    assert not any(data[20:])


def test_units_roll_over_into_the_next_file(queue: ConsumeQueue, tmp_path: Path) -> None:
    assert queue.append(units_of(*range(0, 600, 100))) == 0
    assert queue.append(units_of(*range(600, 1000, 100))) == 6

    assert queue.end == 10
    assert read_all(queue) == list(range(0, 1000, 100))
    names = sorted(path.name for path in (tmp_path / "t" / "0").iterdir())
    assert names == [f"{base * 20:020d}" for base in (0, 4, 8)]


def test_read_stops_at_file_and_queue_end(queue: ConsumeQueue) -> None:
    queue.append(units_of(0, 1, 2, 3, 4, 5))

    assert queue.read(1, 2)["position"].tolist() == [1, 2]
    assert queue.read(2, 9)["position"].tolist() == [2, 3]
    assert queue.read(4, 9)["position"].tolist() == [4, 5]
    assert len(queue.read(6, 9)) == 0
    assert len(queue.read(-1, 9)) == 0


def test_reserve_makes_room_and_shows_nothing(queue: ConsumeQueue) -> None:
    queue.reserve(6)

    assert (queue.start, queue.end) == (0, 0)
    assert len(queue.written_beyond(0)) == 0
    queue.append(units_of(*range(6)))
    assert read_all(queue) == [*range(6)]


def test_trim_advances_past_what_is_gone(queue: ConsumeQueue, tmp_path: Path) -> None:
    queue.append(units_of(*range(0, 1000, 100)))

    queue.trim(250)
    assert queue.start == 3
    assert read_all(queue) == list(range(300, 1000, 100))

    queue.trim(500)
    assert queue.start == 5
    names = sorted(path.name for path in (tmp_path / "t" / "0").iterdir())
    assert names == [f"{base * 20:020d}" for base in (4, 8)], "a file with only old units goes"


def test_trim_of_everything_keeps_the_end(queue: ConsumeQueue) -> None:
    queue.append(units_of(*range(0, 1000, 100)))

    queue.trim(5000)

    assert (queue.start, queue.end) == (10, 10)
    assert queue.append(units_of(5000)) == 10
    assert read_all(queue) == [5000]


def test_what_is_written_beyond_the_end_is_seen_and_cleared(queue: ConsumeQueue) -> None:
    """After a crash: units that a consumer may have seen, but the checkpoint does not know."""
    queue.append(units_of(*range(0, 700, 100)))
    queue.end = 2

    assert queue.written_beyond(2)["position"].tolist() == [200, 300, 400, 500, 600]

    queue.clear_beyond()
    assert len(queue.written_beyond(2)) == 0
    assert read_all(queue) == [0, 100]


def test_offsets_are_given_in_row_order(tmp_path: Path) -> None:
    queues = ConsumeQueues(Files(), tmp_path, 4)
    first, second = queues.number_of("a", 0), queues.number_of("b%", 3)
    numbers = np.array([second, first, second, second, first], dtype=np.int64)

    assert queues.next_offsets(numbers).tolist() == [0, 0, 1, 2, 1]
    append(queues, numbers, [10, 20, 30, 40, 50])
    assert queues.next_offsets(numbers).tolist() == [3, 2, 4, 5, 3]

    assert read_all(queues.by_number(first)) == [20, 50]
    assert read_all(queues.by_number(second)) == [10, 30, 40]
    assert queues.names == [("a", 0), ("b%", 3)]
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


def test_queue_that_exists_only_on_disk_is_known(tmp_path: Path) -> None:
    queues = ConsumeQueues(Files(), tmp_path, 4)
    append(queues, np.array([queues.number_of("a", 7)]), [10])
    queues.close()

    again = ConsumeQueues(Files(), tmp_path, 4)
    again.restore({}, {})

    assert again.names == [("a", 7)]


@pytest.mark.parametrize("first", [0, 4, 6])
def test_queue_may_begin_late(queue: ConsumeQueue, tmp_path: Path, first: int) -> None:
    queue.begin(first)

    assert queue.append(units_of(10, 20, 30)) == first
    assert (queue.start, queue.end) == (first, first + 3)
    assert read_all(queue) == [10, 20, 30]
    assert len(queue.read(first - 1, 9)) == 0
    if first == 6:
        data = (tmp_path / "t" / "0" / f"{80:020d}").read_bytes()
        assert data[:40].hex() == ("0000000000000000" + "7fffffff" + "0000000000000000") * 2
        assert data[40:48].hex() == "000000000000000a"


def test_queue_that_began_late_is_checked_like_any_other(tmp_path: Path) -> None:
    queue = ConsumeQueue(Files(), tmp_path, 4)
    queue.begin(6)
    queue.append(units_of(10))
    path = tmp_path / f"{80:020d}"
    data = bytearray(path.read_bytes())
    data[44] ^= 1
    path.write_bytes(data)
    repaired = []

    def repair(start: int, end: int) -> Units:
        repaired.append((start, end))
        return units_of(0, 0, 10)

    queue.repair = repair

    assert read_all(queue) == [10]
    assert repaired == [(4, 7)]
