"""How long calls wait, and what wakes them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.server.grpc.world import Call, GrpcWorld, grpc_world, make

from dueline.server.grpc.codes import Refused
from dueline.server.grpc.options import GrpcOptions
from dueline.server.grpc.polling import News, polling_s


@pytest.fixture
def world(tmp_path: Path) -> Iterator[GrpcWorld]:
    with grpc_world(tmp_path) as world:
        yield world


def receive(wanted_ms: int | None) -> Any:
    request = make("ReceiveMessageRequest")
    if wanted_ms is not None:
        request.long_polling_timeout.FromMilliseconds(wanted_ms)
    return request


@pytest.mark.parametrize(
    ("wanted_ms", "left_s", "expected_s"),
    [
        (None, None, 7.0),
        (3_000, None, 3.0),
        (0, None, 0.0),
        (3_000, 100.0, 3.0),
        (3_000, 2.0, 1.5),
        (3_000, 0.1, 0.0),
        (None, 5.0, 4.5),
    ],
)
def test_a_call_is_answered_before_its_deadline(
    wanted_ms: int | None, left_s: float | None, expected_s: float
) -> None:
    found = polling_s(receive(wanted_ms), Call(left_s=left_s), GrpcOptions(), default_ms=7_000)

    assert found == expected_s


def test_nobody_waits_longer_than_anybody_may() -> None:
    options = GrpcOptions(polling_ms_max=10_000)
    for wanted_ms in (10_001, -1):
        with pytest.raises(Refused, match="expected 0 to 10000 ms"):
            polling_s(receive(wanted_ms), Call(), options, default_ms=7_000)


def test_news_of_its_topics_wakes_a_call_again_and_again(world: GrpcWorld) -> None:
    async def run() -> list[bool]:
        woken = []
        with News(world.broker.reading, ["t", "u"]) as news:
            for topic in ("t", "u", "t", "other"):
                waiting = asyncio.ensure_future(news.wait(3_600))
                await asyncio.sleep(0)
                world.inside.send(b"x", topic=topic)
                for _ in range(10):
                    await asyncio.sleep(0)
                woken.append(waiting.done())
            waiting.cancel()
        return woken

    assert world.run(run()) == [True, True, True, False]


def test_what_came_before_the_wait_wakes_it(world: GrpcWorld) -> None:
    async def run() -> None:
        with News(world.broker.reading, ["t"]) as news:
            world.inside.send(b"x")
            await news.wait(3_600)

    world.run(run())


def test_a_call_gives_up_its_place_and_leaves_nothing_behind(world: GrpcWorld) -> None:
    async def run() -> bool:
        with News(world.broker.reading, ["t"]) as news:
            assert world.broker.meter.figures().waiting_reader_count == 1
            assert not news.is_over
            news.give_up()
            await news.wait(3_600)
            return news.is_over

    assert world.run(run())
    assert world.broker.meter.figures().waiting_reader_count == 0
