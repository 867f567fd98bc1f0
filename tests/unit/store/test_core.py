"""What the parts of a store share: refusals, failures, the gate, segments and wrong offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.store.making import SMALL, START_MS, QuickFiles, Wall, int64s

from dueline.errors import InvalidRequest, LimitExceeded, StoreClosed, StoreFailed
from dueline.store.checkpoint import Checkpoint
from dueline.store.core import Core
from dueline.store.due import LevelHistory
from dueline.store.gate import GateRows
from dueline.store.recovered import Recovered, Report

SEGMENT = SMALL.delay_segment_size_bytes


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def core(tmp_path: Path, wall: Wall) -> Iterator[Core]:
    made = Core(tmp_path, SMALL, clock=wall.clock(), files=QuickFiles())
    yield made
    made.close()


def rows_at(core: Core, *visible_ms: int) -> GateRows:
    """Rows of one queue that become visible at these times, at positions 0, 100, 200, …"""
    count = len(visible_ms)
    number = core.queues.number_of("orders", 0)
    return GateRows(
        visible_ms=int64s(*visible_ms),
        due_ms=int64s(*visible_ms),
        position=np.arange(count, dtype=np.int64) * 100,
        size=np.full(count, 100, dtype=np.int32),
        tags_code=np.zeros(count, dtype=np.int64),
        queue=np.full(count, number, dtype=np.int64),
        origin=np.arange(count, dtype=np.int64),
    )


def at_gate(core: Core, *visible_ms: int) -> None:
    core.commit.reserve(100 * len(visible_ms))
    core.gate.add(rows_at(core, *visible_ms))


def end_of_queue(core: Core) -> int:
    return core.queues.by_number(core.queues.number_of("orders", 0)).end


def test_records_that_do_not_fit_are_refused_with_the_limit(core: Core) -> None:
    core.check_size(SMALL.commit_segment_size_bytes - 8, is_delayed=False)
    with pytest.raises(LimitExceeded, match="expected at most 16376 bytes, found 16377"):
        core.check_size(SMALL.commit_segment_size_bytes - 7, is_delayed=False)

    core.check_size(SEGMENT - 1024, is_delayed=True)
    with pytest.raises(LimitExceeded, match="expected at most 15360 bytes, found 15361"):
        core.check_size(SEGMENT - 1023, is_delayed=True)


def test_delayed_records_must_fit_into_the_smaller_log(tmp_path: Path, wall: Wall) -> None:
    options = replace(SMALL, commit_segment_size_bytes=8_192)
    core = Core(tmp_path, options, clock=wall.clock(), files=QuickFiles())

    with pytest.raises(LimitExceeded):
        core.check_size(8_192 - 1023, is_delayed=True)

    core.close()


def test_a_failed_write_closes_the_store_and_the_first_reason_stays(core: Core) -> None:
    with pytest.raises(StoreFailed, match="it may be there or not"), core.indexing():
        raise OSError(5, "first")
    core.fail(OSError(5, "second"))

    assert core.is_failed
    with pytest.raises(StoreClosed, match="first"):
        core.check_open()


def test_errors_of_ours_become_failures_and_mistakes_stay_what_they_are(core: Core) -> None:
    with pytest.raises(StoreFailed), core.closing_on_failure():
        raise InvalidRequest("bad")
    with pytest.raises(ZeroDivisionError), core.closing_on_failure():
        raise ZeroDivisionError


def test_a_closed_store_says_so(core: Core) -> None:
    core.check_open()
    core.close()

    with pytest.raises(StoreClosed, match="is closed"):
        core.check_open()
    assert core.is_closed


def test_a_store_is_busy_while_a_log_is_held_or_a_run_is_to_be_written(
    core: Core, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not core.is_busy()
    for lock in (core.commit_lock, core.delay_lock):
        with lock:
            assert core.is_busy()

    monkeypatch.setattr(core, "options", replace(SMALL, open_units_max=0))
    assert core.is_busy()


def test_gate_opens_up_to_a_time_and_remembers_what_was_shown(core: Core) -> None:
    at_gate(core, START_MS + 1, START_MS + 2, START_MS + 9)

    assert core.open_gate(START_MS + 5) == 2

    assert end_of_queue(core) == 2
    assert core.index_ms == START_MS + 2
    assert bytes(core.commit.read(120, 8)) == (1).to_bytes(8, "big"), "its offset in the record"


def test_gate_stays_shut_beyond_what_is_in_flight(core: Core) -> None:
    at_gate(core, START_MS + 1, START_MS + 2)
    core.in_flight_ms = START_MS + 1

    assert core.open_gate(START_MS + 5) == 1

    core.in_flight_ms = None
    assert core.open_gate(START_MS + 5) == 1


def test_last_shown_time_of_a_queue(core: Core) -> None:
    number = core.queues.number_of("orders", 0)
    assert core.last_shown_ms(number) == 0

    core.queues.append(int64s(number), int64s(5 * SEGMENT), np.array([100], np.int32), int64s(0))

    assert core.last_shown_ms(number) is None, "its segment is gone"


def test_acceptance_numbers_of_each_delay_segment(core: Core) -> None:
    core.note_segments(int64s(0, 100), 7)
    core.note_segments(int64s(200), 9)
    core.note_segments(int64s(300, SEGMENT, SEGMENT + 100, 3 * SEGMENT), 10)

    assert core.segments == {0: [7, 11], SEGMENT: [11, 13], 3 * SEGMENT: [13, 14]}


def test_what_recovery_found_is_taken_over(core: Core) -> None:
    core.note_shown(START_MS + 50)
    found = Recovered(
        report=Report(),
        start=Checkpoint(),
        next_seq=12,
        index_ms=START_MS + 40,
        accepted_ms=START_MS + 30,
        floor_ms=START_MS + 60,
        delay_queues={"SCHEDULE_TOPIC_XXXX/0": 3},
        delay_segments={0: [0, 12]},
        levels=LevelHistory([(0, "7s")]),
    )

    core.adopt(found)

    assert core.clock.now_ms() == START_MS + 60, "time does not go back"
    assert (core.next_seq, core.accepted_ms) == (12, START_MS + 30)
    assert core.index_ms == START_MS + 50, "what was shown stays shown"
    assert core.segments == {0: [0, 12]}
    assert core.delay_queues == {"SCHEDULE_TOPIC_XXXX/0": 3}
    assert core.levels.at(5).delay_ms(1) == 7_000


def test_wrong_offsets_are_mended_together(core: Core) -> None:
    core.commit.reserve(300)
    core.note_wrong_offset(0, 5)
    core.note_wrong_offset(100, 6)
    core.note_wrong_offset(9 * SEGMENT, 7)  # retention was quicker
    assert bytes(core.commit.read(20, 8)) == bytes(8), "noting changes nothing"

    core.mend_offsets()

    assert bytes(core.commit.read(20, 8)) == (5).to_bytes(8, "big")
    assert bytes(core.commit.read(120, 8)) == (6).to_bytes(8, "big")
