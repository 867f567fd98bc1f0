"""Stopping the scripted run at chosen disk operations, and going on from what is left."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.crash.script import OPTIONS, STEPS, Driver

from dueline.store import Files, StoreOptions
from dueline.testing import FaultyFiles, PowerCut


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """Where to stop, counted from the store's opening, and what is left.

    A `seed` means a power cut that loses what it says; without one only the process dies. The wall
    clock may be set back before the store is opened again.
    """

    operation: int
    midway: bool = False
    seed: int | None = None
    wall_back_ms: int = 0


class _NoRepair(logging.Handler):
    """Bits do not flip by crashing: what a checkpoint covers was synced and needs no repair."""

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage())


def crash_and_go_on(path: Path, *crashes: Crash, options: StoreOptions = OPTIONS) -> int:
    """Run the script through the crashes to its end; returns how many of them were reached.

    After each crash the store is opened again and every promise is checked.
    """
    logger = logging.getLogger("dueline.store.repair")
    handler = _NoRepair()
    logger.addHandler(handler)
    try:
        return _crash_and_go_on(path, crashes, options)
    finally:
        logger.removeHandler(handler)


def _crash_and_go_on(path: Path, crashes: tuple[Crash, ...], options: StoreOptions) -> int:
    files = FaultyFiles()
    driver = Driver(path, files, options)
    step = 0
    reached = 0
    for crash in crashes:
        files.stop_at(files.operation_count + crash.operation, midway=crash.midway)
        try:
            step = _run(driver, step)
        except PowerCut:
            reached += 1
            step = driver.step
        else:
            break
        if crash.seed is None:
            files.restart()
        else:
            files.power_cut(crash.seed)
        driver.clock.wall_ms -= crash.wall_back_ms
    files.stop_at(None)
    driver.files = Files()
    if reached == len(crashes):
        _run(driver, step)
    shutil.rmtree(path)
    return reached


def _run(driver: Driver, first: int) -> int:
    """Open the store, check what is promised, do the steps from `first` on, and check the end."""
    driver.step = first
    driver.open()
    assert driver.store.report.rebuilt == [], "no crash damages what a checkpoint names"
    driver.store.open_gate()
    driver.model.settle(driver.store)
    if driver.is_interrupted and not STEPS[first].is_repeated:
        first += 1
    driver.is_interrupted = False
    for driver.step in range(first, len(STEPS)):
        driver.is_interrupted = True
        STEPS[driver.step].action(driver)
        driver.is_interrupted = False
    driver.model.check_all_delivered(driver.store)
    driver.close()
    return len(STEPS)
