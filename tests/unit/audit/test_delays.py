"""The delay log against states and runs: every pending message has its record and its unit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.audit.making import FILES, make_store, replace_in, snapshot, told
from tests.unit.store.making import SMALL, START_MS, Wall, delayed, open_store, ordinary

from dueline.audit.delays import DelayCheck
from dueline.audit.findings import Findings


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store")


def checked(root: Path) -> tuple[DelayCheck, Findings]:
    findings = Findings()
    check = DelayCheck(snapshot(root), FILES, findings)
    check.run()
    return check, findings


def run_files(root: Path) -> list[Path]:
    return [path for path in (root / "timeline").iterdir() if path.is_file()]


def test_what_is_pending_is_counted_with_the_next_due_time(root: Path) -> None:
    check, findings = checked(root)

    assert told(findings) == set()
    assert (check.pending_count, check.next_due_ms) == (3, START_MS + 60_000)


def test_levels_are_due_by_the_table_of_their_time(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall(), replace(SMALL, levels="7s 8s 9s")) as store:
        store.put(ordinary(b"x", DELAY="3"))
        store.put(delayed(60_000))

    check, findings = checked(tmp_path)

    assert told(findings) == set()
    assert check.next_due_ms == START_MS + 9_000


def test_a_pending_message_without_a_record_is_lost(root: Path) -> None:
    replace_in(root / "delaylog", b"delayed 4", b"delayed x")

    _, findings = checked(root)

    (found,) = findings.kept
    assert (found.kind, found.subject) == ("pending message", "message 4")
    assert f"(topic orders, due {START_MS + 70_000} ms)" in found.text


def test_damage_to_what_is_done_loses_no_message(root: Path) -> None:
    for number in (0, 2):
        replace_in(root / "delaylog", b"delayed %d" % number, b"delayed x")

    assert told(checked(root)[1]) == set()


def test_a_run_that_is_missing_or_damaged_is_made_again(root: Path) -> None:
    (run,) = run_files(root)
    content = run.read_bytes()
    run.write_bytes(b"no columns")
    assert told(checked(root)[1]) == {("repair", "run")}
    run.unlink()
    assert told(checked(root)[1]) == {("repair", "run")}
    run.write_bytes(content)
    assert told(checked(root)[1]) == set()


def test_a_run_of_another_store_says_otherwise(root: Path, tmp_path: Path) -> None:
    """Sound by its own checks, but not about these messages."""
    with open_store(tmp_path / "other", Wall()) as store:
        for number in range(6):
            store.put(delayed(100_000 + number, b"another"))
    (own,), (other,) = run_files(root), run_files(tmp_path / "other")
    own.write_bytes(other.read_bytes())

    assert ("loss", "run") in told(checked(root)[1])


def test_a_store_without_delays_has_nothing_pending(tmp_path: Path) -> None:
    open_store(tmp_path, Wall()).close()

    check, findings = checked(tmp_path)

    assert (check.pending_count, check.next_due_ms, told(findings)) == (0, None, set())
