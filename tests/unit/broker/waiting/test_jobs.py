"""Jobs: every row has an answer, also if the broker dies in between; nothing is done twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.store.making import SMALL, START_MS, Wall, carry_over, delayed, int64s, open_store

from dueline.broker.waiting import PendingFilter, changing, jobs
from dueline.broker.waiting.changing import Change, Tally
from dueline.broker.waiting.jobs import JobOrder, JobReport, Jobs
from dueline.errors import InvalidRequest, LimitExceeded, NotFound
from dueline.store import Answer, Store
from dueline.store.road import RoadRule

CANCEL, SHIFT = Change(action="cancel"), Change(action="shift", shift_ms=60_000)
MAIL = PendingFilter(topic="mail")


@pytest.fixture(autouse=True)
def small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changing, "CANCEL_ROWS", 4)
    monkeypatch.setattr(changing, "MOVE_ROWS", 4)


def filled(folder: Path) -> Store:
    store = open_store(folder, Wall(), SMALL)
    for number in range(40):
        topic = ("orders", "mail")[number % 2]
        store.put(delayed(1_000 * (number + 1), topic=topic, KEYS=f"k{number}"))
    return store


def run(worker: Jobs, portion_count: int = 1_000) -> None:
    for _ in range(portion_count):
        if not worker.work():
            return


def dues(store: Store) -> list[int]:
    return [
        int(due_ms) - START_MS
        for rows, _ in store.survey().slabs()
        for due_ms in rows.units.due_ms.tolist()
    ]


def test_a_job_changes_all_that_match_and_nothing_else(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        worker = Jobs(store, tmp_path / "jobs")
        begun = worker.start(JobOrder(change=CANCEL, filter=MAIL, by="ann"))

        assert (begun.state, store.pending_count()) == ("waiting", 40)
        run(worker)

        report = worker.find(begun.number)
        assert (report.state, report.total, report.matched) == ("done", 20, 20)
        assert report.tally == Tally(done=20)
        assert store.survey().pending_by_topic() == {"orders": 20}
        assert worker.list() == [report]
        assert not worker.work()


@pytest.mark.parametrize("portion_count", [1, 2, 3, 5, 6])
def test_a_job_that_was_cut_short_goes_on_and_does_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portion_count: int
) -> None:
    monkeypatch.setattr(jobs, "SAVE_S", 3600.0)  # the file knows only of the beginning
    store = filled(tmp_path)
    worker = Jobs(store, tmp_path / "jobs")
    number = worker.start(JobOrder(change=SHIFT, filter=MAIL)).number
    run(worker, portion_count)

    again = Jobs(store, tmp_path / "jobs")
    assert again.find(number).state == "waiting"
    run(again)

    report = again.find(number)
    assert (report.state, report.is_resumed, report.tally.too_late) == ("done", True, 0)
    moved = [1_000 * (each + 1) + 60_000 for each in range(1, 40, 2)]
    assert dues(store) == sorted([*range(1_000, 40_000, 2_000), *moved])
    store.close()


def test_numbers_are_answered_one_by_one(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        store.numbers.cancel(int64s(3))
        worker = Jobs(store, tmp_path / "jobs")
        numbers = (3, 5, 7, 999, 11, 12)
        order = JobOrder(change=Change(action="reschedule", due_ms=START_MS + 1), numbers=numbers)

        run(worker)
        report = worker.start(order)
        run(worker)

        assert worker.find(report.number).tally == Tally(done=4, too_late=1, unknown=1)
        assert dues(store)[:4] == [1, 1, 1, 1]


def test_what_comes_after_the_beginning_is_not_meant(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        worker = Jobs(store, tmp_path / "jobs")
        worker.start(JobOrder(change=CANCEL, filter=MAIL))
        run(worker, 2)
        store.put(delayed(500_000, topic="mail"))
        run(worker)

        assert store.survey().pending_by_topic() == {"mail": 1, "orders": 20}


def test_a_job_can_be_stopped(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        worker = Jobs(store, tmp_path / "jobs")
        number = worker.start(JobOrder(change=CANCEL, filter=MAIL)).number
        run(worker, 3)
        worker.stop(number)
        run(worker)

        report = worker.find(number)
        assert report.state == "stopped"
        assert 0 < report.tally.done < 20
        assert store.pending_count() == 40 - report.tally.done
        assert worker.stop(number).state == "stopped"


def test_the_same_token_is_the_same_job(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        worker = Jobs(store, tmp_path / "jobs")
        order = JobOrder(change=CANCEL, filter=MAIL, token="mine")

        first = worker.start(order)
        run(worker)
        second = Jobs(store, tmp_path / "jobs").start(order)

        assert (second.number, second.state) == (first.number, "done")


def test_a_job_that_fails_says_why(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        worker = Jobs(store, tmp_path / "jobs")
        far = Change(action="shift", shift_ms=50 * 366 * 86_400_000)
        number = worker.start(JobOrder(change=far, filter=MAIL)).number
        run(worker)

        report = worker.find(number)
        assert report.state == "failed"
        assert "delay: expected at most" in report.error
        assert dues(store) == list(range(1_000, 41_000, 1_000))


def test_few_jobs_are_kept_and_damaged_files_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "JOB_COUNT_MAX", 3)
    with filled(tmp_path) as store:
        worker = Jobs(store, tmp_path / "jobs")
        for _ in range(6):
            worker.start(JobOrder(change=CANCEL, filter=MAIL))
            run(worker)
        assert [report.number for report in worker.list()] == [6, 5, 4]
        (tmp_path / "jobs" / "00000005.json").write_text("{")

        again = Jobs(store, tmp_path / "jobs")

        assert [report.number for report in again.list()] == [6, 4]
        assert again.find(6) == worker.find(6)
        with pytest.raises(NotFound, match="job 5"):
            again.find(5)


def test_orders_without_sense_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "OPEN_COUNT_MAX", 1)
    monkeypatch.setattr(jobs, "NUMBER_COUNT_MAX", 2)
    with filled(tmp_path) as store:
        worker = Jobs(store, tmp_path / "jobs")
        for order, reason in (
            (JobOrder(change=CANCEL), "a filter or numbers"),
            (JobOrder(change=CANCEL, filter=MAIL, numbers=(1,)), "a filter or numbers"),
            (JobOrder(change=CANCEL, filter=PendingFilter(where="x")), "expected a column"),
        ):
            with pytest.raises(InvalidRequest, match=reason):
                worker.start(order)
        for numbers in ((), (1, 2, 3)):
            with pytest.raises(LimitExceeded, match="numbers: expected 1 to 2"):
                worker.start(JobOrder(change=CANCEL, numbers=numbers))
        worker.start(JobOrder(change=CANCEL, filter=MAIL))
        with pytest.raises(LimitExceeded, match="jobs: expected at most 1 under way"):
            worker.start(JobOrder(change=CANCEL, filter=MAIL))


def test_files_are_plain_json(tmp_path: Path) -> None:
    with filled(tmp_path) as store:
        report: JobReport = Jobs(store, tmp_path / "jobs").start(
            JobOrder(change=CANCEL, filter=MAIL)
        )
        saved = json.loads((tmp_path / "jobs" / f"{report.number:08d}.json").read_text())

        assert saved["order"]["filter"]["topic"] == "mail"
        assert saved["state"] == "waiting"


@pytest.mark.parametrize(
    ("is_by_number", "is_killed"), [(False, False), (False, True), (True, False)]
)
@pytest.mark.parametrize("change", [CANCEL, SHIFT])
def test_a_job_does_not_miss_what_a_pause_turns_back_meanwhile(
    tmp_path: Path, change: Change, is_killed: bool, is_by_number: bool
) -> None:
    """It has another number then, though nobody wanted it to be another message."""
    store = filled(tmp_path)
    carry_over(store)
    worker = Jobs(store, tmp_path / "jobs")
    numbers = tuple(range(1, 40, 2))
    order = JobOrder(change=change, filter=MAIL)
    if is_by_number:
        order = JobOrder(change=change, numbers=numbers)
    worker.start(order)
    run(worker, 3)
    store.numbers.set_rule("mail", RoadRule(is_paused=True))
    if is_killed:
        store.close()
        store = open_store(tmp_path, Wall(), SMALL)
        worker = Jobs(store, tmp_path / "jobs")
    late = store.put(delayed(500, topic="mail"))

    run(worker)

    assert store.cancel(late.unique_id) == Answer.CANCELLED, "it was sent after the job began"
    orders = [1_000 * number for number in range(1, 40, 2)]
    shifted = [] if change == CANCEL else [61_000 + 1_000 * number for number in numbers]
    assert sorted(dues(store)) == sorted([*orders, *shifted])
    assert worker.list()[0].state == "done"
    store.close()
