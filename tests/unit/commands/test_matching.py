"""`--where`: counted, asked, done as a job, and told."""

from __future__ import annotations

import io
import json

import pytest
from tests.unit.commands.conftest import Run

from dueline.message import Message
from dueline.server.process import BrokerProcess


@pytest.fixture
def filled(broker: BrokerProcess) -> BrokerProcess:
    for number in range(10):
        properties = {"KEYS": f"order-{number}", "TIMER_DELAY_MS": str(3_600_000 + number)}
        topic = ("mail", "bills")[number % 2]
        broker.store.put(Message(topic=topic, body=b"x", properties=properties))
    return broker


MAIL = "topic = 'mail' and key like 'order-%'"


def test_a_dry_run_counts_and_changes_nothing(filled: BrokerProcess, run: Run) -> None:
    ran = run("cancel", "--where", MAIL, "--dry-run")

    assert (ran.code, ran.lines) == (0, ["5 messages match", "  mail: 5"])
    assert filled.store.pending_count() == 10
    ran = run("cancel", "--where", MAIL, "--dry-run", "--json")
    assert json.loads(ran.out) == {"count": 5, "topics": {"mail": 5}}


def test_all_that_match_are_cancelled(filled: BrokerProcess, run: Run) -> None:
    ran = run("cancel", "--where", MAIL, "--yes")

    assert (ran.code, ran.lines) == (0, ["job 1 done: 5 done"])
    assert filled.store.survey().pending_by_topic() == {"bills": 5}


def test_without_a_terminal_yes_must_be_said(
    filled: BrokerProcess, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))

    ran = run("cancel", "--where", MAIL)

    assert ran.code == 2
    assert "5 messages match: expected --yes" in ran.err
    assert filled.store.pending_count() == 10


@pytest.mark.parametrize(("answer", "left"), [("y", 5), ("", 10)])
def test_a_person_is_asked(
    filled: BrokerProcess, run: Run, monkeypatch: pytest.MonkeyPatch, answer: str, left: int
) -> None:
    terminal = io.StringIO(answer + "\n")
    terminal.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdin", terminal)

    ran = run("cancel", "--where", MAIL)

    assert ran.lines[0] == "cancel 5 messages of mail (5)? [y/N]"
    assert filled.store.pending_count() == left
    assert ran.code == (0 if answer else 1)


def test_all_that_match_are_moved(filled: BrokerProcess, run: Run) -> None:
    before_ms = filled.clock.now_ms()
    for words in (("--shift", "2h"), ("--shift=-1h",), ("--at", "2100-01-01T00:00Z")):
        assert run("reschedule", "--where", MAIL, *words, "--yes").code == 0
    assert filled.store.survey().pending_by_bucket(60_000, "mail") == {4_102_444_800_000: 5}

    ran = run("reschedule", "--where", MAIL, "--now", "--yes", "--json")

    assert json.loads(ran.out)["answers"]["done"] == 5
    # Some may be carried over already.
    left = filled.store.survey().pending_by_bucket(60_000, "mail")
    assert all(before_ms - 60_000 < start <= filled.clock.now_ms() for start in left)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("cancel",), "found both or neither"),
        (("cancel", "a", "--where", MAIL), "found both or neither"),
        (("cancel", "--where", "colour = 'red'", "--yes"), "expected a column"),
        (("reschedule", "a", "--now"), "expected --where with them"),
        (("reschedule", "--where", MAIL, "--shift", "soon", "--yes"), "duration"),
    ],
)
def test_nonsense_is_refused(
    filled: BrokerProcess, run: Run, words: tuple[str, ...], reason: str
) -> None:
    ran = run(*words)

    assert ran.code == 2
    assert reason in ran.err
    assert filled.store.pending_count() == 10
