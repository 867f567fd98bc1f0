"""The delivery query on a real session: once each, never early, whatever is lost on the way.

The brokers' clocks stand still unless a test moves them. A query with `availableNow` ends when
everything that is due soon is delivered, so no test waits for the time.
"""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.spark.conftest import START_MS, Broker, MakeBroker, properties_of
from tests.waiting import PATIENCE_S

from dueline.errors import InvalidRequest
from dueline.message import DEAD_LETTER_TOPIC
from dueline.spark import delivery
from dueline.spark.delivery import DeliveryOptions, query_of, start
from dueline.store.states import DROPPED

pytestmark = pytest.mark.spark


class Pipeline:
    """The delivery query over some brokers, run to the end of what is due."""

    def __init__(self, spark: SparkSession, checkpoint: Path, *brokers: Broker) -> None:
        self.spark = spark
        self.checkpoint = checkpoint
        self.brokers = ",".join(broker.address for broker in brokers)

    def options(self, transform: str | None = None, **source: str) -> DeliveryOptions:
        return DeliveryOptions(
            brokers=self.brokers,
            checkpoint=str(self.checkpoint),
            transform=f"tests.spark.transforms:{transform}" if transform else None,
            source={"ahead": "1h", "slice_row_count_min": "1", **source},
        )

    def run(self, transform: str | None = None, **source: str) -> None:
        query = query_of(self.spark, self.options(transform, **source))
        assert query.trigger(availableNow=True).start().awaitTermination(PATIENCE_S)


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path, broker: Broker) -> Pipeline:
    return Pipeline(spark, tmp_path / "checkpoint", broker)


@pytest.mark.parametrize("transport", ["files", "flight"])
@pytest.mark.parametrize("transform", [None, "keep_all", "shuffle", "with_function"])
def test_messages_arrive_as_they_were_sent(
    broker: Broker, pipeline: Pipeline, transform: str | None, transport: str
) -> None:
    sent = {}
    for number in range(60):
        body = b"\x00\xff body %d" % number * (number % 5)
        properties = {"KEYS": f"k{number} x", "TAGS": f"tag{number % 3}", "größe": "ü" * number}
        properties = dict(list(properties.items())[: number % 4])
        topic, queue_id = f"topic{number % 4}", number % 3
        seq = broker.put(
            body, delay_ms=1_000 + number % 7, topic=topic, queue_id=queue_id, **properties
        )
        sent[seq] = (topic, queue_id, body, properties, START_MS + 1_000 + number % 7)

    pipeline.run(transform, transport=transport)
    broker.advance(10_000)

    found = {}
    for topic, queue_id in broker.store.queues():
        for record in broker.visible(topic, queue_id):
            properties = properties_of(record)
            mine = {
                name: properties[name] for name in ("KEYS", "TAGS", "größe") if name in properties
            }
            assert record.seq is not None
            assert record.seq not in found
            found[record.seq] = (topic, queue_id, record.body, mine, record.store_ms)
    assert found == sent


def test_nothing_is_seen_before_it_is_due(broker: Broker, pipeline: Pipeline) -> None:
    for delay_ms in (3_000, 1_000, 2_000):
        broker.put(b"%d" % delay_ms, delay_ms=delay_ms)

    pipeline.run()

    seen = []
    for _ in range(8):
        seen.append(len(broker.bodies()))
        broker.advance(500)
    assert seen == [0, 0, 1, 1, 2, 2, 3, 3]
    assert broker.bodies() == [b"1000", b"2000", b"3000"]


def test_a_queue_is_in_order_of_due_time_and_acceptance(broker: Broker, pipeline: Pipeline) -> None:
    dues = [(delay_ms * 37) % 10 + 1 for delay_ms in range(90)]
    for number, delay_ms in enumerate(dues):
        broker.put(b"%d" % number, delay_ms=delay_ms)

    pipeline.run(row_count_max="30", slice_count_max="3")
    broker.advance(100)

    expected = sorted(range(90), key=lambda number: (dues[number], number))
    assert broker.bodies() == [b"%d" % number for number in expected]


@pytest.mark.parametrize("transport", ["files", "flight"])
def test_large_messages_arrive(broker: Broker, pipeline: Pipeline, transport: str) -> None:
    """Larger than gRPC's and Spark's usual messages: the largest that a broker accepts."""
    bodies = [bytes([number]) * (4 << 20) for number in range(12)]
    for body in bodies:
        broker.put(body, delay_ms=1)

    pipeline.run(transport=transport)
    broker.advance(1)

    assert broker.bodies() == bodies


def test_progress_is_told(
    broker: Broker, pipeline: Pipeline, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        broker.put(b"a", delay_ms=1)
    query = query_of(pipeline.spark, pipeline.options()).trigger(availableNow=True).start()
    assert query.awaitTermination(PATIENCE_S)

    with caplog.at_level("INFO", logger="dueline.delivery"):
        delivery.report(query)

    assert "batch 0: 3 rows in" in caplog.text


def test_what_is_not_due_soon_stays_in_the_delay_log(broker: Broker, pipeline: Pipeline) -> None:
    broker.put(b"soon", delay_ms=1_000)
    broker.put(b"late", delay_ms=3_600_001)

    pipeline.run()
    assert broker.store.pending_count() == 1
    broker.advance(1)
    pipeline.run()
    assert broker.store.pending_count() == 0

    broker.advance(3_600_000 - 1)
    assert broker.bodies() == [b"soon"]
    broker.advance(1)
    assert broker.bodies() == [b"soon", b"late"]


@pytest.mark.parametrize("loss", ["deleted", "older"])
def test_a_lost_checkpoint_neither_repeats_nor_skips(
    broker: Broker, pipeline: Pipeline, loss: str
) -> None:
    broker.put(b"0", delay_ms=1)
    pipeline.run()
    older = pipeline.checkpoint.with_name("older")
    shutil.copytree(pipeline.checkpoint, older)
    broker.put(b"1", delay_ms=1)
    pipeline.run()
    shutil.rmtree(pipeline.checkpoint)
    if loss == "older":
        older.rename(pipeline.checkpoint)
    broker.put(b"2", delay_ms=1)

    pipeline.run()
    broker.advance(1)

    assert broker.bodies() == [b"0", b"1", b"2"]


def test_a_checkpoint_of_another_store_skips_nothing(
    spark: SparkSession, tmp_path: Path, make_broker: MakeBroker
) -> None:
    """As after restoring a backup of the store: the checkpoint is ahead of it."""
    first = make_broker("first")
    for _ in range(3):
        first.put(b"x", delay_ms=5_000)
    pipeline = Pipeline(spark, tmp_path / "checkpoint", first)
    pipeline.run()
    address = first.address
    first.service.stop()
    other = make_broker("other")
    other.service.stop()
    other.serve_at(address)
    other.put(b"a", delay_ms=1)

    pipeline.run()
    other.advance(1)

    assert other.bodies() == [b"a"]


def test_two_pipelines_at_once_deliver_once(
    spark: SparkSession, tmp_path: Path, broker: Broker
) -> None:
    count = 120
    for number in range(count):
        broker.put(b"%d" % number, delay_ms=1 + number % 10)
    queries = [
        query_of(
            spark,
            Pipeline(spark, tmp_path / name, broker).options(row_count_max="20"),
        )
        .trigger(availableNow=True)
        .start()
        for name in ("one", "two")
    ]

    for query in queries:
        assert query.awaitTermination(PATIENCE_S)
    broker.advance(100)

    assert Counter(broker.bodies()) == Counter(b"%d" % number for number in range(count))


def test_a_restarted_broker_goes_on_where_it_was(broker: Broker, pipeline: Pipeline) -> None:
    broker.put(b"a", delay_ms=1_000)
    pipeline.run()
    broker.put(b"b", delay_ms=1_000)

    broker.restart()
    pipeline.run()
    broker.advance(1_000)

    assert broker.bodies() == [b"a", b"b"]


# --- transforms -----------------------------------------------------------------------------------


def test_a_transform_drops_what_it_filters_out(broker: Broker, pipeline: Pipeline) -> None:
    for number in range(5):
        broker.put(b"%d" % number, delay_ms=1, KEYS=f"order-{number}")

    pipeline.run("drop_paid")
    broker.advance(1)

    assert broker.bodies() == [b"0", b"2", b"4"]
    assert broker.store.pending_count() == 0
    assert [found.state for found in broker.store.find_delayed("order-3")] == [DROPPED]
    broker.restart()
    pipeline.run()
    assert broker.bodies() == [b"0", b"2", b"4"]


def test_a_transform_may_drop_everything(broker: Broker, pipeline: Pipeline) -> None:
    broker.put(b"a", delay_ms=1)

    pipeline.run("drop_all")

    assert broker.store.pending_count() == 0
    broker.advance(1)
    assert broker.bodies() == []


def test_a_transform_may_change_everything_but_identity(broker: Broker, pipeline: Pipeline) -> None:
    broker.put(b"pay", delay_ms=1, KEYS="k", size="L")
    broker.put(b"ship", delay_ms=1, topic="parcels")

    pipeline.run("rewrite")
    broker.advance(1)

    assert broker.bodies("parcels") == [b"ship"]
    assert broker.bodies("orders") == []
    (record,) = broker.visible("reminders", 3)
    properties = properties_of(record)
    assert record.body == b"re:pay"
    assert {name: properties.get(name) for name in ("KEYS", "TAGS", "size", "color")} == {
        "KEYS": "k",
        "TAGS": "late",
        "size": "L",
        "color": "red",
    }


def test_rows_that_a_transform_multiplies_are_delivered_once(
    broker: Broker, pipeline: Pipeline
) -> None:
    broker.put(b"a", delay_ms=1)

    pipeline.run("twice")
    broker.advance(1)

    assert broker.bodies() == [b"a"]


def test_what_cannot_be_delivered_goes_to_the_dead_letters(
    broker: Broker, pipeline: Pipeline
) -> None:
    for key in ("good", "bad", "fine"):
        broker.put(key.encode(), delay_ms=5, KEYS=key)

    pipeline.run("bad_topic")

    assert broker.bodies(DEAD_LETTER_TOPIC) == []
    broker.advance(5)
    assert broker.bodies() == [b"good", b"fine"]
    (letter,) = broker.visible(DEAD_LETTER_TOPIC)
    assert letter.body == b"bad"
    assert "topic: expected 1 to 127" in properties_of(letter)["DUELINE_REASON"]
    assert broker.store.pending_count() == 0


@pytest.mark.parametrize("transform", [None, "keep_all"])
def test_a_damaged_record_goes_to_the_dead_letters(
    broker: Broker, pipeline: Pipeline, transform: str | None
) -> None:
    for body in (b"first one", b"second one", b"third one"):
        broker.put(body, delay_ms=1)
    (path,) = [path for path in (broker.path / "delaylog").iterdir() if path.is_file()]
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(data.index(b"second one"))
        file.write(b"zecond one")

    pipeline.run(transform)
    broker.advance(1)

    assert broker.bodies() == [b"first one", b"third one"]
    (letter,) = broker.visible(DEAD_LETTER_TOPIC)
    assert b"zecond one" in letter.body
    assert properties_of(letter)["DUELINE_TOPIC"] == "orders"
    assert "CRC" in properties_of(letter)["DUELINE_REASON"]


def test_a_transform_must_not_make_messages_early(broker: Broker, pipeline: Pipeline) -> None:
    broker.put(b"a", delay_ms=10)

    with pytest.raises(StreamingQueryException, match="must keep the column due_ms"):
        pipeline.run("earlier")

    assert broker.store.pending_count() == 1


@pytest.mark.parametrize(
    ("transform", "found"),
    [
        ("tests.spark.transforms:nothing_of_this_name", "nothing_of_this_name"),
        ("no_module_of_this_name:keep_all", "PYTHONPATH"),
        ("tests.spark.transforms", "module:function"),
        ("tests.spark.transforms:NOT_CALLABLE", "expected a function"),
        ("tests.spark.transforms:not_a_frame", "found str"),
        ("tests.spark.transforms:without_shard", "shard"),
    ],
)
def test_transforms_that_cannot_work_are_refused_at_the_start(
    broker: Broker, pipeline: Pipeline, transform: str, found: str
) -> None:
    options = DeliveryOptions(
        brokers=broker.address, checkpoint=str(pipeline.checkpoint), transform=transform
    )

    with pytest.raises(InvalidRequest, match=found):
        start(pipeline.spark, options)


def test_a_filter_without_permission_to_drop_fails_and_loses_nothing(
    broker: Broker, pipeline: Pipeline
) -> None:
    for number in range(2):
        broker.put(b"%d" % number, delay_ms=1)
    due = pipeline.spark.readStream.format("dueline").option("brokers", broker.address).load()
    query = (
        due.where("body = cast('1' as binary)")
        .writeStream.format("dueline")
        .option("brokers", broker.address)
        .option("checkpointLocation", str(pipeline.checkpoint))
        .trigger(availableNow=True)
        .start()
    )

    with pytest.raises(StreamingQueryException, match="missing=drop"):
        query.awaitTermination(PATIENCE_S)

    assert broker.store.pending_count() == 2
