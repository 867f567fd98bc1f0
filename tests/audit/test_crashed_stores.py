"""Whatever a crash leaves, nothing is called lost, and what was opened again is sound.

The scripted run of the crash tests is stopped at sampled disk operations. Before the store is
opened again the audit may find what opening repairs, never a loss; once it was opened and closed,
there is nothing to find. The sample depends on DUELINE_CRASH_SEED; DUELINE_SOAK=1 tries many more.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.crash.crashing import Crash
from tests.crash.script import STEPS, Driver

from dueline.audit import Audit, Severity, audit
from dueline.store import Files
from dueline.testing import FaultyFiles, PowerCut

SEED = int(os.environ.get("DUELINE_CRASH_SEED", "1"))
SAMPLES = 300 if IS_SOAK else 8

pytestmark = pytest.mark.slow


@pytest.fixture
def fast_path() -> Iterator[Path]:
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="dueline-", dir=memory if memory.is_dir() else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def told(found: Audit) -> list[str]:
    return [f"{one.severity.name} {one.subject}: {one.text}" for one in found.findings.kept]


def run_until(path: Path, crash: Crash) -> bool:
    """Run the script until it crashes; returns whether it did."""
    files = FaultyFiles()
    driver = Driver(path, files)
    files.stop_at(crash.operation, midway=crash.midway)
    try:
        driver.open()
        for step in STEPS:
            step.action(driver)
        driver.close()
    except PowerCut:
        if crash.seed is None:
            files.restart()
        else:
            files.power_cut(crash.seed)
        files.stop_at(None)
        reopened = Driver(path, Files())
        reopened.clock = driver.clock
        check_before_and_after(reopened, crash)
        return True
    return False


def check_before_and_after(driver: Driver, crash: Crash) -> None:
    if not (driver.path / "commitlog").is_dir():
        return  # crashed before there was a store
    before = audit(driver.path, is_running=False)
    assert before.findings.worst <= Severity.REPAIR, (crash, told(before))
    driver.open()
    damage = driver.store.report.damage
    pending = driver.store.pending_count()
    driver.close()

    after = audit(driver.path, is_running=False)

    assert after.exit_code == 0 or damage, (crash, told(after))
    assert after.counts["pending"] == pending, crash


@pytest.mark.parametrize("kind", ["killed", "killed in a write", "power cut"])
def test_a_crash_is_not_called_a_loss(kind: str, fast_path: Path) -> None:
    rng = random.Random(f"{SEED} {kind}")
    reached = 0

    for number in range(SAMPLES):
        crash = Crash(
            operation=rng.randint(1, 900),
            midway=kind == "killed in a write",
            seed=rng.randint(0, 1 << 30) if kind == "power cut" else None,
        )
        reached += run_until(fast_path / str(number), crash)
        shutil.rmtree(fast_path / str(number), ignore_errors=True)

    assert reached > SAMPLES // 2, f"seed {SEED}"
