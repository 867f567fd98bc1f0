"""A broker without its protocols: a store and its Flight service, on a clock that tests move."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dueline.broker.pipeline import Pipeline
from dueline.clock import Clock
from dueline.flight import FlightClient, protocol
from dueline.message import Message, decode_properties
from dueline.server.flight import FlightDoor
from dueline.spark.session import SessionOptions, open_session
from dueline.store import Record, Store, StoreOptions
from dueline.store import record as records

START_MS = 1_700_000_000_000


class Broker:
    """One shard; `now_ms` is its time."""

    def __init__(self, path: Path, shard: str, options: StoreOptions) -> None:
        self.path = path
        self.shard = shard
        self.options = options
        self.now_ms = START_MS
        self._open("127.0.0.1:0")

    def _open(self, address: str) -> None:
        self.store = Store.open(self.path, self.options, clock=Clock(lambda: self.now_ms))
        self.serve_at(address)

    def serve_at(self, address: str) -> None:
        self.service = FlightDoor(Pipeline(self.store), shard=self.shard, address=address)
        self.service.start()
        self.address = f"127.0.0.1:{self.service.port}"

    def restart(self) -> None:
        """Stop and start again, on the same port and files."""
        self.close()
        self._open(self.address)

    def close(self) -> None:
        self.service.stop()
        self.store.close()

    def client(self) -> FlightClient:
        return FlightClient(self.address)

    def put(self, body: bytes, *, delay_ms: int, topic: str = "orders", **given: object) -> int:
        """Put a delayed message; returns its acceptance number."""
        properties = {"TIMER_DELAY_MS": str(delay_ms)}
        queue_id = given.pop("queue_id", 0)
        assert isinstance(queue_id, int)
        properties.update({name: str(value) for name, value in given.items()})
        message = Message(topic=topic, body=body, queue_id=queue_id, properties=properties)
        result = self.store.put(message)
        assert result.seq is not None
        return result.seq

    def advance(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.store.open_gate()

    def visible(self, topic: str = "orders", queue_id: int = 0) -> list[Record]:
        """What a consumer of a queue can read now, in order."""
        self.store.open_gate()
        found: list[Record] = []
        start, end = self.store.offset_range(topic, queue_id)
        while start < end:
            result = self.store.read(topic, queue_id, start, count_max=1000)
            found += [records.decode(view) for view in result.records]
            start = result.next_offset
        return found

    def bodies(self, topic: str = "orders", queue_id: int = 0) -> list[bytes]:
        return [record.body for record in self.visible(topic, queue_id)]


def properties_of(record: Record) -> dict[str, str]:
    return decode_properties(record.properties)


MakeBroker = Callable[..., Broker]


def next_window(client: FlightClient, **given: Any) -> protocol.WindowCorner | None:
    request = {"ahead_ms": 5_000, "lead_ms": 5_000, "row_count_max": 1000, "wait_ms": 0, **given}
    return client.call(protocol.NextWindow(**request), protocol.WindowEnd).end


@pytest.fixture
def make_broker(tmp_path: Path) -> Iterator[MakeBroker]:
    brokers: list[Broker] = []

    def make(shard: str = "shard-a", options: StoreOptions | None = None) -> Broker:
        small = StoreOptions(commit_segment_size_bytes=1 << 24, delay_segment_size_bytes=1 << 24)
        brokers.append(Broker(tmp_path / shard, shard, options or small))
        return brokers[-1]

    yield make
    for broker in brokers:
        broker.close()


@pytest.fixture
def broker(make_broker: MakeBroker) -> Broker:
    return make_broker()


@pytest.fixture(scope="package")
def spark() -> Iterator[SparkSession]:
    """One session for all tests: starting it takes longer than most of them."""
    # Functions of a transform's module are imported by the workers, as a user's would be.
    root = str(Path(__file__).resolve().parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    # A DataFrame of a list travels over a socket that PySpark leaves open if files are encrypted.
    conf = {"spark.log.level": "FATAL", "spark.io.encryption.enabled": "false"}
    session = open_session(SessionOptions(master="local[2]", conf=conf))
    yield session
    session.stop()
