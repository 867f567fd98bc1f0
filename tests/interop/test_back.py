"""Real Apache brokers open a store that Dueline wrote, as docs/migration.md says.

A real client sends to Dueline, ordinary and delayed messages. Dueline is closed, the real broker is
started on a copy of its files, and a real consumer reads every message as it was sent, in the
queues and at the offsets that Dueline gave them.
"""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from tests.interop.apache import Apache
from tests.interop.clients import Client
from tests.interop.remoting import Connection
from tests.remoting.serving import SMALL, RunningBroker
from tests.waiting import wait_until

from dueline.client import Producer
from dueline.message import decode_properties
from dueline.store import record as records
from dueline.wire import RequestCode
from dueline.wire.headers import QueryConsumerOffsetRequest

TOPIC = "back"
QUEUES = range(4)
FIRST = 37  # where the queues begin: in the middle of a file, as after an import
SETTINGS = {
    "mappedFileSizeCommitLog": str(SMALL.commit_segment_size_bytes),
    "mappedFileSizeConsumeQueue": str(20 * SMALL.queue_file_units),
}

Place = tuple[int, int]


def places(broker: RunningBroker, count: int) -> dict[str, Place]:
    """Queue and offset of every message that consumers see, once there are so many."""

    def read() -> dict[str, Place] | None:
        found = {}
        for queue_id in QUEUES:
            for view in broker.store.read(TOPIC, queue_id, FIRST, count_max=100).records:
                record = records.decode(bytes(view))
                unique_id = decode_properties(record.properties)["UNIQ_KEY"]
                found[unique_id] = (queue_id, record.queue_offset)
        return found if len(found) == count else None

    return wait_until(read, what=f"{count} messages")


@pytest.fixture(scope="module")
def written(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, str], dict[str, Place]]:
    """The folder of a closed Dueline; bodies by unique id, as they were sent; and places."""
    folder = tmp_path_factory.mktemp("dueline")
    with RunningBroker(folder / "data") as broker:
        broker.store.begin_queues({(TOPIC, queue_id): FIRST for queue_id in QUEUES})
        client = Client(kind="java49", name_server=broker.name_server, folder=folder)
        sent = client.send(topic=TOPIC, count=16, level="0,2,0,1", tag="t", body_size=5_000)
        bodies = {event["id"]: f"message-{event['index']}".ljust(5_000, ".") for event in sent}
        with Producer(broker.name_server) as producer:
            # One that is in the log before it is due, and one that overtakes it.
            later = producer.send(TOPIC, b"later", queue_id=0, delay=timedelta(seconds=3), tag="t")
            broker.carry_over(ahead_ms=60_000)
            sooner = producer.send(TOPIC, "früher".encode(), queue_id=0, tag="t")
        found = places(broker, 18)
        broker.offsets.set("halfway", TOPIC, dict.fromkeys(QUEUES, FIRST + 2))
        assert (broker.store.pending_count(), broker.store.gate_row_count) == (0, 0)
        positions = [broker.store.query(TOPIC, one.id)[0].position for one in (later, sooner)]
    assert positions[0] < positions[1]
    assert found[later.id] > found[sooner.id], "the queue's order is not the log's"
    return folder / "data", {**bodies, later.id: "later", sooner.id: "früher"}, found


@pytest.mark.parametrize("release", ["apache49", pytest.param("apache5", marks=pytest.mark.soak)])
def test_apache_broker_opens_our_store(
    release: str, written: tuple[Path, dict[str, str], dict[str, Place]], tmp_path: Path
) -> None:
    data, bodies, places = written
    for name in ("commitlog", "consumequeue", "config"):
        shutil.copytree(data / "store" / name, tmp_path / "store" / name)
    shutil.copy(data / "consumerOffset.json", tmp_path / "store" / "config")

    with Apache.start(release, tmp_path, settings=SETTINGS) as apache:
        with Producer(apache.name_server) as producer:
            new = producer.send(TOPIC, b"new", queue_id=1)
        client = Client(kind="java49", name_server=apache.name_server, folder=tmp_path)
        with client.start("consume", topic=TOPIC, group="everything") as consumer:
            received = consumer.wait_events("received", 19)
        request = QueryConsumerOffsetRequest(consumer_group="halfway", topic=TOPIC, queue_id=3)
        with Connection(apache.broker) as connection:
            offset = connection.call(RequestCode.QUERY_CONSUMER_OFFSET, request.encode()).ext

    found = {event["id"]: event for event in received}
    assert len(found) == len(received) == 19
    assert found.pop(new.id)["queueOffset"] == new.queue_offset
    assert new.queue_offset == 1 + max(at for queue_id, at in places.values() if queue_id == 1)
    assert {one: event["body"] for one, event in found.items()} == bodies
    assert {one: (event["queue"], event["queueOffset"]) for one, event in found.items()} == places
    assert {event["tags"] for event in found.values()} == {"t"}
    assert sorted(
        event["properties"]["index"] for event in found.values() if "index" in event["properties"]
    ) == sorted(map(str, range(16)))
    assert offset["offset"] == str(FIRST + 2)
