"""A broker in this process, without Spark: its pipeline is one function that tests call."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.remoting.peer import Peer

from dueline.config import Config, load
from dueline.server.process import BrokerProcess
from dueline.store import Store
from dueline.store import record as records
from dueline.store.restore import deliveries
from dueline.wire import RequestCode


def small_config(folder: Path, **flags: str) -> Config:
    """A free port and small files."""
    small = {
        "data": str(folder),
        "listen.flight": "127.0.0.1:0",
        "listen.name_server": "127.0.0.1:0",
        "listen.remoting": "127.0.0.1:0",
        "listen.grpc": "off",
        "listen.http": "off",
        "store.commit_segment_size": "1MiB",
        "store.delay_segment_size": "1MiB",
        "store.queue_file_units": "1000",
    }
    return load(flags={**small, **flags}).config


@contextmanager
def running(config: Config) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(config)
    broker.start()
    try:
        yield broker
    finally:
        broker.stop()


def carry(store: Store, *, ahead_ms: int = 60_000) -> int:
    """Do what the pipeline does: carry over what is due within `ahead_ms`."""
    until_ms = store.clock.now_ms() + ahead_ms
    window = store.window(store.next_corner(until_ms=until_ms, row_count_max=100_000))
    return store.deliver([deliveries(store.read_window(window))]).delivered_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to send; its properties say when it is due."""

    topic: str
    body: bytes
    queue_id: int
    properties: dict[str, str]


def outgoing(body: str, *, topic: str = "orders", queue_id: int = 0, **properties: str) -> Outgoing:
    return Outgoing(topic=topic, body=body.encode(), queue_id=queue_id, properties=properties)


def connect(broker: BrokerProcess) -> Peer:
    """A connection to the port of 4.x clients."""
    listener = broker.remoting_options.broker
    assert listener is not None
    return Peer(f"127.0.0.1:{listener.port}")


def send(broker: BrokerProcess, *messages: Outgoing) -> list[str | None]:
    """Send with the 4.x protocol; returns why each was refused, or None if it was taken."""
    with connect(broker) as peer:
        return send_by(peer, *messages)


def send_by(peer: Peer, *messages: Outgoing) -> list[str | None]:
    opaques = [
        peer.send(
            RequestCode.SEND_MESSAGE_V2,
            peer.send_ext(each.topic, queue_id=each.queue_id, properties=each.properties),
            each.body,
        )
        for each in messages
    ]
    answers = [peer.wait_answer(opaque) for opaque in opaques]
    return [None if answer.code == 0 else answer.remark for answer in answers]


def visible_bodies(broker: BrokerProcess, topic: str = "orders", queue_id: int = 0) -> list[str]:
    """What a consumer of a queue can read now, from the start."""
    found: list[str] = []
    offset = 0
    while True:
        result = broker.store.read(topic, queue_id, offset, count_max=1_000)
        if not result.records:
            return found
        found += [records.decode(view).body.decode() for view in result.records]
        offset = result.next_offset
