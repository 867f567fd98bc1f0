"""The released Celery with real workers on a broker: its first steps, countdowns, kills."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, chord
from tests.remoting.serving import RunningBroker
from tests.tasks.campaign import CELERY, Campaign, Worker, environment
from tests.tasks.notes import read_notes
from tests.waiting import PATIENCE_S, wait_until

from dueline.celery import due_ms_of
from dueline.client import Producer
from dueline.clock import system_time_ms
from dueline.store.states import CANCELLED, PENDING

pytestmark = pytest.mark.slow

PREFETCH_COUNT = 8
"""Four for each of two processes: so many a worker holds that are not acknowledged."""


class Shop:
    """A broker, an app that sends to it, and where its workers take notes."""

    def __init__(self, broker: RunningBroker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.notes = folder / "notes"
        (folder / "results").mkdir()
        self.environment = environment(
            f"dueline://{broker.name_server}",
            self.notes,
            TASKS_RESULTS=f"file://{folder / 'results'}",
        )
        self.app = Celery(
            broker=self.environment["TASKS_BROKER"], backend=self.environment["TASKS_RESULTS"]
        )

    def task(self, name: str) -> Any:
        return self.app.signature(f"tests.tasks.celery_app.{name}")

    def worker(self) -> Worker:
        return Worker(CELERY, self.folder, self.environment)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with RunningBroker(tmp_path / "broker") as broker:
        shop = Shop(broker, tmp_path)
        yield shop
        shop.app.close()


def test_celerys_first_steps(shop: Shop) -> None:
    add, total = shop.task("add"), shop.task("total")
    with shop.worker():
        assert add.clone((4, 4)).delay().get(timeout=PATIENCE_S) == 8
        assert (
            chain(add.clone((2, 2)), add.clone((4,)), add.clone((8,)))().get(timeout=PATIENCE_S)
            == 16
        )
        assert chord([add.clone((n, n)) for n in range(5)], total)().get(timeout=PATIENCE_S) == 20


def test_a_countdown_waits_in_the_broker_and_can_be_taken_back(shop: Shop) -> None:
    before_ms = system_time_ms()

    result = shop.task("take_note").clone(("never",)).apply_async(countdown=3_600)

    (waiting,) = shop.broker.broker.delayed.find(result.id)
    eta = json.loads(waiting.record.body)["headers"]["eta"]
    assert (waiting.topic, waiting.state, waiting.due_ms) == ("celery", PENDING, due_ms_of(eta))
    assert waiting.due_ms >= before_ms + 3_600_000
    with Producer(shop.broker.name_server) as producer:
        assert producer.cancel(result.id)
    assert shop.broker.broker.delayed.find(result.id)[0].state == CANCELLED


def test_a_task_that_waits_can_be_moved(shop: Shop) -> None:
    note = shop.task("take_note")
    now = note.clone(("now",)).apply_async(countdown=3_600)
    soon = note.clone(("soon",)).apply_async(countdown=3_600)
    with Producer(shop.broker.name_server) as producer:
        soon_ms = system_time_ms() + 2_000
        assert producer.deliver_now(now.id)
        assert producer.reschedule(soon.id, delay=2)

    with shop.worker():
        wait_until(lambda: len(list(read_notes(shop.notes))) == 2, what="both tasks")

    ran_ms = {each.name: each.ran_ms for each in read_notes(shop.notes)}
    assert set(ran_ms) == {"now", "soon"}  # in any order, if the worker was slow to start
    assert ran_ms["soon"] >= soon_ms


def test_a_task_that_is_tried_again_waits_in_the_broker(shop: Shop) -> None:
    with shop.worker():
        shop.task("try_thrice").clone(("again",)).apply_async()
        wait_until(lambda: len(list(read_notes(shop.notes))) == 3, what="three attempts")

    times_ms = [note.ran_ms for note in read_notes(shop.notes)]
    assert times_ms[1] - times_ms[0] >= 1_000
    assert times_ms[2] - times_ms[1] >= 1_000


def test_a_worker_that_is_asked_to_leave_gives_back_what_it_has_not_begun(shop: Shop) -> None:
    names = {f"note-{number}" for number in range(40)}
    with shop.worker() as first:
        for name in names:
            shop.task("take_note").clone((name,)).apply_async()
        wait_until(lambda: bool(list(read_notes(shop.notes))), what="a note")
        assert first.stop() == 0
    with shop.worker():
        wait_until(lambda: names <= {note.name for note in read_notes(shop.notes)}, what="all")

    found = [note.name for note in read_notes(shop.notes)]
    assert set(found) == names
    # Celery restores what is at work when it leaves; on Redis too a task was seen to run twice.
    assert len(found) - len(names) <= PREFETCH_COUNT


def test_tasks_survive_a_killed_worker(shop: Shop) -> None:
    campaign = Campaign(count=200, countdown_s=(1, 5), kill_counts=[80], seed=17)
    note = shop.task("take_note")

    outcome = campaign.run(
        lambda name, delay_ms: note.clone((name,)).apply_async(countdown=delay_ms / 1_000),
        shop.worker,
        shop.notes,
    )

    assert outcome.lost() == set()
    assert outcome.early() == []
    assert outcome.unexplained() == []


def test_purge_drops_what_is_due(shop: Shop) -> None:
    for number in range(3):
        shop.task("take_note").clone((f"{number}",)).apply_async()
    shop.task("take_note").clone(("later",)).apply_async(countdown=3_600)

    assert shop.app.control.purge() == 3
    assert shop.broker.broker.delayed.pending(bucket_ms=60_000).count == 1


def test_what_is_no_task_does_not_stop_the_others(shop: Shop) -> None:
    with Producer(shop.broker.name_server) as producer:
        producer.send("celery", b"not a task")
    with shop.worker():
        shop.task("take_note").clone(("fine",)).apply_async()
        wait_until(lambda: bool(list(read_notes(shop.notes))), what="a note")


def test_the_due_time_is_never_before_the_eta() -> None:
    assert due_ms_of("2027-01-01T00:00:00+00:00") == 1_798_761_600_000
    assert due_ms_of("2027-01-01T01:00:00.000999+01:00") == 1_798_761_600_001
    assert [due_ms_of(each) for each in (None, "2027-01-01T00:00:00", "soon", 7)] == [None] * 4
