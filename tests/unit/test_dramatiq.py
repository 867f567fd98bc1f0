"""Dramatiq's broker on a broker in this process: queues, room, and what failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dramatiq
import pytest
from dramatiq.errors import ConnectionClosed, QueueNotFound
from tests.remoting.serving import RunningBroker
from tests.waiting import wait_until

from dueline.client import Producer
from dueline.dramatiq import DuelineBroker

NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """One for all tests: each has a queue of its own."""
    folder: Path = tmp_path_factory.mktemp("broker")
    with RunningBroker(folder, is_compiled=False) as running:
        yield running


@pytest.fixture
def queue(request: pytest.FixtureRequest) -> str:
    return str(request.node.name).removeprefix("test_")


@pytest.fixture
def broker(server: RunningBroker, queue: str) -> Iterator[DuelineBroker]:
    made = DuelineBroker(server.name_server, middleware=[])
    made.declare_queue(queue)
    yield made
    made.close()


def message(queue: str, number: int = 0) -> dramatiq.Message[Any]:
    return dramatiq.Message(
        queue_name=queue, actor_name="note", args=(number,), kwargs={}, options={}
    )


def taken(consumer: dramatiq.Consumer) -> dramatiq.MessageProxy:
    return wait_until(lambda: next(consumer), "a message")


def test_a_queue_that_was_not_declared_is_refused(broker: DuelineBroker) -> None:
    for use in (
        lambda: broker.enqueue(message("other")),
        lambda: broker.consume("other"),
        lambda: broker.flush("other"),
    ):
        with pytest.raises(QueueNotFound, match="other"):
            use()


def test_a_queue_is_declared_once(broker: DuelineBroker, queue: str) -> None:
    told: list[tuple[str, str]] = []

    class Listener(dramatiq.Middleware):
        def before_declare_queue(self, broker: object, queue_name: str) -> None:
            told.append(("before", queue_name))

        def after_declare_queue(self, broker: object, queue_name: str) -> None:
            told.append(("after", queue_name))

    broker.add_middleware(Listener())
    told.clear()  # it was told of what had been declared before
    broker.declare_queue("new")
    broker.declare_queue("new")

    assert told == [("before", "new"), ("after", "new")]
    declared = broker.get_declared_queues()
    declared.clear()  # a copy
    assert broker.get_declared_queues() == {queue, "new"}


@pytest.mark.parametrize("delay_ms", [None, 0, -5_000])
def test_a_delay_that_is_over_means_now(server: RunningBroker, delay_ms: int | None) -> None:
    name = f"now{delay_ms}"
    broker = DuelineBroker(server.name_server, middleware=[])
    broker.declare_queue(name)

    assert broker.enqueue(message(name, 7), delay=delay_ms).args == (7,)

    consumer = broker.consume(name, timeout=1_000)
    assert taken(consumer).args == (7,)
    consumer.close()
    broker.close()


def test_a_worker_holds_no_more_than_it_has_room_for(broker: DuelineBroker, queue: str) -> None:
    for number in range(3):
        broker.enqueue(message(queue, number))
    consumer = broker.consume(queue, prefetch=2, timeout=50)
    first, second = taken(consumer), taken(consumer)

    assert [next(consumer) for _ in range(3)] == [None] * 3
    consumer.ack(first)
    third = taken(consumer)

    assert sorted(each.args[0] for each in (first, second, third)) == [0, 1, 2]
    consumer.close()


def test_what_is_given_back_comes_again_and_makes_room(broker: DuelineBroker, queue: str) -> None:
    broker.enqueue(message(queue, 7))
    consumer = broker.consume(queue, prefetch=1, timeout=50)

    consumer.requeue([taken(consumer)])

    assert taken(consumer).args == (7,)
    consumer.close()


def test_what_failed_goes_to_the_dead_letter_queue_and_comes_no_more(
    broker: DuelineBroker, queue: str
) -> None:
    failed = broker.enqueue(message(queue, 7))
    consumer = broker.consume(queue, timeout=50)
    consumer.nack(taken(consumer))
    broker.declare_queue(f"{queue}.XQ")

    dead = broker.consume(f"{queue}.XQ", timeout=1_000)

    assert taken(dead).message_id == failed.message_id
    assert next(consumer) is None
    dead.close()
    consumer.close()


def test_what_is_no_message_of_dramatiq_s_keeps_no_room(
    broker: DuelineBroker, server: RunningBroker, queue: str
) -> None:
    with Producer(server.name_server) as producer:
        producer.send(queue, b"hello", queue_id=0)
        producer.send("other", b"the end of it", queue_id=0)
    broker.enqueue(message(queue, 7))
    consumer = broker.consume(queue, prefetch=1, timeout=50)

    assert taken(consumer).args == (7,)
    consumer.close()


def test_what_was_not_acknowledged_comes_to_another_consumer(
    broker: DuelineBroker, queue: str
) -> None:
    broker.enqueue(message(queue, 7))
    left = broker.consume(queue, timeout=1_000)
    taken(left)

    left.close()
    left.close()  # the worker does so twice

    other = broker.consume(queue, timeout=1_000)
    assert taken(other).args == (7,)
    other.close()


def test_an_acknowledgement_that_came_too_late_is_told_and_makes_room(
    broker: DuelineBroker, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker.enqueue(message(queue, 7))
    consumer = broker.consume(queue, prefetch=1, timeout=50)
    late = taken(consumer)
    consumer.requeue([late])
    again = taken(consumer)

    consumer.ack(late)

    assert "had gone back before" in caplog.text
    consumer.ack(again)
    consumer.close()


def test_flushing_drops_what_is_due_and_leaves_what_waits(
    broker: DuelineBroker, server: RunningBroker, queue: str
) -> None:
    waiting = broker.enqueue(message(queue, 1), delay=3_600_000)
    broker.enqueue(message(queue, 2))

    broker.flush_all()

    consumer = broker.consume(queue, timeout=50)
    assert next(consumer) is None
    (found,) = server.broker.delayed.find(waiting.message_id)
    assert found.due_ms > 0
    consumer.close()


def test_no_broker_is_a_closed_connection() -> None:
    broker = DuelineBroker(NOBODY, middleware=[])
    broker.declare_queue("q")

    with pytest.raises(ConnectionClosed, match=NOBODY):
        broker.enqueue(message("q"))
    broker.close()
    broker.close()


def test_a_forked_process_has_a_producer_of_its_own(
    broker: DuelineBroker, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.enqueue(message(queue, 1))
    parents = broker._producer
    assert parents is not None

    with monkeypatch.context() as forked:
        forked.setattr("os.getpid", lambda: parents[0] + 1)
        broker.enqueue(message(queue, 2))
        assert broker._producer is not None
        assert broker._producer[1] is not parents[1]
        broker.close()

    parents[1].__exit__(None, None, None)  # the child has not closed what is its parent's
