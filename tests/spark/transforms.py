"""Transforms that the tests of the delivery query name."""

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

Transform = Callable[[DataFrame], DataFrame]


def keep_all(due: DataFrame) -> DataFrame:
    return due


def _same(body: bytes) -> bytes:
    return bytes(body)


def with_function(due: DataFrame) -> DataFrame:
    """A Python function of this module runs in the workers."""
    return due.withColumn("body", f.udf(_same, "binary", useArrow=False)("body"))


def confided(due: DataFrame) -> DataFrame:
    """What Spark knows of settings that must not be seen elsewhere, as the body."""
    context = due.sparkSession.sparkContext
    names = ("spark.hadoop.fs.s3a.secret.key", "spark.sql.session.timeZone")
    values = [str(context.getConf().get(name)) for name in names]
    return due.withColumn("body", f.lit(" ".join(values).encode()))


def drop_paid(due: DataFrame) -> DataFrame:
    """The example of the documentation: a join with business state."""
    paid = due.sparkSession.sql("select * from values ('order-1'), ('order-3') as paid(order_id)")
    return due.join(paid, due["keys"] == paid["order_id"], "left_anti")


def drop_all(due: DataFrame) -> DataFrame:
    return due.where("topic = 'nothing has this topic'")


def rewrite(due: DataFrame) -> DataFrame:
    """Another topic, queue, body, tag and property for some rows, and a column of its own."""
    chosen = f.col("topic") == "orders"
    return (
        due.withColumn(
            "body",
            f.when(chosen, f.concat(f.lit("re:"), "body").cast("binary")).otherwise(f.col("body")),
        )
        .withColumn("queue_id", f.when(chosen, f.lit(3)).otherwise(f.col("queue_id")))
        .withColumn("tags", f.when(chosen, f.lit("late")).otherwise(f.col("tags")))
        .withColumn(
            "properties",
            f.when(
                chosen, f.map_concat("properties", f.create_map(f.lit("color"), f.lit("red")))
            ).otherwise(f.col("properties")),
        )
        .withColumn("topic", f.when(chosen, f.lit("reminders")).otherwise(f.col("topic")))
        .withColumn("note", f.lit("left aside"))
    )


def shuffle(due: DataFrame) -> DataFrame:
    return due.repartition(5)


def twice(due: DataFrame) -> DataFrame:
    return due.withColumn("n", f.explode(f.array(f.lit(1), f.lit(2))))


def bad_topic(due: DataFrame) -> DataFrame:
    is_bad = f.col("keys") == "bad"
    return due.withColumn(
        "topic", f.when(is_bad, f.repeat(f.lit("x"), 200)).otherwise(f.col("topic"))
    )


def earlier(due: DataFrame) -> DataFrame:
    return due.withColumn("due_ms", f.col("due_ms") - 1)


def without_shard(due: DataFrame) -> DataFrame:
    return due.drop("shard")


def not_a_frame(due: DataFrame) -> str:
    return "hello"


NOT_CALLABLE = 7
