"""The released dramatiq with real workers on a broker: delays, retries, dead letters, kills."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import dramatiq
import pytest
from dramatiq.errors import ConnectionClosed, QueueNotFound
from tests.ports import free_ports
from tests.remoting.serving import RunningBroker
from tests.tasks.campaign import DRAMATIQ, Campaign, Worker, environment
from tests.tasks.notes import read_notes
from tests.waiting import PATIENCE_S, wait_until

from dueline.client import Reader
from dueline.clock import system_time_ms
from dueline.dramatiq import DuelineBroker
from dueline.store.states import PENDING

pytestmark = pytest.mark.slow


class Shop:
    """A broker, dramatiq's broker that sends to it, and where its workers take notes."""

    def __init__(self, broker: RunningBroker, folder: Path) -> None:
        self.broker = broker
        self.folder = folder
        self.notes = folder / "notes"
        self.environment = environment(broker.name_server, self.notes)
        self.sender = DuelineBroker(broker.name_server)
        self.sender.declare_queue("default")

    def send(self, actor: str, name: str, delay_ms: int | None = None) -> str:
        message: dramatiq.Message[object] = dramatiq.Message(
            queue_name="default", actor_name=actor, args=(name,), kwargs={}, options={}
        )
        return self.sender.enqueue(message, delay=delay_ms).message_id

    def worker(self) -> Worker:
        return Worker(DRAMATIQ, self.folder, self.environment)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with RunningBroker(tmp_path / "broker") as broker:
        shop = Shop(broker, tmp_path)
        yield shop
        shop.sender.close()


def test_dramatiqs_first_example(shop: Shop) -> None:
    with shop.worker() as worker:
        shop.send("count_words", "a text of five words")
        wait_until(lambda: bool(list(read_notes(shop.notes))), what="a note")
        assert worker.stop() == 0

    assert [note.name for note in read_notes(shop.notes)] == ["words-5"]


def test_a_delay_waits_in_the_broker(shop: Shop) -> None:
    before_ms = system_time_ms()

    message_id = shop.send("take_note", "later", 3_600_000)

    (waiting,) = shop.broker.broker.delayed.find(message_id)
    assert (waiting.topic, waiting.state) == ("default", PENDING)
    assert before_ms + 3_600_000 <= waiting.due_ms <= system_time_ms() + 3_600_000
    assert shop.sender.get_declared_delay_queues() == set()


def test_retries_wait_in_the_broker_and_end_among_the_dead_letters(shop: Shop) -> None:
    with shop.worker():
        shop.send("fail_always", "again")
        with Reader(shop.broker.name_server, "default%2EXQ") as reader:
            (dead,) = reader.receive_many(1, timeout_s=PATIENCE_S)

    times_ms = [note.ran_ms for note in read_notes(shop.notes)]
    assert len(times_ms) == 3
    # Dramatiq's backoff is its own: half of it and more.
    assert all(after - before >= 500 for before, after in pairwise(times_ms))
    assert dramatiq.Message.decode(dead.body).actor_name == "fail_always"


def test_messages_survive_a_killed_worker(shop: Shop) -> None:
    campaign = Campaign(count=200, countdown_s=(1, 5), kill_counts=[80], seed=18)

    outcome = campaign.run(
        lambda name, delay_ms: shop.send("take_note", name, delay_ms), shop.worker, shop.notes
    )

    assert outcome.lost() == set()
    assert outcome.early() == []
    assert outcome.unexplained() == []


def test_flush_drops_what_is_due(shop: Shop) -> None:
    shop.send("take_note", "now")
    shop.send("take_note", "later", 3_600_000)

    shop.sender.flush_all()

    assert shop.broker.broker.delayed.pending(bucket_ms=60_000).count == 1
    consumer = shop.sender.consume("default", timeout=500)
    assert next(consumer) is None
    consumer.close()


def test_mistakes_are_told_as_dramatiq_tells_them(shop: Shop) -> None:
    with pytest.raises(QueueNotFound):
        shop.sender.consume("unknown")
    nobody = DuelineBroker(f"127.0.0.1:{free_ports(1)[0]}")
    nobody.declare_queue("default")
    with pytest.raises(ConnectionClosed, match="expected a broker or name server"):
        nobody.enqueue(
            dramatiq.Message(
                queue_name="default", actor_name="take_note", args=(), kwargs={}, options={}
            )
        )
    nobody.close()
