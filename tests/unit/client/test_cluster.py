"""Routes and connections, from a name server that the test plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.unit.client.scripted import Scripted
from tests.waiting import PATIENCE_S

from dueline.client.cluster import Cluster, TopicQueue
from dueline.errors import InvalidRequest, NotFound, Unavailable
from dueline.wire import Command

ROUTE = 105

Use = Callable[[Cluster], Awaitable[None]]


def run(server: Scripted, use: Use, *, before: str = "") -> None:
    async def both() -> None:
        async with server.running() as address:
            cluster = Cluster(before + address, timeout_s=PATIENCE_S)
            await use(cluster)
            await cluster.close()

    asyncio.run(both())


def routed(brokers: dict[str, dict[str, str]], queues: list[dict[str, Any]]) -> Scripted:
    """A name server with one route for all topics; an empty address is its own."""
    server = Scripted({})

    def route(request: Command) -> Command:
        body = {
            "brokerDatas": [
                {
                    "brokerName": name,
                    "cluster": "c",
                    "brokerAddrs": {number: own or server.address for number, own in each.items()},
                }
                for name, each in brokers.items()
            ],
            "queueDatas": [{"topicSysFlag": 0, **queue} for queue in queues],
            "filterServerTable": {},
        }
        return request.reply(code=0, body=json.dumps(body).encode())

    server.answers = {ROUTE: route}
    return server


def queues(broker: str, *, perm: int = 6, read: int = 2, write: int = 3) -> dict[str, Any]:
    return {"brokerName": broker, "perm": perm, "readQueueNums": read, "writeQueueNums": write}


def test_queues_are_those_of_brokers_with_a_master_that_permit_it() -> None:
    server = routed(
        {"a": {"0": ""}, "b": {"0": ""}, "replica-only": {"1": ""}},
        [queues("b", perm=4), queues("a"), queues("replica-only")],
    )

    async def use(cluster: Cluster) -> None:
        reading = await cluster.queues("t")
        writing = await cluster.queues("t", for_writing=True)
        assert [(each.broker_name, each.queue_id) for each in reading] == [
            *(("a", 0), ("a", 1)),
            *(("b", 0), ("b", 1)),
        ]
        assert writing == [
            TopicQueue(topic="t", broker_name="a", queue_id=number) for number in range(3)
        ]

    run(server, use)


def test_a_route_is_asked_for_once_within_its_time() -> None:
    server = routed({"a": {"0": ""}}, [queues("a")])

    async def use(cluster: Cluster) -> None:
        for _ in range(3):
            await cluster.queues("t")
        await cluster.queues("other")

    run(server, use)

    assert [request.ext["topic"] for request in server.requests] == ["t", "other"]


def test_a_topic_that_is_nowhere_is_written_where_new_topics_are_made() -> None:
    server = routed({"a": {"0": ""}}, [queues("a", read=8, write=8)])
    known = server.answers[ROUTE]
    server.answers = {
        ROUTE: lambda request: (
            known(request)
            if request.ext["topic"] == "TBW102"
            else request.reply(code=17, remark="none")
        )
    }

    async def use(cluster: Cluster) -> None:
        assert len(await cluster.queues("new", for_writing=True)) == 4
        with pytest.raises(NotFound):
            await cluster.queues("new")

    run(server, use)


def test_a_name_server_that_is_not_there_is_passed_over() -> None:
    server = routed({"a": {"0": ""}}, [queues("a")])

    async def use(cluster: Cluster) -> None:
        assert len(await cluster.queues("t")) == 2

    run(server, use, before="127.0.0.1:1;")


def test_a_broker_that_is_not_there_is_looked_for_again() -> None:
    server = routed({"a": {"0": "127.0.0.1:1"}}, [queues("a")])

    async def use(cluster: Cluster) -> None:
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"127\.0\.0\.1:1: expected a broker"):
                await cluster.broker("t", "a")

    run(server, use)

    assert [request.code for request in server.requests] == [ROUTE, ROUTE]


def test_a_broker_that_the_route_does_not_name_is_unavailable() -> None:
    server = routed({"a": {"0": ""}}, [queues("a")])

    async def use(cluster: Cluster) -> None:
        with pytest.raises(Unavailable, match="broker z: expected in the route of t"):
            await cluster.broker("t", "z")

    run(server, use)


def test_delay_levels_are_the_brokers() -> None:
    server = routed({"a": {"0": ""}}, [queues("a")])
    server.answers = {
        **server.answers,
        26: lambda request: request.reply(code=0, body=b"x=1\nmessageDelayLevel=1s 5m\n"),
    }

    async def use(cluster: Cluster) -> None:
        assert (await cluster.levels("t")).delays_ms == (1_000, 300_000)

    run(server, use)


@pytest.mark.parametrize("text", ["", " ; "])
def test_no_name_server_is_refused(text: str) -> None:
    async def make() -> None:
        Cluster(text, timeout_s=1)

    with pytest.raises(InvalidRequest, match="expected host:port, found none"):
        asyncio.run(make())
