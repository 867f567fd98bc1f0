"""Taking messages one by one: acknowledged, released, renewed, left behind by a dead process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

import pytest
from tests.remoting.serving import RunningBroker
from tests.waiting import PATIENCE_S

from dueline.client import AsyncProducer, AsyncSimpleConsumer, Outgoing, Producer, SimpleConsumer
from dueline.errors import InvalidRequest

HOLDER = """
import sys
from dueline.client import SimpleConsumer

with SimpleConsumer(sys.argv[1], "work", "team", invisible=2) as consumer:
    (taken,) = consumer.receive()
    print(taken.message.body.decode(), flush=True)
    sys.stdin.read()
"""


def test_what_is_acknowledged_does_not_come_again(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send_many([Outgoing(topic="work", body=b"%d" % number) for number in range(50)])
    found: set[bytes] = set()

    with SimpleConsumer(broker.name_server, "work", "team", invisible=5) as consumer:
        while len(found) < 50:
            for taken in consumer.receive(20, timeout_s=PATIENCE_S):
                assert taken.message.body not in found
                found.add(taken.message.body)
                assert consumer.ack(taken)
        assert consumer.receive(timeout_s=6) == []


def test_what_is_there_now_is_taken_without_waiting_for_more(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send_many([Outgoing(topic="work", body=b"%d" % number) for number in range(50)])
    found: list[bytes] = []

    with SimpleConsumer(broker.name_server, "work", "team", invisible="1h") as consumer:
        while taken := consumer.receive_now(20):
            found += [each.message.body for each in taken]
            assert all(consumer.ack(each) for each in taken)
    assert sorted(map(int, found)) == list(range(50))
    with SimpleConsumer(broker.name_server, "nowhere", "team") as consumer:
        assert consumer.receive_now() == []


def test_what_is_released_comes_again_one_attempt_older(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send("work", b"17")

    with SimpleConsumer(broker.name_server, "work", "team") as consumer:
        (first,) = consumer.receive(timeout_s=PATIENCE_S)
        assert consumer.release(first)
        (second,) = consumer.receive(timeout_s=PATIENCE_S)

    assert (first.message.attempt, second.message.attempt) == (0, 1)
    assert second.message.id == first.message.id


def test_what_was_not_done_comes_again_when_the_consumer_leaves(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send("work", b"17")

    with SimpleConsumer(broker.name_server, "work", "team", invisible="1h") as consumer:
        assert len(consumer.receive(timeout_s=PATIENCE_S)) == 1
    with SimpleConsumer(broker.name_server, "work", "team", invisible="1h") as consumer:
        assert len(consumer.receive(timeout_s=PATIENCE_S)) == 1


def test_what_a_consumer_gives_back_is_not_given_to_the_request_it_has_left_behind(
    broker: RunningBroker,
) -> None:
    with Producer(broker.name_server) as producer:
        producer.send("work", b"17")

    with SimpleConsumer(broker.name_server, "work", "team", invisible="1h") as consumer:
        assert len(consumer.receive(timeout_s=PATIENCE_S)) == 1
        assert consumer.receive(timeout_s=0.1) == [], "the broker is still being asked for more"
    with SimpleConsumer(broker.name_server, "work", "team", invisible="1h") as consumer:
        assert len(consumer.receive(timeout_s=PATIENCE_S)) == 1


def test_a_message_is_kept_for_as_long_as_the_work_takes(broker: RunningBroker) -> None:
    async def run() -> None:
        async with (
            AsyncProducer(broker.name_server) as producer,
            AsyncSimpleConsumer(broker.name_server, "work", "team", invisible=4) as worker,
            AsyncSimpleConsumer(broker.name_server, "work", "team", invisible=4) as other,
        ):
            await producer.send("work", b"17")
            (taken,) = await worker.receive(timeout_s=PATIENCE_S)

            assert await other.receive(timeout_s=9) == []
            assert await worker.ack(taken)

    asyncio.run(run())


def test_messages_of_a_killed_process_come_to_another(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send("work", b"17")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, broker.name_server],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "17\n"
        os.kill(holder.pid, signal.SIGKILL)

    with SimpleConsumer(broker.name_server, "work", "team") as consumer:
        (taken,) = consumer.receive(timeout_s=PATIENCE_S)
        assert (taken.message.body, taken.message.attempt) == (b"17", 1)
        assert consumer.ack(taken)


def test_a_topic_that_is_not_there_yet_is_waited_for(broker: RunningBroker) -> None:
    async def run() -> bytes:
        async with (
            AsyncProducer(broker.name_server) as producer,
            AsyncSimpleConsumer(broker.name_server, "late", "team") as consumer,
        ):
            waiting = asyncio.create_task(consumer.receive(timeout_s=PATIENCE_S))
            await asyncio.sleep(0)
            await producer.send("late", b"17")
            return (await waiting)[0].message.body

    assert asyncio.run(run()) == b"17"


def test_mistakes_are_refused_in_words(broker: RunningBroker) -> None:
    with pytest.raises(InvalidRequest, match="invisible: expected a second or more"):
        AsyncSimpleConsumer(broker.name_server, "work", "team", invisible=0.5)
    with (
        SimpleConsumer(broker.name_server, "work", "team") as consumer,
        pytest.raises(InvalidRequest, match="count_max: expected 1 or more, found 0"),
    ):
        consumer.receive(0)
