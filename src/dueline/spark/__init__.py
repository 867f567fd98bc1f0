"""Everything about Spark: the only package that imports pyspark.

Every delayed message travels from the delay log to its topic through a Spark Structured Streaming
query. This package has the data source and sink of that query, and what is needed to start Spark.

    dueline.spark.register(spark)       the format `dueline` in a session of your own
    dueline.spark.schedule(frame, ...)  a DataFrame of messages, scheduled; says how many
    dueline.spark.change(frame, ...)    rows of what waits, cancelled, delivered or moved

They import what they need when they are called: Spark's tasks import this package too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dueline.spark.actions import ChangeResult
    from dueline.spark.bulk import ScheduleResult

__all__ = ["change", "register", "schedule"]


def register(session: SparkSession) -> None:
    """Make the format `dueline` known to a session, and see to it that its tasks can use it.

    Raises:
        Unavailable: the Python of the cluster's workers has no Dueline, or another version.
    """
    from dueline.spark import registration

    registration.register(session)


def schedule(frame: DataFrame, *, broker: str, rejects: str | None = None) -> ScheduleResult:
    """Schedule a DataFrame of messages, all or none, and return how many they were.

    The same as `frame.write.format("dueline").mode("append")`, which has no way to say it.

    Args:
        broker: `host:port` of the broker's Flight service.
        rejects: a folder for rows that cannot be accepted; without it one of them fails the job.
    """
    from dueline.spark import bulk

    return bulk.schedule(frame, broker=broker, rejects=rejects)


def change(frame: DataFrame, *, broker: str, action: str, shift: str | None = None) -> ChangeResult:
    """Change the rows of `view=pending` in a DataFrame, and return how many had which answer.

    The same as `frame.write.format("dueline").option("action", …).mode("append").save()`.

    Args:
        broker: `host:port` of the broker's Flight service; several with commas.
        action: `cancel`, `deliver` (now) or `reschedule`, to the column `deliver_at`.
        shift: reschedule each by so much instead, such as `1h` or `-30m`.
    """
    from dueline.spark import actions

    return actions.change(frame, broker=broker, action=action, shift=shift)
