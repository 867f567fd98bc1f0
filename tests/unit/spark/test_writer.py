"""The deliver sink: what tasks stage and where, and what becomes of brokers that are away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.types import StringType, StructField, StructType
from tests.unit.store.making import Wall, open_store

from dueline.broker.pipeline import Pipeline
from dueline.errors import InvalidRequest, Unavailable
from dueline.server.flight import FlightDoor
from dueline.spark.options import Options
from dueline.spark.schema import MESSAGE_COLUMNS, ROUTE_COLUMNS
from dueline.spark.task import MicroBatch
from dueline.spark.writer import DeliverWriter, Staged

NOBODY, NOBODY_EITHER = "127.0.0.1:1", "127.0.0.1:2"
BATCH = MicroBatch(run="run-1", number=17)
SCHEMA = pa.schema([MESSAGE_COLUMNS.field(name) for name in ROUTE_COLUMNS])


@pytest.fixture(autouse=True)
def _task() -> Iterator[None]:
    """As in one of Spark's Python workers."""
    TaskContext._setTaskContext(None)
    context: Any = TaskContext()
    context._localProperties = {
        "spark.jobGroup.id": BATCH.run,
        "streaming.sql.batchId": str(BATCH.number),
    }
    context._stageId = context._partitionId = context._attemptNumber = context._taskAttemptId = 1
    yield
    TaskContext._setTaskContext(None)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A broker's Flight port, of shard `here`."""
    with open_store(tmp_path, Wall()) as store:
        door = FlightDoor(Pipeline(store), shard="here")
        door.start()
        yield f"127.0.0.1:{door.port}"
        door.stop()


def writer(*brokers: str, columns: tuple[str, ...] = ROUTE_COLUMNS) -> DeliverWriter:
    options = Options.parse({"brokers": ",".join(brokers)})
    return DeliverWriter(options, StructType([StructField(name, StringType()) for name in columns]))


def rows(count: int = 1, **changed: object) -> pa.RecordBatch:
    values = {"origin": 0, "due_ms": 5, "topic": "orders", "queue_id": 0, "shard": "here"}
    row = {name: {**values, **changed}.get(name) for name in SCHEMA.names}
    return pa.RecordBatch.from_pylist([row] * count, schema=SCHEMA)


def staged(**tokens: str) -> Staged:
    return Staged(batch=BATCH, tokens=tokens, row_count=1)


def test_a_sink_without_the_route_says_what_is_missing() -> None:
    with pytest.raises(InvalidRequest, match=r"without \['origin'\]; a transform must keep") as it:
        writer(NOBODY, columns=tuple(name for name in ROUTE_COLUMNS if name != "origin"))

    assert it.value.details["missing"] == ["origin"]


def test_a_task_without_rows_asks_nobody() -> None:
    result = writer(NOBODY).write(iter([]))

    assert result == Staged(batch=BATCH, tokens={}, row_count=0)


def test_rows_are_staged_where_they_came_from_and_brokers_that_are_away_do_not_matter(
    address: str,
) -> None:
    result = writer(NOBODY, address).write(iter([rows(2), rows(1)]))

    assert result.row_count == 3
    assert list(result.tokens) == [address]
    assert result.tokens[address].startswith("run-1/")


@pytest.mark.parametrize("name", ["origin", "due_ms", "shard"])
def test_a_row_that_has_lost_its_identity_is_refused(address: str, name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"expected a value in {name}, found null"):
        writer(address).write(iter([rows(1, **{name: None})]))


def test_a_row_of_another_shard_is_refused_with_those_there_are(address: str) -> None:
    with pytest.raises(InvalidRequest, match=r"shards \['here'\], found one of 'elsewhere'"):
        writer(address).write(iter([rows(), rows(shard="elsewhere")]))


def test_rows_and_no_broker_are_an_error() -> None:
    with pytest.raises(Unavailable, match=NOBODY):
        writer(NOBODY, NOBODY_EITHER).write(iter([rows()]))


def test_a_batch_without_tasks_commits_nothing() -> None:
    writer(NOBODY).commit([], 17)
    writer(NOBODY).commit([None], 17)


def test_a_batch_that_no_broker_took_fails() -> None:
    with pytest.raises(Unavailable, match=NOBODY):
        writer(NOBODY, NOBODY_EITHER).commit([staged()], 17)


def test_an_abort_that_nobody_hears_is_only_noted(caplog: pytest.LogCaptureFixture) -> None:
    sink = writer(NOBODY, NOBODY_EITHER)

    sink.abort([staged(**{NOBODY: "t"}), None], 17)

    assert "batch 17: staged rows not discarded" in caplog.text
    assert NOBODY_EITHER not in caplog.text, "it has nothing of this batch"
