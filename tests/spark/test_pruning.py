"""Which columns a transform uses, by the plans that real ones give."""

from collections.abc import Sequence
from functools import partial

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.spark import transforms

from dueline.spark.pruning import ALL, Usage, pruned, usage_of
from dueline.spark.schema import MESSAGE_COLUMNS, ROUTE_COLUMNS

pytestmark = pytest.mark.spark


def due_of(spark: SparkSession, columns: Sequence[str]) -> DataFrame:
    """The due source; no broker is needed to look at a plan."""
    options = {"brokers": "127.0.0.1:1", "columns": ",".join(columns)}
    return spark.readStream.format("dueline").options(**options).load()


def usage(read: str = "", changed: str = "") -> Usage:
    return Usage(
        read=frozenset([*read.split(), *ROUTE_COLUMNS]), changed=frozenset(changed.split())
    )


def united(due: DataFrame) -> DataFrame:
    """Half of the bodies are replaced: the column has the name and the number of the first half."""
    other = due.where("queue_id = 1").withColumn("body", f.lit(b"other"))
    return due.where("queue_id = 0").union(other)


def of_others(due: DataFrame) -> DataFrame:
    """The body of another message: joined with itself."""
    right = due.select(f.col("keys"), f.col("body").alias("theirs"), f.col("topic").alias("of"))
    joined = due.alias("mine").join(right.alias("right"), f.expr("mine.topic = right.of"))
    return joined.select("mine.*")


def collected(due: DataFrame) -> DataFrame:
    """Rows that are made of several."""
    return due.groupBy(*ROUTE_COLUMNS).agg(f.first("body").alias("body"))


def swapped(due: DataFrame) -> DataFrame:
    return due.withColumns({"keys": f.col("tags"), "tags": f.col("keys")})


def in_a_table(due: DataFrame) -> DataFrame:
    """A subquery over a table; the table side may be anything, also an aggregation."""
    paid = due.sparkSession.sql("select * from values ('a', 1), ('b', 2) as paid(id, amount)")
    known = paid.groupBy("id").sum("amount").alias("known")
    return due.join(known, f.col("known.id") == due["unique_id"], "left").where("id is null")


def once_for_each_key(due: DataFrame) -> DataFrame:
    return due.dropDuplicates(["keys"])


def routed_by_tag(due: DataFrame) -> DataFrame:
    return due.withColumn("topic", f.concat("topic", f.lit("-"), f.coalesce("tags", f.lit("x"))))


def without_body(due: DataFrame) -> DataFrame:
    return due.drop("body").select("*").where("flag = 0")


CASES: dict[transforms.Transform, Usage] = {
    transforms.keep_all: usage(),
    transforms.shuffle: usage(),
    transforms.drop_all: usage(),
    transforms.drop_paid: usage("keys"),
    transforms.with_function: usage("body", "body"),
    transforms.twice: usage(),
    transforms.bad_topic: usage("keys"),
    transforms.rewrite: usage("body tags properties", "body tags properties"),
    transforms.confided: usage("", "body"),
    transforms.earlier: ALL,
    in_a_table: usage("unique_id"),
    routed_by_tag: usage("tags"),
    once_for_each_key: usage("keys"),
    swapped: usage("tags keys", "tags keys"),
    without_body: usage("flag"),
    united: ALL,
    of_others: ALL,
    collected: ALL,
}


@pytest.mark.parametrize("transform", CASES, ids=lambda each: each.__name__)
def test_a_plan_says_what_is_used(spark: SparkSession, transform: transforms.Transform) -> None:
    whole = due_of(spark, MESSAGE_COLUMNS.names)

    assert usage_of(whole, transform(whole).select("*")) == CASES[transform]


@pytest.mark.parametrize("transform", CASES, ids=lambda each: each.__name__)
def test_what_is_neither_read_nor_changed_does_not_travel(
    spark: SparkSession, transform: transforms.Transform
) -> None:
    asked: list[list[str]] = []

    def due(columns: Sequence[str]) -> DataFrame:
        asked.append(list(columns))
        return due_of(spark, columns)

    result = pruned(transform, due)

    expected = CASES[transform]
    assert set(asked[-1]) == expected.read
    if transform is not collected:
        assert set(result.columns) == expected.changed.union(ROUTE_COLUMNS)


def test_a_transform_that_changes_its_mind_gets_all_columns(spark: SparkSession) -> None:
    calls = iter([transforms.keep_all, routed_by_tag])

    result = pruned(lambda due: next(calls)(due), partial(due_of, spark))

    assert set(result.columns) == set(MESSAGE_COLUMNS.names)
