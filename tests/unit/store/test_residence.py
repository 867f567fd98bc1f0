"""What was found in memory is not asked for again at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dueline.store import Files
from dueline.store.files import File
from dueline.store.log import Log
from dueline.store.residence import BLOCK_SIZE_BYTES, KEPT_COUNT_MAX, KEPT_S, Residence

SEGMENT = 5 * BLOCK_SIZE_BYTES // 2


class Memory:
    """Which bytes of files are in memory, and how often that was asked."""

    def __init__(self) -> None:
        self.end = 1 << 40
        self.asked: list[tuple[int, int]] = []

    def is_cached(self, start: int, end: int) -> bool:
        self.asked.append((start, end))
        return end <= self.end


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(Files(), tmp_path / "log", SEGMENT)
    log.reserve(2 * SEGMENT - 8)
    yield log
    log.close()


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    memory = Memory()
    monkeypatch.setattr(File, "is_cached", lambda file, start, end: memory.is_cached(start, end))
    return memory


def test_a_block_is_asked_for_once_in_a_while(log: Log, memory: Memory) -> None:
    now_s = 10.0
    residence = Residence(log, clock_s=lambda: now_s)

    assert residence.has(10, 20)
    assert residence.has(BLOCK_SIZE_BYTES - 5, BLOCK_SIZE_BYTES)
    assert memory.asked == [(0, BLOCK_SIZE_BYTES)]
    assert residence.has(BLOCK_SIZE_BYTES - 5, BLOCK_SIZE_BYTES + 5)
    assert len(memory.asked) == 2
    now_s += KEPT_S
    assert residence.has(10, 20)
    assert len(memory.asked) == 3


def test_blocks_are_those_of_a_segment(log: Log, memory: Memory) -> None:
    residence = Residence(log)

    assert residence.has(2 * BLOCK_SIZE_BYTES, SEGMENT)
    assert residence.has(SEGMENT, SEGMENT + 1)

    assert memory.asked == [(2 * BLOCK_SIZE_BYTES, SEGMENT), (0, BLOCK_SIZE_BYTES)]


def test_what_is_there_of_a_block_that_is_not_is_told_each_time(log: Log, memory: Memory) -> None:
    memory.end = 100
    residence = Residence(log)

    for _ in range(2):
        assert residence.has(10, 100)
        assert not residence.has(10, 101)
    assert memory.asked.count((0, BLOCK_SIZE_BYTES)) == 4


def test_nothing_is_known_of_a_segment_that_is_gone(log: Log, memory: Memory) -> None:
    assert not Residence(log).has(9 * SEGMENT, 9 * SEGMENT + 1)


def test_few_blocks_are_remembered(log: Log, memory: Memory) -> None:
    residence = Residence(log)
    residence._found_s = dict.fromkeys(range(-KEPT_COUNT_MAX, 0), 0.0)

    assert residence.has(0, 1)
    assert len(residence._found_s) == 1


@pytest.mark.parametrize("end", [SEGMENT + 1, SEGMENT + BLOCK_SIZE_BYTES, 2 * SEGMENT])
def test_what_is_in_two_segments_is_for_others_to_ask(log: Log, memory: Memory, end: int) -> None:
    residence = Residence(log)

    assert not residence.has(SEGMENT - 10, end)
    assert not memory.asked
    assert residence.has(SEGMENT - 10, SEGMENT)
