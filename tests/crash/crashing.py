"""Stopping the scripted run at one disk operation, and going on from what is left."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from dueline.store import Files
from dueline.testing import FaultyFiles, PowerCut
from tests.crash.script import STEPS, Driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Where to stop, and what is left.

    A `seed` means a power cut that loses what it says; without one only the process dies. The wall
    clock may be set back before the store is opened again.
    """

    operation: int
    midway: bool = False
    seed: int | None = None
    wall_back_ms: int = 0

    def leave(self, files: FaultyFiles) -> None:
        if self.seed is None:
            files.restart()
        else:
            files.power_cut(self.seed)


def run_until(driver: Driver, crash: Crash, files: FaultyFiles) -> int | None:
    """Run the script until the crash; returns the step that it hit, or None at the script's end."""
    files.stop_at(crash.operation, midway=crash.midway)
    step = -1
    try:
        driver.open()
        for step in range(len(STEPS)):
            STEPS[step].action(driver)
    except PowerCut:
        return step
    return None


def go_on(driver: Driver, step: int) -> None:
    """From a store that was opened again: check it, run the rest of the script, check the end."""
    driver.store.open_gate()
    driver.model.settle(driver.store)
    first = step if step >= 0 and STEPS[step].is_repeated else step + 1
    for following in STEPS[first:]:
        following.action(driver)
    driver.model.check_all_delivered(driver.store)
    driver.close()


def crash_and_go_on(path: Path, crash: Crash) -> bool:
    """The whole story; false if the script has fewer operations than that."""
    files = FaultyFiles()
    driver = Driver(path, files)
    step = run_until(driver, crash, files)
    if step is None:
        return False
    crash.leave(files)
    driver.clock.wall_ms -= crash.wall_back_ms
    driver.open(Files())
    assert driver.store.report.rebuilt == []
    go_on(driver, step)
    shutil.rmtree(path)
    return True


def crash_twice_and_go_on(path: Path, first: Crash, second: Crash) -> bool:
    """A crash in the script, and a second one while the store is opened again.

    `second.operation` counts from the begin of the opening; false if it has fewer operations.
    """
    files = FaultyFiles()
    driver = Driver(path, files)
    step = run_until(driver, first, files)
    assert step is not None
    first.leave(files)
    files.stop_at(files.operation_count + second.operation, midway=second.midway)
    try:
        driver.open()
    except PowerCut:
        second.leave(files)
        driver.open(Files())
        assert driver.store.report.rebuilt == []
        go_on(driver, step)
        shutil.rmtree(path)
        return True
    shutil.rmtree(path)
    return False
