"""The pending set as a table to write to: every row is answered, and a job may be run again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.unit.server.local import running, small_config

from dueline.broker.waiting import PendingFilter
from dueline.message import Message
from dueline.server.process import BrokerProcess
from dueline.spark import change
from dueline.spark.actions import ChangeResult

pytestmark = pytest.mark.spark
HOUR_MS = 3_600_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with running(small_config(tmp_path)) as broker:
        for number in range(30):
            properties = {"TIMER_DELAY_MS": str(HOUR_MS), "KEYS": f"order-{number}"}
            topic = ("mail", "bills")[number % 2]
            broker.store.put(Message(topic=topic, body=b"%d" % number, properties=properties))
        yield broker


def pending(spark: SparkSession, broker: BrokerProcess, view: str = "pending") -> DataFrame:
    reader = spark.read.format("dueline").option("brokers", broker.address)
    return reader.option("view", view).load()


def counts(done: int, too_late: int = 0, unknown: int = 0) -> ChangeResult:
    return ChangeResult(
        done_count=done, too_late_count=too_late, unknown_count=unknown, failed_count=0
    )


def test_rows_are_cancelled_after_a_join_and_again(
    spark: SparkSession, broker: BrokerProcess
) -> None:
    paid = spark.sql("select concat('order-', n) as keys from values 1, 2, 3, 4, 99 as t(n)")
    rows = pending(spark, broker).join(paid, "keys").select("origin", "shard").cache()
    rows.count()
    more = rows.union(spark.sql(f"select 12345L as origin, '{broker.config.name}' as shard"))

    first = change(more, broker=broker.address, action="cancel")
    again = change(more, broker=broker.address, action="cancel")

    assert first == again == counts(4, unknown=1)
    assert broker.store.pending_count() == 26


def test_rows_are_moved_by_time_and_by_shift(spark: SparkSession, broker: BrokerProcess) -> None:
    mail = pending(spark, broker).where("topic = 'mail'").cache()
    later = mail.withColumn("deliver_at", f.timestamp_millis(f.col("due_ms") + HOUR_MS))

    first = change(later, broker=broker.address, action="reschedule")
    again = change(later, broker=broker.address, action="reschedule")
    other = change(mail, broker=broker.address, action="reschedule", shift="90m")
    bills = pending(spark, broker).where("topic = 'bills'").cache()
    shifted = change(bills, broker=broker.address, action="reschedule", shift="-30m")

    assert (first, again, other, shifted) == (counts(15), counts(15), counts(0, 15), counts(15))
    by_topic = {
        row["topic"]: row["due_ms"]
        for row in pending(spark, broker)
        .groupBy("topic")
        .agg(f.max("due_ms").alias("due_ms"))
        .collect()
    }
    assert by_topic["mail"] - by_topic["bills"] > HOUR_MS


def test_rows_are_delivered_now(spark: SparkSession, broker: BrokerProcess) -> None:
    rows = pending(spark, broker).where("topic = 'bills'")

    assert change(rows, broker=broker.address, action="deliver") == counts(15)

    later = PendingFilter(topic="bills", due_start_ms=broker.clock.now_ms() + 1)
    assert broker.broker.jobs.matching.count(later).count == 0
    assert broker.store.survey().pending_by_topic()["mail"] == 15


@pytest.mark.parametrize(
    ("columns", "options", "reason"),
    [
        ("due_ms", {"action": "cancel"}, "expected the column origin"),
        ("origin", {"action": "reschedule"}, "expected the column deliver_at"),
        ("origin", {"action": "reschedule", "shift": "1h"}, "expected the column due_ms"),
        ("origin", {"action": "cancel", "shift": "1h"}, "expected action=reschedule"),
        ("origin", {"action": "burn"}, "option action: expected"),
        ("origin", {"action": "cancel", "shift": "soon"}, "option shift"),
    ],
)
def test_what_makes_no_sense_is_refused(
    spark: SparkSession, broker: BrokerProcess, columns: str, options: dict[str, str], reason: str
) -> None:
    writer = pending(spark, broker).select(columns).write.format("dueline")

    with pytest.raises(PySparkException, match=reason):
        writer.option("brokers", broker.address).options(**options).mode("append").save()

    assert broker.store.pending_count() == 30


def test_the_ledger_says_what_became_of_each(spark: SparkSession, broker: BrokerProcess) -> None:
    mail = pending(spark, broker).where("topic = 'mail'")
    assert change(mail, broker=broker.address, action="cancel") == counts(15)

    ledger = pending(spark, broker, "ledger")

    found = {
        (row["topic"], row["outcome"]): row["count"]
        for row in ledger.groupBy("topic", "outcome").count().collect()
    }
    assert found == {("mail", "cancelled"): 15, ("bills", "pending"): 15}
    ended = ledger.where("ended_ms >= accepted_ms and due_ms > ended_ms").count()
    assert ended == 15
