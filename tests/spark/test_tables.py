"""Batch reads: what waits and what was delivered, and that filters reach the broker."""

import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.spark.conftest import START_MS, Broker, MakeBroker

from dueline.flight import protocol
from dueline.message import Message
from dueline.server.flight.streams import Stream
from dueline.store import restore

pytestmark = pytest.mark.spark


def table(spark: SparkSession, view: str, *brokers: Broker, **options: str) -> DataFrame:
    addresses = ",".join(broker.address for broker in brokers)
    reader = spark.read.format("dueline").option("brokers", addresses).option("view", view)
    return reader.options(**options).load()


def bodies(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.body) for row in frame.select("body").collect())


@pytest.fixture
def tickets(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> list[protocol.Ticket]:
    """What the broker is asked to send."""
    asked: list[protocol.Ticket] = []
    streams = broker.service.streams
    find = streams.find

    def note(ticket: protocol.Ticket) -> Stream:
        asked.append(ticket)
        return find(ticket)

    monkeypatch.setattr(streams, "find", note)
    return asked


def test_pending_has_every_field(spark: SparkSession, broker: Broker) -> None:
    seq = broker.put(b"\x00body", delay_ms=90_061_001, topic="t", queue_id=2, KEYS="k l", TAGS="x")
    broker.put(b"gone", delay_ms=1_000, KEYS="gone")
    broker.store.cancel("gone")

    (row,) = table(spark, "pending", broker).collect()

    assert (row.origin, row.due_ms) == (seq, START_MS + 90_061_001)
    assert (row.topic, row.queue_id, bytes(row.body)) == ("t", 2, b"\x00body")
    assert (row["keys"], row.tags, row.shard) == ("k l", "x", "shard-a")
    assert row.properties["KEYS"] == "k l"
    assert row.store_ms == START_MS
    due = datetime.datetime.fromtimestamp((START_MS + 90_061_001) / 1000, tz=datetime.UTC)
    assert row.deliver_at.astimezone(datetime.UTC) == due


def test_an_empty_table_has_no_rows(spark: SparkSession, broker: Broker) -> None:
    assert table(spark, "pending", broker).count() == 0
    assert table(spark, "messages", broker, topic="none").count() == 0


def test_a_large_table_is_read_in_parts(
    spark: SparkSession, broker: Broker, tickets: list[protocol.Ticket]
) -> None:
    for number in range(40):
        broker.put(b"%d" % number, delay_ms=60_000 * number + 1)

    frame = table(spark, "pending", broker, slice_count_max="4", slice_row_count_min="5")

    assert bodies(frame) == sorted(b"%d" % number for number in range(40))
    asked = [ticket.pending for ticket in tickets if ticket.pending]
    assert len(asked) == 4
    ends = sorted((each.start_ms, each.end_ms) for each in asked)
    assert all(left[1] == right[0] for left, right in pairwise(ends))


def test_due_ranges_and_topics_reach_the_broker(
    spark: SparkSession, broker: Broker, tickets: list[protocol.Ticket]
) -> None:
    for number in range(10):
        broker.put(b"%d" % number, delay_ms=1_000 * number + 1, topic=f"t{number % 2}")
    start_ms, end_ms = START_MS + 2_001, START_MS + 7_001

    frame = table(spark, "pending", broker)
    chosen = frame.where(
        (frame.due_ms >= start_ms) & (frame.due_ms < end_ms) & (frame.topic == "t0")
    )

    assert bodies(chosen) == [b"2", b"4", b"6"]
    (ticket,) = tickets
    assert ticket.pending is not None
    assert ticket.pending.topics == ("t0",)
    assert ticket.pending.start_ms == start_ms
    assert ticket.pending.end_ms <= end_ms + 1


def test_times_reach_the_broker(
    spark: SparkSession, broker: Broker, tickets: list[protocol.Ticket]
) -> None:
    for delay_ms in (1_000, 2_000, 3_000):
        broker.put(b"%d" % delay_ms, delay_ms=delay_ms)
    at = datetime.datetime.fromtimestamp((START_MS + 2_000) / 1000, tz=datetime.UTC)

    chosen = table(spark, "pending", broker).where(f.col("deliver_at") > f.lit(at))

    assert bodies(chosen) == [b"3000"]
    (ticket,) = tickets
    assert ticket.pending is not None
    assert ticket.pending.start_ms >= START_MS + 2_000


def test_a_key_is_looked_up(
    spark: SparkSession, broker: Broker, tickets: list[protocol.Ticket]
) -> None:
    for number in range(5):
        broker.put(b"%d" % number, delay_ms=1_000, KEYS=f"order-{number}")

    frame = table(spark, "pending", broker)

    assert bodies(frame.where("keys = 'order-3'")) == [b"3"]
    assert [ticket.found for ticket in tickets] == [protocol.FindPending(key="order-3")]
    unique_id = frame.where("keys = 'order-1'").first().unique_id  # type: ignore[union-attr]
    assert bodies(frame.where(frame.unique_id == unique_id)) == [b"1"]
    assert bodies(frame.where("keys = 'order-9'")) == []


def test_filters_that_cannot_be_pushed_still_hold(spark: SparkSession, broker: Broker) -> None:
    for number in range(6):
        broker.put(b"%d" % number, delay_ms=1_000 + number, KEYS=f"k{number} z")

    frame = table(spark, "pending", broker)

    assert bodies(frame.where("due_ms % 2 = 0 or topic = 'x'")) == [b"0", b"2", b"4"]
    assert bodies(frame.where("keys like '%3%' and topic in ('orders', 'other')")) == [b"3"]
    assert bodies(frame.where("topic = 'a' and topic = 'b'")) == []


def test_messages_are_what_consumers_read(spark: SparkSession, broker: Broker) -> None:
    for number in range(10):
        broker.store.put(
            Message(
                topic="news",
                body=b"%d" % number,
                queue_id=number % 2,
                properties={"KEYS": f"k{number}", "TAGS": "a"},
            )
        )
        broker.advance(1_000)
    broker.store.put(Message(topic="other", body=b"x"))

    frame = table(spark, "messages", broker, topic="news")

    rows = frame.orderBy("queue_id", "queue_offset").collect()
    assert [(row.queue_id, row.queue_offset, bytes(row.body)) for row in rows] == [
        (queue_id, offset, b"%d" % (2 * offset + queue_id))
        for queue_id in range(2)
        for offset in range(5)
    ]
    assert (rows[0].topic, rows[0]["keys"], rows[0].tags, rows[0].store_ms) == (
        "news",
        "k0",
        "a",
        START_MS,
    )


def test_delivered_messages_know_when_they_were_due(spark: SparkSession, broker: Broker) -> None:
    broker.put(b"in time", delay_ms=1_000)
    broker.put(b"late", delay_ms=2_000)
    broker.store.put(Message(topic="orders", body=b"level", properties={"DELAY": "1"}))
    broker.store.put(Message(topic="orders", body=b"now"))
    deliver(broker, until_ms=START_MS + 1_500)
    broker.advance(5_000)
    deliver(broker, until_ms=START_MS + 5_000)

    rows = table(spark, "messages", broker, topic="orders").collect()

    assert {bytes(row.body): (row.due_ms, row.late_ms) for row in rows} == {
        b"in time": (START_MS + 1_000, 0),
        b"late": (START_MS + 2_000, 3_000),
        b"level": (None, None),
        b"now": (None, None),
    }


def deliver(broker: Broker, *, until_ms: int) -> None:
    """Carry over what is due by then, as a pipeline does."""
    corner = broker.store.next_corner(until_ms=until_ms, row_count_max=1_000)
    window = broker.store.read_window(broker.store.window(corner))
    broker.store.deliver([restore.deliveries(window)])
    broker.store.open_gate()


def test_queues_offsets_and_times_reach_the_broker(
    spark: SparkSession, broker: Broker, tickets: list[protocol.Ticket]
) -> None:
    for number in range(10):
        broker.store.put(Message(topic="news", body=b"%d" % number, queue_id=number % 2))
        broker.advance(1_000)

    frame = table(spark, "messages", broker)

    chosen = frame.where("topic = 'news' and queue_id = 1 and queue_offset between 1 and 2")
    assert bodies(chosen) == [b"3", b"5"]
    assert [ticket.messages for ticket in tickets] == [
        protocol.ReadMessages(topic="news", queue_id=1, start=1, end=3)
    ]
    tickets.clear()
    late = frame.where(f"topic = 'news' and store_ms >= {START_MS + 8_000}")
    assert bodies(late) == [b"8", b"9"]
    assert [ticket.messages.start for ticket in tickets if ticket.messages] == [4, 4]


def test_views_must_be_named(spark: SparkSession, broker: Broker) -> None:
    plain = spark.read.format("dueline").option("brokers", broker.address)

    with pytest.raises(PySparkException, match="view=pending"):
        plain.load().collect()
    with pytest.raises(PySparkException, match="expected a topic"):
        plain.option("view", "messages").load().collect()


def test_all_shards_are_one_table(
    spark: SparkSession, make_broker: MakeBroker, tmp_path: Path
) -> None:
    one, two = make_broker("one"), make_broker("two")
    one.put(b"1", delay_ms=1_000)
    two.put(b"2", delay_ms=1_000)

    rows = table(spark, "pending", one, two).select("shard", "body").collect()

    assert sorted((row.shard, bytes(row.body)) for row in rows) == [("one", b"1"), ("two", b"2")]
