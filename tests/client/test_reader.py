"""The reader: groups, topics that come later, brokers that come back, bodies that are broken."""

from __future__ import annotations

import asyncio
import zlib
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from tests.ports import free_ports
from tests.remoting.serving import RunningBroker
from tests.unit.server.local import running, small_config
from tests.waiting import PATIENCE_S, wait_until

from dueline.client import AsyncReader, Outgoing, Producer, Reader, Sent
from dueline.errors import BrokerError, InvalidRequest
from dueline.message import SYS_COMPRESSED, Message


def test_a_group_goes_on_after_what_was_committed(broker: RunningBroker) -> None:
    with Producer(broker.name_server) as producer:
        producer.send_many([Outgoing(topic="orders", body=b"%d" % n, queue_id=0) for n in range(6)])

    found = []
    for count in (2, 3):
        with Reader(broker.name_server, "orders", group="g", start="start") as reader:
            found.append([reader.receive().body for _ in range(count)])
            reader.commit()
    with Reader(broker.name_server, "orders", group="g", start="end") as reader:
        found.append([reader.receive().body])
    with Reader(broker.name_server, "orders", group="g") as reader:
        found.append([reader.receive().body])

    assert found == [[b"0", b"1"], [b"2", b"3", b"4"], [b"5"], [b"5"]]


def test_without_a_group_there_is_nothing_to_commit(broker: RunningBroker) -> None:
    with (
        Reader(broker.name_server, "orders") as reader,
        pytest.raises(InvalidRequest, match="group"),
    ):
        reader.commit()


def test_a_topic_that_comes_later_is_read_from_its_start(broker: RunningBroker) -> None:
    with (
        Reader(broker.name_server, "orders", start="end") as reader,
        Producer(broker.name_server) as producer,
    ):
        assert reader.receive_many(1, timeout_s=0.1) == []
        producer.send("orders", b"first", queue_id=3)

        (found,) = reader.receive_many(10, timeout_s=PATIENCE_S)

    assert (found.body, found.queue_id) == (b"first", 3)


def test_each_message_has_an_answer_of_its_own(broker: RunningBroker) -> None:
    messages = [
        Outgoing(topic="orders", body=b"a", delay=timedelta(hours=1)),
        Outgoing(topic="orders", body=b"b", delay=timedelta(days=40_000)),
        Outgoing(topic="orders", body=b"c", delay_level=1),
    ]
    with Producer(broker.name_server) as producer:
        results = producer.send_each(messages)
        assert producer.send_each([]) == []
        with pytest.raises(InvalidRequest):
            producer.send_many(messages)

    assert [isinstance(result, Sent) for result in results] == [True, False, True]
    assert isinstance(results[1], BrokerError)
    for place, delay_ms in ((0, 3_600_000), (2, 1_000)):
        sent = results[place]
        assert isinstance(sent, Sent)
        (stored,) = broker.store.find_delayed(sent.id)
        assert stored.due_ms == sent.due_ms
        assert (sent.due_ms or 0) - delay_ms <= broker.clock.now_ms()


@pytest.mark.parametrize("body", [b"not zlib", zlib.compress(b"x" * 100)[:-3]])
def test_a_body_that_cannot_be_unpacked_comes_as_it_is(broker: RunningBroker, body: bytes) -> None:
    broker.store.put(Message(topic="orders", body=body, sys_flag=SYS_COMPRESSED))
    broker.store.put(Message(topic="orders", body=zlib.compress(b"good"), sys_flag=SYS_COMPRESSED))
    with Reader(broker.name_server, "orders") as reader:
        assert [reader.receive().body for _ in range(2)] == [body, b"good"]


def test_a_reader_outlives_its_broker(tmp_path: Path) -> None:
    names, remoting = free_ports(2)
    told: list[BrokerError | None] = []
    config = small_config(
        tmp_path,
        **{"listen.name_server": f"127.0.0.1:{names}", "listen.remoting": f"127.0.0.1:{remoting}"},
    )
    with ExitStack() as stack:
        with running(config) as broker:
            broker.store.put(Message(topic="orders", body=b"before"))
            reader = stack.enter_context(
                Reader(f"127.0.0.1:{names}", "orders", on_connection=told.append)
            )
            assert reader.receive().body == b"before"
        wait_until(lambda: told, what="the loss to be noticed")
        with running(config) as broker:
            broker.store.put(Message(topic="orders", body=b"after"))
            assert reader.receive().body == b"after"

    assert isinstance(told[0], BrokerError)
    assert told[1] is None


def test_a_group_that_has_read_nothing_starts_at_the_end_if_told_to(
    broker: RunningBroker,
) -> None:
    with Producer(broker.name_server) as producer:
        producer.send("orders", b"old", queue_id=0)
        with Reader(broker.name_server, "orders", start="end", group="billing") as reader:
            producer.send("orders", b"new", queue_id=0)

            assert reader.receive().body == b"new"


def test_a_reader_may_be_entered_again(broker: RunningBroker) -> None:
    async def read() -> list[bytes]:
        reader = AsyncReader(broker.name_server, "orders")
        found = []
        for _ in range(2):
            async with reader:
                found.append((await reader.receive()).body)
        return found

    with Producer(broker.name_server) as producer:
        producer.send("orders", b"first", queue_id=0)
        producer.send("orders", b"second", queue_id=0)

    assert asyncio.run(read()) == [b"first", b"first"], "without a group nothing is remembered"
