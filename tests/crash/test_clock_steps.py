"""A wall clock that is set back or forth, during a run and between two of them."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.crash.observing import read_queue
from tests.crash.script import START_MS, STEPS, Driver

from dueline.store import Files
from dueline.testing import FaultyFiles

SEED = int(os.environ.get("DUELINE_CRASH_SEED", "1"))
RUNS = 200 if IS_SOAK else 4


def uids(driver: Driver, queue_id: int = 0) -> list[str]:
    return [seen.uid for seen in read_queue(driver.store, "t", queue_id)]


def test_set_back_during_a_run_shows_nothing_early(fast_path: Path) -> None:
    driver = Driver(fast_path / "store", Files())
    driver.open()
    driver.put("due", delay_ms=1_000)
    driver.deliver(5_000)
    driver.clock.wall_ms -= 60_000

    driver.open_gate()
    assert uids(driver) == []
    driver.clock.wall_ms = START_MS + 999
    driver.open_gate()
    assert uids(driver) == []
    driver.clock.wall_ms = START_MS + 1_000
    driver.open_gate()

    assert uids(driver) == ["due"]
    driver.close()


def test_set_back_during_a_run_keeps_order_and_due_times(fast_path: Path) -> None:
    driver = Driver(fast_path / "store", Files())
    driver.open()
    driver.put("a")
    driver.clock.wall_ms -= 60_000
    driver.put("b")
    driver.put("c", delay_ms=1_000)  # due one second after the time that the store goes by

    driver.deliver(5_000)
    driver.clock.wall_ms = START_MS + 1_000
    driver.open_gate()
    driver.reopen()

    assert uids(driver) == ["a", "b", "c"]
    times = [seen.store_ms for seen in read_queue(driver.store, "t", 0)]
    assert times == [START_MS, START_MS, START_MS + 1_000]
    driver.close()


def test_set_forward_during_a_run_delivers_what_is_due_then(fast_path: Path) -> None:
    driver = Driver(fast_path / "store", Files())
    driver.open()
    driver.put("far", delay_ms=86_400_000)
    driver.put("near", delay_ms=1_000)
    driver.clock.wall_ms += 86_400_000

    driver.deliver(0)
    driver.open_gate()
    driver.put("now")
    driver.clock.wall_ms -= 86_400_000  # it was a mistake
    driver.put("after")
    driver.reopen()

    assert uids(driver) == ["near", "far", "now", "after"]
    driver.close()


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
def test_set_back_between_runs_keeps_what_consumers_have_seen(
    is_killed: bool, fast_path: Path
) -> None:
    files = FaultyFiles()
    driver = Driver(fast_path / "store", files)
    driver.open()
    driver.put("a")
    driver.put("b", delay_ms=1_000)
    driver.put("later", delay_ms=50_000)
    driver.deliver(100_000)
    driver.clock.advance(1_000)
    driver.open_gate()
    assert uids(driver) == ["a", "b"]

    if is_killed:
        files.restart()
    else:
        driver.close()
    driver.clock.wall_ms -= 3_600_000
    driver.open()
    driver.model.settle(driver.store)
    driver.put("c")

    assert uids(driver) == ["a", "b", "c"]
    assert driver.clock.now_ms() == START_MS + 1_000
    driver.clock.wall_ms = START_MS + 49_999
    driver.open_gate()
    assert uids(driver) == ["a", "b", "c"]
    driver.clock.wall_ms = START_MS + 50_000
    driver.open_gate()
    assert uids(driver) == ["a", "b", "c", "later"]
    driver.close()


def test_set_forward_between_runs_delivers_what_fell_due(fast_path: Path) -> None:
    driver = Driver(fast_path / "store", Files())
    driver.open()
    driver.put("gate", delay_ms=1_000)
    driver.deliver(5_000)
    driver.put("pending", delay_ms=2_000)
    driver.close()
    driver.clock.wall_ms += 3_600_000

    driver.open()
    driver.open_gate()
    driver.deliver(0)
    driver.open_gate()

    assert uids(driver) == ["gate", "pending"]
    driver.close()


@pytest.mark.slow
@pytest.mark.parametrize("run", range(RUNS))
def test_promises_survive_a_clock_that_jumps_about(run: int, fast_path: Path) -> None:
    rng = random.Random(f"{SEED} {run}")
    files = FaultyFiles()
    driver = Driver(fast_path / "store", files)
    driver.model.in_order = False  # what falls due by a jump comes late, and so behind
    driver.open()

    for step in STEPS:
        if rng.random() < 0.3:
            driver.clock.wall_ms += rng.choice((-10_000, -500, -1, 1, 500, 4_000))
        if rng.random() < 0.15:
            files.restart()  # the process was killed
            driver.clock.wall_ms += rng.choice((-10_000, -500, 0, 500, 4_000))
            driver.open()
            driver.model.settle(driver.store)
        step.action(driver)
    driver.deliver(500_000)
    driver.clock.advance(600_000)
    driver.open_gate()

    driver.model.check_all_delivered(driver.store)
    driver.close()


EIGHT_HOURS_MS = 8 * 3_600_000


def reopened(driver: Driver, files: FaultyFiles, *, is_killed: bool) -> None:
    """Stop, set the clock right, start."""
    if is_killed:
        files.restart()
    else:
        driver.close()
    driver.clock.wall_ms -= EIGHT_HOURS_MS
    driver.open()
    driver.model.settle(driver.store)


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("is_used", [False, True], ids=["idle", "checkpointed"])
def test_having_run_with_a_fast_clock_leaves_nothing_behind(
    is_used: bool, is_killed: bool, fast_path: Path
) -> None:
    files = FaultyFiles()
    driver = Driver(fast_path / "store", files)
    driver.open()
    driver.put("before")
    driver.put("later", delay_ms=100 * 3_600_000)
    driver.clock.wall_ms += EIGHT_HOURS_MS
    driver.reopen()
    if is_used:
        driver.open_gate()
        driver.store.checkpoint()
        driver.cancel("later")
        driver.store.retain()

    reopened(driver, files, is_killed=is_killed)

    assert driver.clock.now_ms() == START_MS
    driver.put("soon", delay_ms=1_000)
    driver.deliver(5_000)
    driver.open_gate()
    assert uids(driver) == ["before"]
    driver.clock.advance(1_000)
    driver.open_gate()
    assert uids(driver) == ["before", "soon"]
    driver.close()


@pytest.mark.parametrize("is_killed", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("delay_ms", [0, 3_600_000], ids=["shown", "promised"])
def test_what_a_fast_clock_has_answered_is_kept_to(
    delay_ms: int, is_killed: bool, fast_path: Path
) -> None:
    files = FaultyFiles()
    driver = Driver(fast_path / "store", files)
    driver.open()
    driver.clock.wall_ms += EIGHT_HOURS_MS
    driver.put("fast", delay_ms=delay_ms)
    driver.store.checkpoint()
    driver.clock.advance(500)

    reopened(driver, files, is_killed=is_killed)

    assert driver.clock.now_ms() == START_MS + EIGHT_HOURS_MS
    assert driver.clock.ahead_ms() == EIGHT_HOURS_MS - 500
    driver.close()
