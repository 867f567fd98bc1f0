"""Works side by side, whoever waits for them."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from tests.unit.client.scripted import Scripted
from tests.waiting import PATIENCE_S

from dueline.client.connection import Dialling
from dueline.client.transport import AsyncTransport


def test_no_more_than_so_many_at_a_time() -> None:
    under_way: set[int] = set()
    most = 0

    async def work(number: int) -> None:
        nonlocal most
        under_way.add(number)
        most = max(most, len(under_way))
        await asyncio.sleep(0)
        under_way.remove(number)

    works = [partial(work, number) for number in range(10)]
    asyncio.run(AsyncTransport().side_by_side(works, count_max=3))

    assert (most, under_way) == (3, set())


@pytest.mark.parametrize("count", [1, 5])
def test_all_who_ask_for_an_address_get_one_connection(count: int) -> None:
    async def run() -> int:
        transport, how = AsyncTransport(), Dialling(timeout_s=PATIENCE_S)
        async with Scripted({}).running() as address:
            asked = [transport.connection(address, how) for _ in range(count)]
            connections = {*await asyncio.gather(*asked)}
            await transport.disconnect()
            assert not any(connection.is_open for connection in connections)
            return len(connections)

    assert asyncio.run(run()) == 1
