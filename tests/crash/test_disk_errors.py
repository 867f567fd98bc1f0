"""Disk operations that fail: a full disk refuses, anything else closes the store.

The scripted run gets one error from one disk operation, at a sample of places (all of them with
DUELINE_SOAK=1). A refused operation must not have happened and the store goes on; a closed store is
opened again, and every promise is compared with the model.
"""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.crash.script import STEPS, Driver

from dueline.errors import StoreClosed, Unavailable
from dueline.testing import FaultyFiles

SEED = int(os.environ.get("DUELINE_CRASH_SEED", "1"))
SAMPLES = 8


def run_with_error(path: Path, operation: int, error: int) -> str:
    """Run the script with one failing operation; returns what it led to."""
    files = FaultyFiles()
    files.fail_at(operation, error)
    driver = Driver(path, files)
    outcome = "unnoticed"
    try:
        driver.open()
    except (OSError, Unavailable, StoreClosed):
        outcome = "not opened"
        driver.open()
    step = 0
    while step < len(STEPS):
        is_repeated = STEPS[step].is_repeated
        try:
            STEPS[step].action(driver)
        except Unavailable:
            outcome = "refused"
            driver.model.refused(driver.store)
        except (StoreClosed, OSError) as failure:
            if isinstance(failure, OSError) and driver.is_open:
                raise  # only opening may fail with an error that is not ours
            outcome = "closed"
            driver.close_failed()
            driver.open()
            assert driver.store.report.rebuilt == []
            driver.store.open_gate()
            driver.model.settle(driver.store)
        else:
            is_repeated = False
        step += 0 if is_repeated else 1
    driver.model.check_all_delivered(driver.store)
    driver.close()
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_promises_survive_an_error_of_any_operation(error: int, fast_path: Path) -> None:
    rng = random.Random(f"{SEED} {error}")
    operations = range(1, 930)
    outcomes = set()

    for number in operations if IS_SOAK else sorted(rng.sample(operations, SAMPLES)):
        try:
            outcomes.add(run_with_error(fast_path / str(number), number, error))
        except BaseException as failure:
            failure.add_note(f"DUELINE_CRASH_SEED={SEED}: error {error} of operation {number}")
            raise

    assert "closed" in outcomes
    assert error == errno.EIO or "refused" in outcomes
