"""Which run of which query, and which of its batches, a task works for.

Source and sink of a query share nothing: they are different objects in different processes, and
Spark tells the sink nothing about offsets. What both sides' tasks do have is the job's local
properties, which Spark sets for every micro-batch. A run's id is made by Spark at every start of a
query, so two pipelines over one broker, even from one configuration, never have the same.

Not promised by Spark's documentation; `tests/spark` fails if a release changes it.
"""

from __future__ import annotations

from typing import Final

from pyspark import TaskContext

from dueline.errors import InvalidRequest
from dueline.flight.values import Value

__all__ = ["MicroBatch", "attempt_token", "current_batch"]

_RUN: Final = "spark.jobGroup.id"
_BATCH: Final = "streaming.sql.batchId"


class MicroBatch(Value, frozen=True, kw_only=True):
    """One micro-batch of one run of a query."""

    run: str
    number: int


def current_batch() -> MicroBatch:
    """The micro-batch of the task that calls this.

    Raises:
        InvalidRequest: not called in a task of a streaming query.
    """
    context = TaskContext.get()
    run = context.getLocalProperty(_RUN) if context else None
    number = context.getLocalProperty(_BATCH) if context else None
    if not run or not number:
        raise InvalidRequest(
            f"expected to run in a task of a streaming query, found {_RUN}={run!r}, "
            f"{_BATCH}={number!r}"
        )
    return MicroBatch(run=run, number=int(number))


def attempt_token(job: str) -> str:
    """A name for what this attempt of this task stages; no other attempt has it."""
    context = TaskContext.get()
    if context is None:
        raise InvalidRequest("expected to run in a task, found none")
    return (
        f"{job}/{context.stageId()}.{context.partitionId()}.{context.attemptNumber()}."
        f"{context.taskAttemptId()}"
    )
