"""When a batch is started: for what is urgent, for a crowd, and now and then for the rest."""

import threading

import pytest
from tests.spark.conftest import START_MS, Broker, next_window
from tests.unit.server.local import carry
from tests.waiting import wait_until

from dueline.broker.pipeline import windows


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


def test_what_is_not_urgent_is_carried_over_in_few_batches(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.put(b"soon", delay_ms=21_000)
    broker.put(b"later", delay_ms=29_000)

    with broker.client() as client:
        assert next_window(client, ahead_ms=30_000, lead_ms=1_000) is None, "the runway is long"
        broker.advance(1_000)
        end = next_window(client, ahead_ms=30_000, lead_ms=1_000)
        assert end is not None
        assert end.due_ms == START_MS + 31_000, "a third of it is used up: all of it is filled"
        again = next_window(client, ahead_ms=30_000, lead_ms=1_000)
        assert again is None, "so soon after a batch only what is urgent is a reason for another"
        monkeypatch.setattr(windows, "REFILLS_PER_AHEAD", 1_000_000_000)
        assert next_window(client, ahead_ms=30_000, lead_ms=1_000) is not None


def test_a_full_gate_lets_only_urgent_messages_come(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.put(b"first", delay_ms=3_000)
    carry(broker.store, ahead_ms=5_000)
    broker.put(b"second", delay_ms=3_500)
    monkeypatch.setattr(windows, "GATE_ROWS_MAX", 0)

    with broker.client() as client:
        assert next_window(client, lead_ms=1_000) is None
        broker.advance(2_600)
        assert next_window(client, lead_ms=1_000) is not None


def test_before_the_pipeline_stops_its_runway_is_filled(broker: Broker) -> None:
    broker.put(b"soon", delay_ms=25_000)
    broker.put(b"late", delay_ms=31_000)
    filled: list[bool] = []
    filler = threading.Thread(target=lambda: filled.append(broker.service.fill(30_000, 60.0)))

    filler.start()
    with broker.client() as client:
        end = wait_until(
            lambda: next_window(client, ahead_ms=30_000, lead_ms=1_000), what="work without urgency"
        )
    assert end.due_ms == START_MS + 30_000
    assert filler.is_alive(), "it waits for the batch"
    carry(broker.store, ahead_ms=30_000)
    filler.join()

    assert filled == [True]
    assert broker.store.pending_count() == 1, "and leaves alone what is due after it"


def test_a_runway_that_nobody_fills_does_not_hold_up_the_stop(broker: Broker) -> None:
    broker.put(b"soon", delay_ms=10)

    assert broker.service.fill(30_000, 0.0) is False
