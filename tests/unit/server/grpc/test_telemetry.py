"""How a client comes, what it is told, and how it goes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.grpc.world import Call, GrpcWorld, grpc_world, make

from dueline.server.grpc.codes import Code, Refused
from dueline.server.grpc.telemetry import Telemetry

PRODUCER, PUSH_CONSUMER = 1, 2


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GrpcWorld]:
    with grpc_world(tmp_path) as world:
        yield world


def producer(*topics: str) -> Any:
    command = make("TelemetryCommand")
    command.settings.client_type = PRODUCER
    command.settings.publishing.SetInParent()
    for name in topics:
        command.settings.publishing.topics.add(name=name)
    return command


def consumer(group: str) -> Any:
    command = make("TelemetryCommand")
    command.settings.client_type = PUSH_CONSUMER
    command.settings.subscription.group.name = group
    command.settings.backoff_policy.customized_backoff.next.add(seconds=99)
    return command


def told(world: GrpcWorld, *commands: Any, call: Call | None = None) -> list[Any]:
    """What a stream with these commands is answered."""
    call = call or Call()

    async def requests() -> AsyncIterator[Any]:
        for command in commands:
            yield command

    world.run(Telemetry(world.parts).telemetry(requests(), call))
    return call.written


def test_a_producer_gets_its_settings_with_the_brokers_values(world: GrpcWorld) -> None:
    (answer,) = told(world, producer("t", "u"))

    settings = answer.settings
    assert answer.status.code == Code.OK
    assert settings.publishing.max_body_size == world.broker.store_options.body_size_max
    assert [each.name for each in settings.publishing.topics] == ["t", "u"]
    assert settings.backoff_policy.exponential_backoff.multiplier == 2.0
    assert not settings.metric.on


def test_a_consumer_gets_a_list_of_steps_and_its_group_exists(world: GrpcWorld) -> None:
    (answer,) = told(world, consumer("g"))

    steps = [
        each.ToMilliseconds() for each in answer.settings.backoff_policy.customized_backoff.next
    ]
    assert steps == list(world.broker.options.retries.backoff_ms)
    assert answer.settings.subscription.long_polling_timeout.ToMilliseconds() == 20_000
    assert not answer.settings.subscription.fifo
    assert world.broker.group_table.get("g") is not None


def test_mistakes_are_told_and_the_stream_goes_on(world: GrpcWorld) -> None:
    neither = make("TelemetryCommand")
    neither.settings.client_type = PRODUCER

    codes = [each.status.code for each in told(world, neither, consumer("a group"), producer("t"))]

    assert codes[0] == Code.UNRECOGNIZED_CLIENT_TYPE
    assert codes[1] != Code.OK
    assert codes[2] == Code.OK


def test_who_does_not_say_its_name_is_told_so(world: GrpcWorld) -> None:
    with pytest.raises(Refused) as caught:
        told(world, producer("t"), call=Call(None))

    assert caught.value.code == Code.CLIENT_ID_REQUIRED
    assert len(world.clients) == 0


def test_a_client_is_present_while_its_stream_lasts(world: GrpcWorld) -> None:
    async def requests() -> AsyncIterator[Any]:
        yield producer("t")
        present.append(world.clients.is_present("c"))
        present.append([each.client_type for each in world.clients.producers_of("t")])

    present: list[object] = []
    world.run(Telemetry(world.parts).telemetry(requests(), Call()))

    assert present == [True, [PRODUCER]]
    assert list(world.clients.producers_of("t")) == []


def test_a_heartbeat_keeps_a_consumers_group(world: GrpcWorld) -> None:
    telemetry = Telemetry(world.parts)
    for kind, group in ((PRODUCER, "p"), (PUSH_CONSUMER, "g")):
        request = make("HeartbeatRequest", group=group, client_type=kind)
        assert world.run(telemetry.heartbeat(request, Call())).status.code == Code.OK

    assert world.broker.group_table.get("p") is None
    assert world.broker.group_table.get("g") is not None
    assert world.broker.topics.is_saved


def test_a_client_that_says_goodbye_is_forgotten(world: GrpcWorld) -> None:
    told(world, producer("t"))
    assert len(world.clients) == 1
    request = make("NotifyClientTerminationRequest")
    world.run(Telemetry(world.parts).notify_client_termination(request, Call()))

    assert len(world.clients) == 0
