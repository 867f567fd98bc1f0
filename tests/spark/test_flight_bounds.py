"""The Flight port under requests that are too large, and streams that nobody reads."""

import pytest
from tests.spark.conftest import Broker

from dueline.broker.pipeline import Pipeline, views
from dueline.errors import LimitExceeded, Unavailable
from dueline.flight import FlightClient, protocol
from dueline.server.flight import FlightDoor
from dueline.server.flight import door as service_module
from dueline.store.schema import SCHEDULE_SCHEMA

FAR_MS = 1 << 60


def test_requests_have_a_bounded_size(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "ACTION_SIZE_BYTES_MAX", 100)
    monkeypatch.setattr(service_module, "TICKET_SIZE_BYTES_MAX", 100)
    find = protocol.FindPending(key="k" * 100)

    with broker.client() as client:
        with pytest.raises(LimitExceeded, match="action 'cancel'"):
            client.call(protocol.Cancel(keys=("k" * 100,)), protocol.Answers)
        with pytest.raises(LimitExceeded, match="ticket"):
            list(client.read(protocol.Ticket(found=find)))
        with pytest.raises(LimitExceeded, match="command"):
            client.stage("t" * 100, SCHEDULE_SCHEMA, [])
        assert client.describe().shard == broker.shard


def test_streams_that_nobody_reads_do_not_take_all_places(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "STREAM_COUNT_MAX", 2)
    monkeypatch.setattr(service_module, "STREAM_WAIT_S", 0.05)
    monkeypatch.setattr(views, "CHUNK_BYTES", 1 << 20)
    service = FlightDoor(Pipeline(broker.store), shard="other")
    service.start()
    count = 60
    for number in range(count):
        broker.put(bytes(1 << 20), delay_ms=1 + number)
    everything = protocol.Ticket(pending=protocol.ReadPending(start_ms=0, end_ms=FAR_MS))

    with FlightClient(f"127.0.0.1:{service.port}") as client:
        unread = [client.read(everything) for _ in range(2)]
        sizes = [next(each).num_rows for each in unread]
        with pytest.raises(Unavailable, match="streams"):
            list(client.read(everything))
        rows = [sum(batch.num_rows for batch in each) for each in unread]
        assert [first + rest for first, rest in zip(sizes, rows, strict=True)] == [count] * 2

        read_again = sum(batch.num_rows for batch in client.read(everything))
    service.stop()

    assert read_again == count
