"""Any subset of the pages of a stretch between two syncs may be lost, not only its end.

Both logs, the receipts and the consume queues. A scripted run is watched: whenever a log is about
to be synced, the folder is copied without some of the pages that were written since the last sync,
opened, and compared with what was promised. The normal run tries some sets of pages for each
stretch; `DUELINE_SOAK=1` tries every set of up to five pages, and many of more. What is tried
depends on DUELINE_CRASH_SEED (default 1) alone; a failure names the pages.
"""

from __future__ import annotations

import copy
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.crash import ledger as ledgers
from tests.crash.ledger import Ledger
from tests.crash.pages import PagedFiles, Snapshot
from tests.crash.script import STEPS, Driver

from dueline.broker.inflight import log as receipt_log
from dueline.store import Files

SEED = int(os.environ.get("DUELINE_CRASH_SEED", "1"))
LARGE_STEP = 16  # before it, more than a page goes to each log with one call
Record = Callable[[str, str], None]
CASES_PER_STRETCH = 64 if IS_SOAK else 1


class Campaign:
    """Tries losses for each stretch of a run, and counts."""

    def __init__(self, folder: Path, name: str, check: Callable[[Path], None]) -> None:
        self._folder = folder
        self._rng = random.Random(f"{SEED} {name}")
        self._check = check
        self.stretch_count = 0
        self.case_count = 0

    def try_losses(self, snapshot: Snapshot) -> None:
        self.stretch_count += 1
        for lost in snapshot.lost_pages(self._rng, CASES_PER_STRETCH):
            self.case_count += 1
            target = self._folder / "lost"
            snapshot.restore(target, lost)
            try:
                self._check(target)
            except BaseException as error:
                names = sorted((str(path.relative_to(snapshot.root)), page) for path, page in lost)
                error.add_note(f"seed {SEED}, stretch {self.stretch_count}, lost pages: {names}")
                raise
            shutil.rmtree(target)

    def __str__(self) -> str:
        return f"seed {SEED}: {self.stretch_count} stretches, {self.case_count} cases"


@pytest.mark.slow
def test_store_keeps_its_promises_whatever_pages_are_lost(
    fast_path: Path, record_property: Record
) -> None:
    def check(path: Path) -> None:
        survivor = Driver(path, Files())
        survivor.clock.wall_ms = driver.clock.wall_ms
        survivor.model = copy.deepcopy(driver.model)
        survivor.open()
        assert survivor.store.report.rebuilt == []
        assert survivor.store.report.damage == [], "a torn stretch is gone as a whole"
        survivor.store.open_gate()
        survivor.model.settle(survivor.store)
        survivor.put("after", queue_id=1)
        survivor.put("delayed after", delay_ms=1_000)
        survivor.reopen()
        survivor.close()

    campaign = Campaign(fast_path, "store", check)
    driver = Driver(fast_path / "store", PagedFiles(fast_path / "store", campaign.try_losses))
    driver.open()

    for number, step in enumerate(STEPS):
        if number == LARGE_STEP:
            driver.put_all(*((f"b{n}", n % 2, 4_000 + n if n % 3 == 0 else 0) for n in range(60)))
        step.action(driver)

    driver.close()
    record_property("campaign", str(campaign))
    assert campaign.stretch_count > 60


@pytest.mark.slow
def test_transactions_and_receipts_keep_their_promises_whatever_pages_are_lost(
    fast_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    """Decided and the message is there, or undecided; acknowledged for good, or received again."""
    monkeypatch.setattr(receipt_log, "_ALLOCATE_BYTES", 8_192)

    def check(path: Path) -> None:
        account = copy.deepcopy(ledger.account)
        survivor = Ledger(path, Files(), ledger.clock.wall_ms)
        survivor.check(account)
        survivor.close()

    campaign = Campaign(fast_path, "ledger", check)
    files = PagedFiles(fast_path / "broker", campaign.try_losses)
    files.is_watching = False
    ledger = Ledger(fast_path / "broker", files)
    files.is_watching = True

    ledgers.run(ledger)

    ledger.close()
    record_property("campaign", str(campaign))
    assert campaign.stretch_count > 30
