import asyncio
import threading
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.unit.server.local import running, small_config
from tests.waiting import PATIENCE_S

from dueline.errors import LimitExceeded, Unavailable
from dueline.flight.operators import Report, Reported
from dueline.web import gateway as gateways
from dueline.web.gateway import Gateway


def test_a_broker_that_was_away_is_found_again_at_once(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"

    async def ask(gateway: Gateway) -> Reported:
        return await gateway.ask(Report(), Reported)

    gateway = Gateway(address)
    with pytest.raises(Unavailable, match=address):
        asyncio.run(ask(gateway))
    with running(small_config(tmp_path, **{"listen.flight": address})):
        report = asyncio.run(ask(gateway))
    gateway.close()

    assert report.pending == 0


def test_only_so_many_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "WAITING_COUNT_MAX", 2)
    go = threading.Event()
    gateway = Gateway("127.0.0.1:1")

    async def crowd() -> None:
        first = [asyncio.create_task(gateway.run(lambda _: go.wait(PATIENCE_S))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(LimitExceeded, match="at most 2"):
            await gateway.run(lambda _: None)
        go.set()
        assert await asyncio.gather(*first) == [True, True]

    asyncio.run(crowd())
    gateway.close()
