"""kill -9 of a real process at any moment, again and again on the same store."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.conftest import IS_SOAK
from tests.crash.observing import FAR_MS, observe
from tests.crash.writer import OPTIONS

from dueline.clock import Clock, system_time_ms
from dueline.store import Store, restore

ROOT = Path(__file__).resolve().parents[2]
ROUNDS = 40 if IS_SOAK else 3
SEED = int(os.environ.get("DUELINE_CRASH_SEED", "1"))
HOUR_MS = 3_600_000


@dataclass(slots=True)
class Promises:
    """What the killed processes have said: accepted and cancelled for sure, or perhaps."""

    accepted: set[str] = field(default_factory=set)
    perhaps: set[str] = field(default_factory=set)
    groups: list[set[str]] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    cancelled_perhaps: set[str] = field(default_factory=set)

    def note(self, lines: list[bytes]) -> int:
        """Take in what one process has said; returns how many operations were answered."""
        said = [json.loads(line) for line in lines if line.endswith(b"\n")]
        done = {number for kind, number, *_ in said if kind == "done"}
        for kind, number, *rest in said:
            if kind == "cancelled":
                self.cancelled.update(rest)
            if kind != "try":
                continue
            verb, _, *uids = rest
            if verb in ("put", "put_many"):
                (self.accepted if number in done else self.perhaps).update(uids)
                self.groups.append(set(uids))
            if verb == "cancel" and number not in done:
                self.cancelled_perhaps.update(uids)
        return len(done)

    def check(self, found: Counter[str]) -> None:
        """Compare with how often each unique id is in the store, delivered or waiting."""
        assert max(found.values(), default=1) == 1, f"twice: {found.most_common(3)}"
        assert set(found) <= self.accepted | self.perhaps, "something that nobody has sent"
        lost = self.accepted - set(found) - self.cancelled - self.cancelled_perhaps
        assert not lost, f"lost: {sorted(lost)[:5]}"
        assert not self.cancelled & set(found), "cancelled and yet there"
        gone = self.cancelled | self.cancelled_perhaps
        for group in self.groups:
            there = {uid for uid in group if uid in found}
            assert not there or not group - there - gone, "a part of a group"


def run_and_kill(folder: Path, round_number: int, flush: str, line_count: int) -> list[bytes]:
    """Start a writer and kill it after so many lines; returns all that it has said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.writer", folder, str(round_number), str(SEED), flush],
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    with process, process.stdout as pipe:
        lines = [pipe.readline() for _ in range(line_count)]
        process.kill()
        lines += pipe.readlines()
    assert process.returncode == -9, "the writer ended by itself"
    return lines


def everything(store: Store, uids: set[str]) -> Counter[str]:
    """How often each unique id is delivered, pending or at the gate."""
    found = observe(store, sorted(uids))
    counts = found.visible_counts()
    counts.update({uid: len(units) for uid, units in found.pending.items()})
    counts.update(found.at_gate.keys())
    return counts


@pytest.mark.slow
@pytest.mark.parametrize("flush", ["sync", "async"])
def test_acknowledged_messages_survive_kill_9_and_come_once(flush: str, tmp_path: Path) -> None:
    rng = random.Random(f"{SEED} {flush}")
    promises = Promises()
    folder = tmp_path / "store"
    answered = 0

    for round_number in range(ROUNDS):
        line_count = rng.choice((1, 50, rng.randint(100, 1_500)))
        answered += promises.note(run_and_kill(folder, round_number, flush, line_count))
        with Store.open(folder, replace(OPTIONS, flush=flush)) as store:
            assert store.report.rebuilt == []
            promises.check(everything(store, promises.accepted | promises.perhaps))
    deliver_all(folder, flush)

    assert answered > 100
    with Store.open(folder, replace(OPTIONS, flush=flush)) as store:
        assert store.pending_count() == 0
        assert store.gate_row_count == 0
        promises.check(everything(store, set()))


def deliver_all(folder: Path, flush: str) -> None:
    later = Clock(lambda: system_time_ms() + 2 * HOUR_MS)
    with Store.open(folder, replace(OPTIONS, flush=flush), clock=later) as store:
        corner = store.next_corner(until_ms=FAR_MS, row_count_max=1_000_000)
        store.deliver([restore.deliveries(store.read_window(store.window(corner)))])
        store.open_gate()
