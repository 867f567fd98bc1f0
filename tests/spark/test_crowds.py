"""When a batch is started: at once for a crowd, and earlier for one that takes long."""

import pytest
from tests.spark.conftest import START_MS, Broker, next_window

from dueline.server import windows


def test_a_crowd_does_not_wait(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "CROWD_ROWS", 2)
    for number in range(2):
        broker.put(b"%d" % number, delay_ms=4_000)

    with broker.client() as client:
        assert next_window(client, lead_ms=1_000) is None
        broker.put(b"2", delay_ms=4_000)
        end = next_window(client, lead_ms=1_000)

    assert end is not None
    assert end.due_ms == START_MS + 5_000, "and the batch takes all of it"


def test_a_crowd_that_takes_long_is_carried_over_earlier_and_in_small_batches(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "FAR_ROWS", 4)
    monkeypatch.setattr(windows, "FAR_BATCH_ROWS", 3)
    for number in range(4):
        broker.put(b"%d" % number, delay_ms=50_000 + number)

    with broker.client() as client:
        assert next_window(client, lead_ms=1_000) is None
        broker.put(b"4", delay_ms=61_000)
        assert next_window(client, lead_ms=1_000) is None, "not within a minute"
        broker.put(b"urgent", delay_ms=10)
        end = next_window(client, lead_ms=1_000)

    assert end is not None
    assert (end.due_ms, end.seq) == (START_MS + 50_001, 1), "what is urgent goes first"
