"""Arrow data that no library would write, against a broker that is a process of its own."""

import random
import re
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.serve.conftest import Served, served
from tests.serve.raw_flight import Message, RawFlight, messages_of

from dueline.errors import BrokerError, InvalidRequest
from dueline.flight import FlightClient, protocol
from dueline.store.schema import SCHEDULE_SCHEMA, routed_schema

SEED = 20_261_116
MUTANT_COUNT = 300

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("hostile") / "data", "--no-spark") as serving:
        assert serving.address
        yield serving
        assert serving.process.poll() is None, serving.output
        serving.stop()


def schedule(**columns: Any) -> pa.RecordBatch:
    """Three good rows, but for the columns given; every column has offsets of its own."""
    good = {
        "topic": pa.array(["t", "tt", "ttt"]),
        "body": pa.array([b"body", b"b", b"body"]),
        "delay_ms": pa.array([10_000] * 3, pa.int64()),
        "keys": pa.array(["key-1", "key", "k"]),
        "properties": pa.array(
            [[("color", "red"), ("size", "4")], [("color", "blue")], []],
            SCHEDULE_SCHEMA.field("properties").type,
        ),
    }
    return _batch(SCHEDULE_SCHEMA, {**good, **columns})


def routed(**columns: Any) -> pa.RecordBatch:
    """Three rows of a sink; their bodies and properties were changed."""
    good = {
        "origin": pa.array([0, 1, 2], pa.int64()),
        "due_ms": pa.array([1, 2, 3], pa.int64()),
        "topic": pa.array(["t", "tt", "ttt"]),
        "queue_id": pa.array([0] * 3, pa.int32()),
        "body": pa.array([b"x" * 100] * 3),
        "properties": pa.array(
            [[("color", "red"), ("size", "4")], [("color", "blue")], []],
            SCHEDULE_SCHEMA.field("properties").type,
        ),
    }
    return _batch(routed_schema(["body", "properties"]), {**good, **columns})


def _batch(schema: pa.Schema, columns: dict[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [columns.get(field.name, pa.nulls(3, field.type)) for field in schema], schema=schema
    )


def patched(batch: pa.RecordBatch, old: bytes, new: bytes) -> list[Message]:
    """A good batch's messages with some bytes changed wherever they stand."""
    first, (metadata, body) = messages_of(batch)
    assert old in metadata or old in body
    return [first, (metadata.replace(old, new), body.replace(old, new))]


def offsets(*numbers: int) -> bytes:
    return struct.pack("<4i", *numbers)


FAR = 1 << 30
TOPIC, BODY, KEYS, MAP = offsets(0, 1, 3, 6), offsets(0, 4, 5, 9), offsets(0, 5, 8, 9), (0, 2, 3, 3)
CHANGED = offsets(0, 100, 200, 300)
ROWS = struct.pack("<q", 3)
CASES = {
    "topics beyond the text": patched(schedule(), TOPIC, offsets(0, FAR, FAR, FAR)),
    "one topic beyond the text": patched(schedule(), TOPIC, offsets(0, FAR, 3, 6)),
    "topics that go back": patched(schedule(), TOPIC, offsets(0, 6, 1, 6)),
    "topics before the text": patched(schedule(), TOPIC, offsets(-FAR, 1, 3, 6)),
    "a topic that is not UTF-8": patched(schedule(), b"tttttt", b"tt\xff\xfett"),
    "keys that are not UTF-8": patched(schedule(), b"key-1key", b"key\xc3\x28key"),
    "keys beyond the text": patched(schedule(), KEYS, offsets(0, 5, 8, FAR)),
    "bodies beyond the bytes": patched(schedule(), BODY, offsets(0, 4, 5, FAR)),
    "a body that goes back": patched(schedule(), BODY, offsets(0, 9, 5, 9)),
    "map entries beyond the end": patched(schedule(), offsets(*MAP), offsets(0, 2, 3, FAR)),
    "map entries that go back": patched(schedule(), offsets(*MAP), offsets(0, 3, 1, 3)),
    "names beyond the text": patched(schedule(), offsets(0, 5, 9, 14), offsets(0, FAR, 9, 14)),
    "more rows than bytes": patched(schedule(), ROWS, struct.pack("<q", 1 << 20)),
    "rows without end": patched(schedule(), ROWS, struct.pack("<q", 1 << 40)),
    "fewer rows than none": patched(schedule(), ROWS, struct.pack("<q", -3)),
    "nulls that are not there": patched(schedule(), ROWS + bytes(8), ROWS + b"\2" + bytes(7)),
    "a null body": messages_of(schedule(body=pa.array([b"a", None, b"c"]))),
    "changed bodies beyond the bytes": patched(routed(), CHANGED, offsets(0, FAR, FAR, FAR)),
    "one changed body beyond the bytes": patched(routed(), CHANGED, offsets(0, FAR, 200, 300)),
    "changed entries beyond the end": patched(routed(), offsets(*MAP), offsets(0, 2, 3, FAR)),
    "changed entries before the start": patched(routed(), offsets(*MAP), offsets(-FAR, 2, 3, 3)),
    "a null origin": messages_of(routed(origin=pa.array([0, None, 2], pa.int64()))),
    "a null due time": messages_of(routed(due_ms=pa.array([0, None, 2], pa.int64()))),
    "more routed rows than bytes": patched(routed(), ROWS, struct.pack("<q", 1 << 20)),
}


@pytest.mark.parametrize("name", CASES)
def test_a_batch_that_makes_no_sense_is_refused_and_the_broker_lives(
    broker: Served, name: str
) -> None:
    with RawFlight(broker.address) as peer:
        refusal = peer.put(name, CASES[name])

    assert re.search("rows: (\\w+: )?expected", refusal), refusal
    assert broker.report().sent == 0
    with FlightClient(broker.address) as client:
        discarded = client.call(protocol.Discard(tokens=(name,)), protocol.Discarded)
    assert discarded.token_count == 0


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int32(), pa.string()),
        pa.string_view(),
        pa.large_string(),
        pa.run_end_encoded(pa.int32(), pa.string()),
    ],
    ids=str,
)
def test_other_kinds_of_columns_are_refused(broker: Served, kind: pa.DataType) -> None:
    topics = pa.array(["t", "t", "t"])
    encoded = pc.run_end_encode(topics) if "run" in str(kind) else topics.cast(kind)
    good = schedule()
    batch = good.set_column(0, "topic", encoded)

    with FlightClient(broker.address) as client, pytest.raises(InvalidRequest, match="columns"):
        client.stage(f"kind {kind}", batch.schema, [batch])


def test_changed_bytes_are_refused_or_read_and_the_broker_lives(broker: Served) -> None:
    chance = random.Random(SEED)
    seeds = [messages_of(schedule()), messages_of(routed())]

    with RawFlight(broker.address) as peer, FlightClient(broker.address) as client:
        for number in range(MUTANT_COUNT):
            token = f"mutant-{number}"
            refusal = peer.put(token, mutant(chance, chance.choice(seeds)))
            assert broker.process.poll() is None, f"seed {SEED}, number {number}: {refusal}"
            if not refusal:
                try:
                    client.call(protocol.PutRows(tokens=(token,)), protocol.RowsPut)
                except BrokerError:
                    client.call(protocol.Discard(tokens=(token,)), protocol.Discarded)

    assert broker.report().pid
    assert "a Flight call failed" not in broker.output


def mutant(chance: random.Random, messages: list[Message]) -> list[Message]:
    """A few bytes of the second message changed; sometimes of the schema's."""
    at = 1 if chance.random() < 0.9 else 0
    changed = list(messages)
    parts = [bytearray(part) for part in messages[at]]
    for _ in range(chance.randrange(1, 6)):
        part = chance.choice([part for part in parts if part])
        place = chance.randrange(len(part))
        part[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
    changed[at] = (bytes(parts[0]), bytes(parts[1]))
    return changed
