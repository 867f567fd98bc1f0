"""The format `dueline` in sessions that nobody prepared: plain ones, and a cluster's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Broker
from tests.waiting import PATIENCE_S

from dueline.spark.java import prepare_java

PLAIN = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
if sys.argv[2] == "register":
    import dueline.spark
    dueline.spark.register(spark)
frame = spark.read.format("dueline").option("brokers", sys.argv[1]).option("view", "pending").load()
print("FOUND", sorted(bytes(row.body) for row in frame.where("topic = 'orders'").collect()))
"""


def run_plain(broker: Broker, how: str, python: str, path: str) -> str:
    """A session of its own process, with nothing of Spark's Python settings around it."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYSPARK", "SPARK", "PYTHONPATH"))
    }
    prepare_java(environment).apply(environment)
    result = subprocess.run(
        [python, "-c", PLAIN, broker.address, how],
        env={**environment, "PATH": path},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    (found,) = [line for line in result.stdout.splitlines() if line.startswith("FOUND")]
    return found


@pytest.fixture
def path_without_dueline(tmp_path: Path) -> str:
    """A PATH whose `python3` has no Dueline, as on most machines."""
    bare = tmp_path / "bin"
    bare.mkdir()
    (bare / "python3").write_text(f'#!/bin/sh\nexec "{sys.base_prefix}/bin/python3" -S "$@"\n')
    (bare / "python3").chmod(0o755)
    return f"{bare}:{os.environ['PATH']}"


@pytest.mark.spark
@pytest.mark.soak  # the tour of a data engineer registers a plain session too
def test_a_registered_session_finds_its_python(broker: Broker, path_without_dueline: str) -> None:
    broker.put(b"one", delay_ms=60_000)
    broker.put(b"two", delay_ms=60_000, topic="news")

    found = run_plain(broker, "register", sys.executable, path_without_dueline)

    assert found == "FOUND [b'one']"


@pytest.mark.spark
def test_spark_finds_the_format_by_itself(broker: Broker) -> None:
    broker.put(b"one", delay_ms=60_000)
    broker.put(b"two", delay_ms=60_000, topic="news")

    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"

    assert run_plain(broker, "nothing", sys.executable, path) == "FOUND [b'one']"


@pytest.mark.spark
def test_a_bulk_write_says_how_many(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    import dueline.spark

    rows = [("orders", b"a", 60_000), ("orders", b"b", 60_000), ("not a topic!", b"c", 60_000)]
    frame = spark.createDataFrame(rows, "topic string, body binary, delay_ms long")
    frame = frame.selectExpr("topic", "body", "make_dt_interval(0, 0, 0, delay_ms / 1000) as delay")

    result = dueline.spark.schedule(frame, broker=broker.address, rejects=str(tmp_path / "rejects"))

    assert (result.scheduled_count, result.rejected_count) == (2, 1)
    assert broker.store.pending_count() == 2
