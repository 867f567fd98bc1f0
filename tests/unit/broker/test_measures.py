from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.server.local import carry, outgoing, running, send, small_config

from dueline.broker import measures
from dueline.server.process import BrokerProcess


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(small_config(tmp_path)) as broker:
        yield broker


def test_what_waits_is_counted_by_horizon_and_topic(broker: BrokerProcess) -> None:
    for topic, delay_ms in (("a", 30_000), ("a", 5_000_000), ("b", 500_000_000)):
        send(broker, outgoing("x", topic=topic, TIMER_DELAY_MS=str(delay_ms)))

    found = broker.broker.measures.snapshot()

    assert list(found.horizons.values()) == [1, 1, 1, 2, 3, 3, 3]
    pending = {each.topic: each.pending_count for each in found.topics if each.pending_count}
    assert pending == {"a": 2, "b": 1}
    assert found.runway_ms is not None
    assert found.runway_ms <= 30_000
    carry(broker.store)
    later = broker.broker.measures.snapshot().runway_ms
    assert later is not None
    assert later > 4_000_000


def test_a_group_is_as_far_behind_as_its_next_message_is_old(broker: BrokerProcess) -> None:
    send(broker, outgoing("a"), outgoing("b"), outgoing("c"))
    broker.broker.offsets.set("billing", "orders", {0: 1})
    broker.broker.offsets.set("done", "orders", {0: 3})
    broker.broker.offsets.set("elsewhere", "nothing", {0: 3})

    found = {each.group: each for each in broker.broker.measures.snapshot().places}

    assert set(found) == {"billing", "done"}
    assert (found["billing"].lag, found["done"].lag, found["done"].lag_ms) == (2, 0, 0)
    assert 0 <= found["billing"].lag_ms < 600_000


def test_lists_have_a_bound(broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "ROW_COUNT_MAX", 2)
    send(broker, outgoing("x", topic="busy", TIMER_DELAY_MS="900000"))

    found = broker.broker.measures.snapshot()

    assert (len(found.topics), found.topics[0].topic, found.is_cut) == (2, "busy", True)
