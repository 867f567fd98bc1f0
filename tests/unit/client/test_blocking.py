"""Clients for programs without an event loop: their thread begins and ends with `with`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from tests.threads import Started
from tests.unit.client.scripted import Scripted
from tests.unit.store.recording import make_record
from tests.waiting import PATIENCE_S

from dueline.client.blocking import Consumer, Producer, Reader, SimpleConsumer
from dueline.client.loop import Loop
from dueline.errors import InvalidRequest, Unavailable
from dueline.store import record as records

SEND, PULL, MIN, SETTINGS = 310, 11, 31, 26
STORED = {"msgId": "7F00000100002A9F0000000000000064", "queueId": "1", "queueOffset": "5"}
NOBODY = "127.0.0.1:1"


@contextmanager
def scripted(broker: Scripted) -> Iterator[str]:
    """The broker's address; it runs in a thread, as the clients do."""
    loop = Loop()
    running = broker.running()
    try:
        yield loop.run(running.__aenter__())
    finally:
        loop.run(running.__aexit__(None, None, None))
        loop.close()


STARTED = Started()


@pytest.fixture(autouse=True)
def begin() -> None:
    STARTED.begin()


def client_threads() -> int:
    return len(STARTED.named("dueline-client"))


def storing() -> Scripted:
    broker = Scripted({})
    broker.answers = {105: broker.route, SEND: lambda request: request.reply(code=0, ext=STORED)}
    return broker


def test_a_client_has_a_thread_from_its_beginning_to_its_end() -> None:
    consumer = SimpleConsumer(NOBODY, "orders", "billing")
    assert client_threads() == 0

    with consumer as entered:
        assert entered is consumer
        assert client_threads() == 1

    assert client_threads() == 0


def test_a_producer_has_no_thread() -> None:
    with scripted(storing()) as address:
        before = threading.active_count()
        with Producer(address) as producer:
            producer.send("orders", b"17")
            assert threading.active_count() == before


def test_what_goes_wrong_inside_is_raised_and_the_thread_ends() -> None:
    with (
        pytest.raises(KeyError, match="mine"),
        SimpleConsumer(NOBODY, "orders", "billing"),
    ):
        raise KeyError("mine")

    assert client_threads() == 0


@pytest.mark.parametrize(
    "client",
    [Reader(NOBODY, "orders"), Consumer(NOBODY, "orders", "billing", print)],
    ids=["reader", "consumer"],
)
def test_a_client_that_cannot_begin_leaves_no_thread(client: Reader | Consumer) -> None:
    for _ in range(2):
        with pytest.raises(Unavailable, match=NOBODY), client:
            pytest.fail("it was entered")
        assert client_threads() == 0


def test_a_mistake_that_its_constructor_finds_leaves_no_thread() -> None:
    with pytest.raises(InvalidRequest, match="start or end, found 'middle'"):
        Reader(NOBODY, "orders", start="middle").__enter__()

    assert client_threads() == 0


def test_a_client_that_was_never_entered_cannot_be_left() -> None:
    with pytest.raises(InvalidRequest, match=r"SimpleConsumer: expected .* found it not entered"):
        SimpleConsumer(NOBODY, "orders", "billing").__exit__(None, None, None)


def test_the_second_exit_says_that_it_is_closed() -> None:
    with Producer(NOBODY) as producer:
        pass

    with pytest.raises(InvalidRequest, match="found it closed"):
        producer.__exit__(None, None, None)


def test_a_client_may_be_entered_again() -> None:
    with scripted(storing()) as address:
        producer = Producer(address)
        for _ in range(2):
            with producer:
                assert producer.send("orders", b"17").offset_id == STORED["msgId"]


def test_a_thread_that_waits_keeps_no_other_from_asking_and_is_let_go_at_the_end() -> None:
    is_pulled = threading.Event()
    broker = Scripted({})
    broker.answers = {
        105: broker.route,
        MIN: lambda request: request.reply(code=0, ext={"offset": "0"}),
        PULL: lambda request: is_pulled.set(),
        SETTINGS: lambda request: request.reply(code=0, body=b"messageDelayLevel=7s 9s"),
    }

    with scripted(broker) as address, ThreadPoolExecutor(1) as threads:
        with Reader(address, "orders") as reader:
            waiting = threads.submit(reader.receive)
            assert is_pulled.wait(PATIENCE_S)
            assert reader.levels().delays_ms == (7_000, 9_000)
            assert not waiting.done()

        with pytest.raises(CancelledError):
            waiting.result(PATIENCE_S)
    assert client_threads() == 0


def test_a_reader_is_iterated_over() -> None:
    body = b"".join(
        records.seal(make_record(body=body, queue_offset=number))
        for number, body in enumerate((b"17", b"18"))
    )
    next_offset = {"suggestWhichBrokerId": "0", "nextBeginOffset": "2"} | {
        "minOffset": "0",
        "maxOffset": "2",
    }
    broker = Scripted({})
    broker.answers = {
        105: broker.route,
        MIN: lambda request: request.reply(code=0, ext={"offset": "0"}),
        PULL: lambda request: (
            request.reply(code=0, ext=next_offset, body=body)
            if (request.ext["queueId"], request.ext["queueOffset"]) == ("0", "0")
            else None
        ),
    }

    with scripted(broker) as address, Reader(address, "orders") as reader:
        messages = iter(reader)
        assert [next(messages).body, next(messages).body] == [b"17", b"18"]
