"""A transform that fails when it runs: nothing is lost, and it is said where people look."""

from pathlib import Path

import pytest
from tests.serve.conftest import outgoing, send, served
from tests.waiting import wait_until

from dueline.flight.operators import Reported

pytestmark = [pytest.mark.slow, pytest.mark.spark]

TRANSFORM = """\
from pyspark.sql import functions as f


def _half(body):
    return bytes([len(body) // 0])


def half(due):
    return due.withColumn("body", f.udf(_half, "binary")("body"))
"""


def test_a_transform_that_fails_is_told_with_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mytx.py").write_text(TRANSFORM)
    monkeypatch.chdir(tmp_path)  # where it is found
    words = ("--transform", "mytx:half", "--master", "local[1]")

    with served(tmp_path / "data", *words) as serving:
        due_ms = send(serving, outgoing("x", delay_ms=1_000))

        def troubled() -> Reported | None:
            report = serving.report()
            is_told = report.driver.error.startswith("the query failed")
            return report if is_told and report.overdue else None

        report = wait_until(troubled, "the error")

        log = (tmp_path / "data" / "spark.log").read_text()

    # The trace, once for each failure that was reported so far, and not all of Spark's own frames.
    trace = log[log.index("Traceback (most recent call last)") :]
    assert "mytx.py" in trace
    assert trace.count("at org.apache.spark") <= 30 * trace.count("Traceback")
    assert "ZeroDivisionError" in report.driver.error
    assert report.driver.error.endswith("at mytx.py:5 in _half (return bytes([len(body) // 0]))")
    assert report.overdue == 1
    assert report.oldest_overdue is not None
    assert report.oldest_overdue.due_ms == due_ms["x"]
