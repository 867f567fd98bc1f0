"""Workers that are started ahead are the ones that tasks get."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession, functions

from dueline.spark.warming import warm


def is_loaded(_: int) -> bool:
    return "dueline.spark.reader" in sys.modules


def test_a_task_finds_a_worker_that_has_loaded_everything(spark: SparkSession) -> None:
    warm(spark).join()

    asked = functions.udf(is_loaded, "boolean", useArrow=False)
    rows = spark.range(0, 1, 1, 1).select(asked("id")).collect()

    assert [row[0] for row in rows] == [True]
