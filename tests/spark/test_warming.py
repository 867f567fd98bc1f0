"""Workers that are started ahead are the ones that tasks get."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession

from dueline.spark.warming import warm


def loaded(_: Iterable[int]) -> Iterator[tuple[int, bool]]:
    yield os.getpid(), "dueline.spark.reader" in sys.modules


def test_a_task_finds_a_worker_that_has_loaded_everything(spark: SparkSession) -> None:
    warm(spark).join()

    found = spark.sparkContext.parallelize(range(1), 1).mapPartitions(loaded).collect()

    assert [is_loaded for _, is_loaded in found] == [True]
    assert found[0][0] != os.getpid()
