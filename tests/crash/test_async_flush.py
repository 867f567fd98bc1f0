"""`flush = async`: a killed process loses nothing, a power cut at most what came last.

What a checkpoint has seen is safe: accepted, cancelled, and the offsets of what consumers have
read. A message from before is never lost because its delivery was. What was lost leaves a hole in
its queue, so that the messages behind it keep the offsets that were answered.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.crash.model import Model
from tests.crash.observing import FAR_MS, Observed, observe
from tests.crash.script import OPTIONS, STEPS, Driver

from dueline.store import restore
from dueline.store.road import RoadRule
from dueline.testing import FaultyFiles, PowerCut

SEED = int(os.environ.get("DUELINE_CRASH_SEED", "1"))
ASYNC = replace(OPTIONS, flush="async")
OPERATION_COUNT = 850
SAMPLES = 6


def run_until(driver: Driver, files: FaultyFiles, operation: int) -> None:
    files.stop_at(operation)
    driver.open()
    for driver.step in range(len(STEPS)):
        STEPS[driver.step].action(driver)


def operations(name: str) -> list[int]:
    every = range(60, OPERATION_COUNT)
    rng = random.Random(f"{SEED} {name}")
    return list(every) if IS_SOAK else sorted(rng.sample(every, SAMPLES))


@pytest.mark.slow
def test_killed_process_loses_nothing(fast_path: Path) -> None:
    for number in operations("killed"):
        files = FaultyFiles()
        driver = Driver(fast_path / str(number), files, ASYNC)
        with pytest.raises(PowerCut):
            run_until(driver, files, number)
        files.restart()

        driver.open()
        driver.store.open_gate()

        driver.model.settle(driver.store)
        driver.close()


@pytest.mark.slow
def test_power_cut_loses_nothing_that_a_checkpoint_has_seen(fast_path: Path) -> None:
    for number in operations("power cut"):
        for seed in (0, number):
            files = FaultyFiles()
            driver = Driver(fast_path / f"{number}-{seed}", files, ASYNC)
            with pytest.raises(PowerCut):
                run_until(driver, files, number)
            files.power_cut(seed)
            try:
                _check_safe_part(driver)
            except BaseException as error:
                error.add_note(f"operation {number}, power cut {seed}")
                raise


def test_a_moved_message_is_not_there_twice_when_the_commit_log_alone_was_synced(
    fast_path: Path,
) -> None:
    files = FaultyFiles()
    driver = Driver(fast_path / "store", files, ASYNC)
    driver.open()
    driver.put("moved", delay_ms=1_000)
    driver.deliver(5_000)
    driver.checkpoint()
    driver.reschedule(2_000, "moved")
    driver.deliver(5_000)
    driver.store._core.commit.sync()  # as the operating system may do it, in any order
    files.power_cut(0)

    driver.open()
    driver.clock.advance(10_000)
    driver.store.open_gate()

    assert observe(driver.store, ["moved"]).visible_counts()["moved"] == 1
    driver.close()


@pytest.mark.parametrize("seed", range(12))
def test_moved_messages_are_there_once_whatever_part_of_their_group_was_lost(
    fast_path: Path, seed: int
) -> None:
    """Without the end of the group both would be there, without its records neither."""
    uids = ["m0", "m1", "m2", "m3"]  # more than a sector
    files = FaultyFiles()
    driver = Driver(fast_path / "store", files, ASYNC)
    driver.open()
    for uid in uids:
        driver.put(uid, delay_ms=1_000)
    driver.checkpoint()
    driver.reschedule(2_000, *uids)
    driver.put("later", delay_ms=1_000)  # the group is not the log's last
    files.power_cut(seed)

    driver.open()

    pending = observe(driver.store, uids).pending
    assert {uid: len(pending.get(uid, [])) for uid in uids} == dict.fromkeys(uids, 1)
    driver.close()


def _check_safe_part(driver: Driver) -> None:
    model = driver.model
    driver.open()
    assert driver.store.report.rebuilt == []
    driver.store.open_gate()
    _check(model, observe(driver.store, model.uids(), has_holes=True))
    for topic in driver.store.numbers.rules:
        driver.store.numbers.set_rule(topic, RoadRule())
    corner = driver.store.next_corner(until_ms=FAR_MS, row_count_max=1_000_000)
    window = driver.store.read_window(driver.store.window(corner))
    assert not restore.damaged(window).any()
    driver.store.deliver([restore.deliveries(window)])
    driver.clock.advance(1_000_000)
    driver.store.open_gate()
    found = observe(driver.store, model.uids(), has_holes=True)
    assert found.pending == {}
    assert found.at_gate == {}
    _check(model, found)
    driver.close()


def _check(model: Model, found: Observed) -> None:
    visible = found.visible_counts()
    seen_before = [seen for known in model.seen.values() for seen in known.values()]
    old = {seen.uid for seen in seen_before if model.may_be_gone(seen)}
    perhaps_cancelled = model.cancelled | model.cancelling | model.dropping
    for uid, message in model.safe_messages.items():
        waiting = [due_ms for due_ms, _, _ in found.pending.get(uid, [])]
        waiting += [found.at_gate[uid]] if uid in found.at_gate else []
        count = visible[uid] + len(waiting)
        assert count <= 1, f"{uid}: twice"
        assert not count or uid not in model.safe_cancelled, f"{uid}: cancelled, yet there"
        if uid not in perhaps_cancelled and uid not in old:
            assert count == 1, f"{uid}: lost"
        moved = [model.messages[uid].due_ms]
        moved += [model.moving[uid].due_ms] if uid in model.moving else []
        assert set(waiting) <= {message.due_ms, *moved}
    for queue, known in model.safe_seen.items():
        there = {seen.offset: seen for seen in found.visible.get(queue, [])}
        for offset, seen in known.items():
            if offset >= found.starts[queue]:
                assert there[offset] == seen, f"{queue}: offset {offset} changed"
