"""What a store says of itself: the newest sound copies, and what the logs' tails add."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.unit.audit.making import make_store, snapshot, told
from tests.unit.store.making import START_MS, Wall, carry_over, delayed, open_store

from dueline.audit.findings import Findings
from dueline.store.states import CANCELLED, DELIVERED, PENDING


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store")


def copies(root: Path, name: str) -> list[Path]:
    """A file that is kept twice."""
    return sorted(root.glob(f"{name}*"))


def test_a_closed_store_tells_all_of_itself(root: Path) -> None:
    findings = Findings()
    found = snapshot(root, findings)

    assert told(findings) == set()
    assert (found.has_checkpoint, found.has_states, found.next_seq) == (True, True, 6)
    assert found.states.of(np.arange(6)).tolist() == [
        DELIVERED,
        DELIVERED,
        CANCELLED,
        PENDING,
        PENDING,
        PENDING,
    ]
    assert (found.delay.bases, found.delay.segment_size_bytes) == ([0], 16_384)


@pytest.mark.parametrize("name", ["checkpoint", "timeline.states"])
@pytest.mark.parametrize("damage", [b"", b"other bytes", None])
def test_one_copy_is_enough_and_its_loss_is_told(
    root: Path, name: str, damage: bytes | None
) -> None:
    first, second = copies(root, name)
    for gone in (first, second):
        kept = gone.read_bytes()
        if damage is None:
            gone.unlink()
        else:
            gone.write_bytes(damage)
        findings = Findings()
        assert snapshot(root, findings).next_seq == 6
        assert told(findings) == {("repair", "copy")}
        gone.write_bytes(kept)


def test_without_any_copy_the_logs_tell_the_same(root: Path) -> None:
    for path in [*copies(root, "checkpoint"), *copies(root, "timeline.states")]:
        path.unlink()
    findings = Findings()
    found = snapshot(root, findings)

    assert told(findings) == {("repair", "copies")}
    assert not found.has_checkpoint
    assert not found.has_states
    assert found.next_seq == 6
    assert found.states.of(np.array([0, 2, 5])).tolist() == [DELIVERED, CANCELLED, PENDING]


def test_an_older_first_copy_is_told_and_the_newer_one_counts(tmp_path: Path, root: Path) -> None:
    first, _ = copies(root, "checkpoint")
    shutil.copy(first, tmp_path / "older")
    with open_store(root, Wall()) as store:
        store.put(delayed(90_000))
    paths = copies(root, "checkpoint")
    results = []
    for path in paths:
        kept = path.read_bytes()
        shutil.copy(tmp_path / "older", path)
        findings = Findings()
        assert snapshot(root, findings).checkpoint.next_seq == 7
        results.append(told(findings))
        path.write_bytes(kept)

    assert sorted(results, key=len) == [set(), {("repair", "copy")}]


def test_what_happened_since_the_states_were_saved_is_added(tmp_path: Path, root: Path) -> None:
    """As beside a running broker, which has not written a checkpoint."""
    wall = Wall(START_MS)
    store = open_store(root, wall)
    store.put(delayed(3_000, KEYS="new"))
    store.put(delayed(90_000, KEYS="newer"))
    carry_over(store, ahead_ms=10_000)
    store.cancel("newer")
    shutil.copytree(root, tmp_path / "copy")
    store.close()

    found = snapshot(tmp_path / "copy")

    assert found.checkpoint.next_seq == 6
    assert found.next_seq == 8
    assert found.states.of(np.array([6, 7])).tolist() == [DELIVERED, CANCELLED]


def test_stale_states_are_read_again_from_the_logs(tmp_path: Path, root: Path) -> None:
    for path in copies(root, "timeline.states"):
        shutil.copy(path, tmp_path / path.name)
    with open_store(root, Wall()) as store:
        store.put(delayed(90_000))
    for path in copies(root, "timeline.states"):
        shutil.copy(tmp_path / path.name, path)
    findings = Findings()

    assert snapshot(root, findings).next_seq == 7
    assert told(findings) == {("repair", "stale states")}


def test_a_segment_of_another_size_is_odd(root: Path) -> None:
    log = root / "commitlog"
    shutil.copy(log / f"{0:020d}", log / f"{16_384:020d}")
    (log / f"{32_768:020d}").write_bytes(b"short")

    found = snapshot(root).commit

    assert (found.bases, found.odd_sizes) == ([0, 16_384, 32_768], {32_768: 5})
    assert found.segment_size_bytes == 16_384
