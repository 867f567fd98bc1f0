"""One query over several brokers: every message goes back to where it came from."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.spark.conftest import MakeBroker
from tests.spark.test_delivery import Pipeline
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("transform", [None, "shuffle"])
def test_each_shard_delivers_its_own(
    spark: SparkSession, make_broker: MakeBroker, tmp_path: Path, transform: str | None
) -> None:
    one, two = make_broker("one"), make_broker("two")
    for number in range(30):
        one.put(b"one %d" % number, delay_ms=1 + number % 3)
        two.put(b"two %d" % number, delay_ms=1 + number % 3)

    Pipeline(spark, tmp_path / "checkpoint", one, two).run(transform)

    for broker, name in ((one, b"one"), (two, b"two")):
        broker.advance(10)
        assert sorted(broker.bodies()) == sorted(name + b" %d" % number for number in range(30))


def test_a_shard_whose_rows_are_all_dropped_is_done(
    spark: SparkSession, make_broker: MakeBroker, tmp_path: Path
) -> None:
    one, two = make_broker("one"), make_broker("two")
    one.put(b"a", delay_ms=1, KEYS="order-1")
    two.put(b"b", delay_ms=1, KEYS="order-2")

    Pipeline(spark, tmp_path / "checkpoint", one, two).run("drop_paid")

    assert (one.store.pending_count(), two.store.pending_count()) == (0, 0)
    one.advance(1)
    two.advance(1)
    assert (one.bodies(), two.bodies()) == ([], [b"b"])


def test_a_shard_that_is_down_does_not_stop_the_others(
    spark: SparkSession, make_broker: MakeBroker, tmp_path: Path
) -> None:
    one, two = make_broker("one"), make_broker("two")
    one.put(b"a", delay_ms=1)
    two.put(b"b", delay_ms=1)
    pipeline = Pipeline(spark, tmp_path / "checkpoint", one, two)
    two.service.stop()

    pipeline.run()
    one.advance(1)
    assert one.bodies() == [b"a"]

    two.serve_at(two.address)
    pipeline.run()
    two.advance(1)
    assert two.bodies() == [b"b"]


def test_rows_of_a_broker_that_the_sink_does_not_know_are_refused(
    spark: SparkSession, make_broker: MakeBroker, tmp_path: Path
) -> None:
    one, two = make_broker("one"), make_broker("two")
    one.put(b"a", delay_ms=1)
    due = spark.readStream.format("dueline").option("brokers", one.address).load()
    query = (
        due.writeStream.format("dueline")
        .option("brokers", two.address)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )

    with pytest.raises(StreamingQueryException, match="the same option brokers"):
        query.awaitTermination(PATIENCE_S)

    assert one.store.pending_count() == 1
