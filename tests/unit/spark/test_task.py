"""Which task asks: Spark's context of one is set by hand, as its workers do it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark import TaskContext

from dueline.errors import InvalidRequest
from dueline.spark.task import MicroBatch, attempt_token, current_batch

RUN, BATCH = "spark.jobGroup.id", "streaming.sql.batchId"


@pytest.fixture(autouse=True)
def _no_task() -> Iterator[None]:
    TaskContext._setTaskContext(None)
    yield
    TaskContext._setTaskContext(None)


def begin_task(properties: dict[str, str], **numbers: int) -> None:
    TaskContext._setTaskContext(None)
    context: Any = TaskContext()
    context._localProperties = properties
    context._stageId = numbers.get("stage", 1)
    context._partitionId = numbers.get("partition", 2)
    context._attemptNumber = numbers.get("attempt", 0)
    context._taskAttemptId = numbers.get("task", 9)


def test_a_task_knows_its_run_and_batch() -> None:
    begin_task({RUN: "run-1", BATCH: "17"})

    assert current_batch() == MicroBatch(run="run-1", number=17)


def test_outside_of_a_task_there_is_no_batch() -> None:
    with pytest.raises(InvalidRequest, match=f"task of a streaming query, found {RUN}=None"):
        current_batch()
    with pytest.raises(InvalidRequest, match="expected to run in a task, found none"):
        attempt_token("job")


@pytest.mark.parametrize("known", [{}, {RUN: "run-1"}, {BATCH: "17"}, {RUN: "", BATCH: "17"}])
def test_a_task_of_a_batch_query_is_told_what_it_lacks(known: dict[str, str]) -> None:
    begin_task(known)

    with pytest.raises(InvalidRequest) as caught:
        current_batch()

    for name in (RUN, BATCH):
        assert f"{name}={known.get(name)!r}" in caught.value.message


def test_no_two_attempts_have_one_token() -> None:
    tokens = set()
    for numbers in ({}, {"stage": 2}, {"partition": 3}, {"attempt": 1, "task": 10}, {"task": 11}):
        begin_task({}, **numbers)
        tokens.add(attempt_token("run-1"))

    assert len(tokens) == 5
    assert all(token.startswith("run-1/") for token in tokens)
