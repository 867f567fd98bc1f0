"""The thread that works off jobs: it ends in order, and a failed store ends the broker."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from tests.unit.store.making import Wall, delayed, open_store
from tests.waiting import PATIENCE_S, wait_until

from dueline.broker.waiting import PendingFilter
from dueline.broker.waiting.changing import Change
from dueline.broker.waiting.jobs import JobOrder, Jobs
from dueline.errors import StoreClosed
from dueline.server.job_worker import JobWorker


def is_done(jobs: Jobs, number: int) -> bool:
    return jobs.find(number).state == "done"


def test_orders_are_worked_off_until_it_stops(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        jobs = Jobs(store, tmp_path / "jobs")
        worker = JobWorker(jobs, on_failure=lambda error: None)
        worker.start()
        for _ in range(2):
            store.put(delayed(1_000))
            number = jobs.start(
                JobOrder(change=Change(action="cancel"), filter=PendingFilter())
            ).number
            wait_until(partial(is_done, jobs, number), "the job")
        worker.stop()
        jobs.start(JobOrder(change=Change(action="cancel"), filter=PendingFilter()))

        assert store.pending_count() == 0
        assert jobs.list()[0].state == "waiting"


def test_a_closed_store_ends_the_thread_with_its_reason(tmp_path: Path) -> None:
    store = open_store(tmp_path, Wall())
    store.put(delayed(1_000))
    jobs = Jobs(store, tmp_path / "jobs")
    jobs.start(JobOrder(change=Change(action="cancel"), filter=PendingFilter()))
    store.close()
    failures: list[BaseException] = []
    failed = threading.Event()

    def fail(error: BaseException) -> None:
        failures.append(error)
        failed.set()

    worker = JobWorker(jobs, on_failure=fail)
    worker.start()

    assert failed.wait(PATIENCE_S)
    worker.stop()
    assert isinstance(failures[0], StoreClosed)
