"""Starting Spark's Python workers while the query is still being set up.

A query's first batch waits for a chain of processes, each started when the one before has answered.
Those that run tasks are the slowest, since they load what reads and writes rows. Nothing keeps them
from starting at once: Spark hands its workers from one job to the next, so a small job of its own,
run beside the query's start, leaves them ready.
"""

from __future__ import annotations

import importlib
import logging
import threading

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions

__all__ = ["start_workers", "warm"]

log = logging.getLogger(__name__)


def warm(session: SparkSession) -> threading.Thread:
    """Start one worker per core; returns at once."""
    thread = threading.Thread(target=start_workers, args=(session,), name="warming", daemon=True)
    thread.start()
    return thread


def start_workers(session: SparkSession) -> None:
    """Start one worker per core; returns when they have done something."""
    count = session.sparkContext.defaultParallelism
    try:
        # A function of a query, not of an RDD: Spark keeps the workers of the two apart.
        session.range(0, count, 1, count).select(
            functions.udf(load, "long", useArrow=False)("id")
        ).collect()
    except (PySparkException, Py4JError) as error:
        # The query starts them itself, and says so if it cannot.
        log.warning("workers were not started ahead: %s", str(error).splitlines()[0])


def load(number: int) -> int:
    """In a worker: load what tasks need."""
    importlib.import_module("dueline.spark.reader")
    importlib.import_module("dueline.spark.writer")
    return number
