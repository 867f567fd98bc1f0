"""Bulk scheduling: accepted as a whole or not at all, and bad rows by name."""

import datetime
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.spark.conftest import START_MS, Broker, MakeBroker, properties_of

pytestmark = pytest.mark.spark


def save(frame: DataFrame, *brokers: Broker, mode: str = "append", **options: str) -> None:
    addresses = ",".join(broker.address for broker in brokers)
    frame.write.format("dueline").option("brokers", addresses).options(**options).mode(mode).save()


def schedule(broker: Broker) -> dict[bytes, int]:
    """When each waiting message is due, from acceptance, by its body."""
    window = broker.store.window(broker.store.next_corner(until_ms=1 << 60, row_count_max=10_000))
    records = [broker.store.find_delayed(m)[0] for m in _ids(broker)]
    assert len(records) == len(window)
    return {found.record.body: found.due_ms - START_MS for found in records}


def _ids(broker: Broker) -> list[str]:
    from dueline.store import restore

    window = broker.store.window(broker.store.next_corner(until_ms=1 << 60, row_count_max=10_000))
    ids: list[str] = restore.messages(broker.store.read_window(window))["unique_id"].to_pylist()
    return ids


def test_every_way_to_say_when(spark: SparkSession, broker: Broker) -> None:
    at = datetime.datetime.fromtimestamp(START_MS / 1000 + 7.0, tz=datetime.UTC)
    late = at + datetime.timedelta(microseconds=1)
    rows = [
        ("t", "level", None, None, 3),
        ("t", "words", None, "1m30s", None),
        ("t", "at", at, None, None),
        ("t", "at and a bit", late, None, None),
    ]
    schema = "topic string, body string, deliver_at timestamp, delay string, delay_level int"

    save(spark.createDataFrame(rows, schema), broker)

    assert schedule(broker) == {
        b"level": 10_000,
        b"words": 90_000,
        b"at": 7_000,
        b"at and a bit": 7_001,
    }


def test_intervals_are_delays(spark: SparkSession, broker: Broker) -> None:
    frame = spark.sql(
        "select 't' as topic, cast('b' as binary) as body, "
        "interval '1 00:00:02' day to second as delay"
    )

    save(frame, broker)

    assert schedule(broker) == {b"b": 86_402_000}


def test_every_column_arrives(spark: SparkSession, broker: Broker) -> None:
    frame = spark.range(3).select(
        f.lit("t").alias("topic"),
        f.col("id").cast("string").alias("body"),
        f.lit("1s").alias("delay"),
        f.col("id").cast("int").alias("queue_id"),
        f.lit("tag").alias("tags"),
        f.array(f.lit("k1"), f.concat(f.lit("id"), "id")).alias("keys"),
        f.create_map(f.lit("color"), f.lit("grün")).alias("properties"),
        f.concat(f.lit("unique"), "id").alias("unique_id"),
    )

    save(frame, broker)

    (found,) = broker.store.find_delayed("unique2")
    assert (found.topic, found.queue_id, found.record.body) == ("t", 2, b"2")
    properties = properties_of(found.record)
    assert (properties["KEYS"], properties["TAGS"], properties["color"]) == (
        "k1 id2",
        "tag",
        "grün",
    )
    assert len(broker.store.find_delayed("k1")) == 3


def test_many_rows_in_many_tasks_are_one_job(spark: SparkSession, broker: Broker) -> None:
    frame = spark.range(0, 5_000, 1, 4).selectExpr(
        "'t' as topic", "cast(id as string) as body", "'1h' as delay"
    )

    save(frame, broker)

    assert broker.store.survey().pending_by_topic() == {"t": 5_000}


BAD_ROWS = {
    "topic": ("no topic!", "b", "1s", None, "topic: expected 1 to 127"),
    "no topic": (None, "b", "1s", None, "topic: expected 1 to 127"),
    "no body": ("t", None, "1s", None, "body: expected bytes"),
    "no time": ("t", "b", None, None, "found none"),
    "two times": ("t", "b", "1s", 1, "found several"),
    "bad words": ("t", "b", "soon", None, "duration: expected number and unit"),
    "too far": ("t", "b", "90000d", None, "delay: expected at most"),
    "bad level": ("t", "b", None, -1, "delay_level: expected 0 or more"),
}
BAD_SCHEMA = "topic string, body string, delay string, delay_level int"


@pytest.mark.parametrize("name", BAD_ROWS)
def test_one_bad_row_fails_the_job_and_is_named(
    spark: SparkSession, broker: Broker, name: str
) -> None:
    *bad, reason = BAD_ROWS[name]
    rows = [("t", "good", "1s", None)] * 3 + [tuple(bad)]

    with pytest.raises(PySparkException) as caught:
        save(spark.createDataFrame(rows, BAD_SCHEMA).coalesce(1), broker)

    assert "row 3 of partition 0" in str(caught.value)
    assert reason in str(caught.value)
    assert broker.store.pending_count() == 0


def test_rejects_are_set_aside_with_their_reasons(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    rows = [tuple(row[:4]) for row in BAD_ROWS.values()] + [("t", "good", "1s", None)] * 5
    frame = spark.createDataFrame(rows, BAD_SCHEMA).repartition(3)

    save(frame, broker, rejects=str(tmp_path / "rejects"))

    assert broker.store.survey().pending_by_topic() == {"t": 5}
    found = [
        row
        for path in (tmp_path / "rejects").iterdir()
        for row in parquet.read_table(path).to_pylist()
    ]
    expected = {row[:4]: row[4] for row in BAD_ROWS.values()}
    assert len(found) == len(expected)
    for row in found:
        key = (row["topic"], row["body"], row["delay"], row["delay_level"])
        assert expected[key] in row["reason"]


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"a\x01": "b"}, "0x01"),
        ({"a": "\x02"}, "0x01"),
        ({"": "b"}, "no empty name"),
        ({"DELAY": "3"}, "expected none of DELAY"),
        ({"a": "x" * 32_000}, "at most 32000 bytes"),
    ],
)
def test_properties_that_no_record_can_hold_are_named(
    spark: SparkSession, broker: Broker, properties: dict[str, str], reason: str
) -> None:
    rows = [("t", "b", "1s", None), ("t", "b", "1s", {"fine": "x"}), ("t", "b", "1s", properties)]
    schema = "topic string, body string, delay string, properties map<string,string>"

    with pytest.raises(PySparkException) as caught:
        save(spark.createDataFrame(rows, schema).coalesce(1), broker)

    assert "row 2" in str(caught.value)
    assert reason in str(caught.value)
    assert broker.store.pending_count() == 0


@pytest.mark.parametrize(
    ("select", "reason"),
    [
        ("'t' as topic, 'b' as body", "deliver_at or delay or delay_level"),
        ("'t' as topic, '1s' as delay", "body"),
        ("'t' as topic, 'b' as body, '1s' as delay, 1 as deliverAt", "unknown ['deliverAt']"),
        ("'t' as topic, 'b' as body, 5 as delay", "column delay: expected text"),
        ("'t' as topic, 'b' as body, 5 as deliver_at", "column deliver_at: expected a timestamp"),
    ],
)
def test_frames_that_cannot_be_meant_are_refused(
    spark: SparkSession, broker: Broker, select: str, reason: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        save(spark.sql(f"select {select}"), broker)

    assert reason in str(caught.value)
    assert broker.store.pending_count() == 0


def test_a_job_goes_to_one_broker_and_never_overwrites(
    spark: SparkSession, make_broker: MakeBroker
) -> None:
    one, two = make_broker("one"), make_broker("two")
    frame = spark.sql("select 't' as topic, 'b' as body, '1s' as delay")

    with pytest.raises(PySparkException, match="expected one broker"):
        save(frame, one, two)
    with pytest.raises(PySparkException, match="append"):
        save(frame, one, mode="overwrite")

    assert one.store.pending_count() + two.store.pending_count() == 0


def test_what_waits_is_moved_to_another_broker(
    spark: SparkSession, make_broker: MakeBroker
) -> None:
    old, new = make_broker("old"), make_broker("new")
    old.put(b"a", delay_ms=7_000, UNIQ_KEY="u1", KEYS="k", TAGS="x", own="property")
    old.put(b"b", delay_ms=3_600_000, topic="other")
    waiting = spark.read.format("dueline").option("brokers", old.address).option("view", "pending")
    own = f.map_filter(
        "properties", lambda name, _: ~name.rlike("^(DELAY|UNIQ_KEY|TIMER_.*|REAL_.*)$")
    )
    rows = waiting.load().select(
        *("topic", "queue_id", "body", "tags", "keys", own.alias("properties")),
        *("unique_id", "deliver_at"),
    )

    save(rows, new)

    assert schedule(new) == {b"a": 7_000, b"b": 3_600_000}
    assert new.store.survey().pending_by_topic() == {"orders": 1, "other": 1}
    (moved,) = new.store.find_delayed("u1")
    found = properties_of(moved.record)
    assert {name: found[name] for name in ("KEYS", "TAGS", "own")} == {
        "KEYS": "k",
        "TAGS": "x",
        "own": "property",
    }
