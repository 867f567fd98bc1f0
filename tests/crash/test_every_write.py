"""Whatever disk operation a crash hits, what was acknowledged holds.

A scripted run is stopped before or in the middle of a disk operation, by the death of the process
or by a power cut that leaves any mixture of what was not synced. Then the store is opened again,
compared with a plain model of what was promised, and the run goes on to its end.

The normal run tries a sample of the operations; `DUELINE_SOAK=1` tries every one, or as many of
each kind as DUELINE_CRASH_SAMPLES says. The sample depends on that and on DUELINE_CRASH_SEED
(default 1) alone, and a failure names the crash that shows it.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.crash.crashing import Crash, crash_and_go_on
from tests.crash.script import OPTIONS, STEPS, Driver

from dueline.store import Files, StoreOptions
from dueline.store.thresholds import Thresholds
from dueline.testing import FaultyFiles

SEED = int(os.environ.get("DUELINE_CRASH_SEED", "1"))
SAMPLES_PER_KIND = int(os.environ.get("DUELINE_CRASH_SAMPLES", "0" if IS_SOAK else "2"))
"""0: every operation."""
OPERATION_COUNT_MIN = 900  # if the script shrinks, it no longer covers what it should

Kind = Callable[[int, random.Random], tuple[Crash, ...]]


def _seed(rng: random.Random) -> int:
    return rng.randint(1, 1 << 30)


KINDS: dict[str, Kind] = {
    "killed": lambda k, _: (Crash(operation=k),),
    "killed in a write": lambda k, _: (Crash(operation=k, midway=True),),
    "power cut loses everything": lambda k, _: (Crash(operation=k, seed=0),),
    "power cut": lambda k, rng: (Crash(operation=k, seed=_seed(rng)),),
    "power cut in a write": lambda k, rng: (Crash(operation=k, midway=True, seed=_seed(rng)),),
    "killed, clock set back": lambda k, _: (Crash(operation=k, wall_back_ms=3_000),),
    "killed, then power cut": lambda k, rng: (
        Crash(operation=k, midway=rng.random() < 0.5),
        Crash(operation=rng.randint(1, 400), seed=_seed(rng)),
    ),
    "power cut, then in recovery": lambda k, rng: (
        Crash(operation=k, seed=_seed(rng)),
        Crash(operation=rng.randint(1, 120), seed=_seed(rng)),
        Crash(operation=rng.randint(1, 120), midway=True, seed=_seed(rng)),
    ),
    "killed, then killed in recovery": lambda k, rng: (
        Crash(operation=k),
        Crash(operation=rng.randint(1, 120), midway=rng.random() < 0.5),
        Crash(operation=rng.randint(1, 120), wall_back_ms=3_000),
    ),
}


SMALL = replace(
    OPTIONS,
    thresholds=Thresholds(
        part_rows=2, merge_run_count=2, merge_key_file_count=2, forget_states_min=4
    ),
)
"""Small thresholds add merges and trims."""


def count_operations(path: Path, options: StoreOptions) -> int:
    files = FaultyFiles()
    driver = Driver(path, files, options)
    driver.open()
    for step in STEPS:
        step.action(driver)
    driver.model.check_all_delivered(driver.store)
    driver.close()
    return files.operation_count


@pytest.fixture(scope="module", params=["usual", "small"])
def options(request: pytest.FixtureRequest) -> StoreOptions:
    return SMALL if request.param == "small" else OPTIONS


@pytest.fixture(scope="module")
def operation_count(options: StoreOptions, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many operations the script has."""
    count = count_operations(tmp_path_factory.mktemp("counted") / "script", options)
    assert count >= OPERATION_COUNT_MIN
    return count


def crash(path: Path, options: StoreOptions, *crashes: Crash) -> int:
    """Run a story and say how many of its crashes were reached; a failure names the story."""
    try:
        return crash_and_go_on(path, *crashes, options=options)
    except BaseException as error:
        error.add_note(f"DUELINE_CRASH_SEED={SEED}: {', '.join(map(repr, crashes))}")
        raise


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_promises_survive_a_crash_at_any_operation(
    kind: str,
    operation_count: int,
    options: StoreOptions,
    fast_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    rng = random.Random(f"{SEED} {kind}")
    operations = list(range(1, operation_count + 1))
    if SAMPLES_PER_KIND:
        operations = sorted(rng.sample(operations, SAMPLES_PER_KIND))

    reached = [crash(fast_path / "store", options, *KINDS[kind](k, rng)) for k in operations]

    assert min(reached) >= 1, "every first crash is within the script"
    if IS_SOAK:
        record_property("campaign", f"seed {SEED}: {len(reached)} of {operation_count} operations")


@pytest.mark.slow
def test_promises_survive_a_crash_at_any_operation_of_a_recovery(
    operation_count: int, options: StoreOptions, fast_path: Path
) -> None:
    """Opening after a crash is stopped at one operation after the other, until it gets through."""
    rng = random.Random(f"{SEED} recovery")
    first = Crash(operation=rng.randint(operation_count // 3, operation_count), midway=True)
    few = [rng.randrange(start, 2 * start) for start in (1, 8, 60, 250)]
    tried = 0

    for k in range(1, 1_000) if IS_SOAK else few:
        seeds = (None, 0, _seed(rng)) if IS_SOAK else (rng.choice((None, 0)), _seed(rng))
        stories = [(first, Crash(operation=k, seed=seed)) for seed in seeds]
        reached = [crash(fast_path / "store", options, *story) for story in stories]
        if min(reached) < 2:
            break
        tried += len(reached)

    assert tried >= 6, "the recovery has many operations"


def test_the_script_covers_what_it_should(fast_path: Path) -> None:
    """Segments roll, are dropped and compacted; queue files roll and are deleted."""
    driver = Driver(fast_path / "store", Files())
    driver.open()
    seen = {"commit_start": 0, "delay_start": 0, "queue_start": 0, "gaps": 0}

    for step in STEPS:
        step.action(driver)
        stats = driver.store.stats()
        seen["commit_start"] = max(seen["commit_start"], stats["commit_log"]["start"])
        seen["delay_start"] = max(seen["delay_start"], stats["delay_log"]["start"])
        for queue in driver.store.queues():
            start, _ = driver.store.offset_range(*queue)
            seen["queue_start"] = max(seen["queue_start"], start)
        for path in (fast_path / "store" / "delaylog").iterdir():
            seen["gaps"] += path.read_bytes().count(b"\xd0\xe1\x1a\x9e")

    assert min(seen.values()) > 0, seen
    driver.close()
