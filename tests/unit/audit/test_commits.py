"""The commit log against states and queues: delivered once, and shown where it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.audit.making import FILES, make_store, replace_in, snapshot, told

from dueline.audit.commits import CommitCheck
from dueline.audit.findings import Findings
from dueline.store.states import States

QUEUE = "consumequeue/orders/0"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_store(tmp_path / "store")


def checked(root: Path) -> tuple[CommitCheck, Findings]:
    findings = Findings()
    check = CommitCheck(snapshot(root), FILES, findings)
    check.run()
    return check, findings


def test_queues_and_gate_are_counted(root: Path) -> None:
    check, findings = checked(root)

    assert told(findings) == set()
    ((name, start, log_end),) = [(one.name, one.start, one.log_end) for one in check.queues]
    assert (name, start, log_end) == (QUEUE, 0, 3)
    assert check.at_gate_count == 2


def test_a_visible_record_that_is_damaged_is_a_lost_message(root: Path) -> None:
    replace_in(root / "commitlog", b"body of b", b"body of x")

    _, findings = checked(root)

    (found,) = findings.kept
    assert (found.kind, found.subject) == ("visible message", f"{QUEUE} offset 1")


def test_a_delivered_record_that_is_damaged_is_told(root: Path) -> None:
    replace_in(root / "commitlog", b"delayed 1", b"delayed x")

    assert [(one.kind, one.subject) for one in checked(root)[1].kept] == [
        ("delivered message", "message 1")
    ]


def test_a_delivered_message_that_counts_as_pending_would_come_again(root: Path) -> None:
    findings = Findings()
    taken = snapshot(root)
    taken.states = States(0)
    taken.states.extend(6)
    CommitCheck(taken, FILES, findings).run()

    assert [(one.kind, one.subject) for one in findings.kept] == [
        ("origin", "message 0"),
        ("origin", "message 1"),
    ]


def test_a_unit_that_points_elsewhere_is_told_though_its_check_matches(root: Path) -> None:
    (path,) = (root / QUEUE).iterdir()
    content = path.read_bytes()
    path.write_bytes(content[20:40] + content[:20] + content[40:])
    findings = Findings()
    taken = snapshot(root)
    taken.checkpoint.queue_checks.clear()
    CommitCheck(taken, FILES, findings).run()

    assert told(findings) <= {("repair", "queue offset"), ("loss", "consume queue")}
    assert {one.subject for one in findings.kept} == {f"{QUEUE} offset 0", f"{QUEUE} offset 1"}


def test_queue_files_are_made_again(root: Path) -> None:
    (path,) = (root / QUEUE).iterdir()
    content = path.read_bytes()
    path.unlink()
    assert told(checked(root)[1]) == {("repair", "consume queue")}
    path.write_bytes(b"")
    assert told(checked(root)[1]) == {("repair", "consume queue")}
    path.write_bytes(content[:1] + b"\xff" + content[2:])
    assert told(checked(root)[1]) == {("repair", "consume queue")}
    path.write_bytes(content)
    assert told(checked(root)[1]) == set()
