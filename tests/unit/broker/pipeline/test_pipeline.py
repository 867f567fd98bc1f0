"""What Spark asks of a broker, put together: staged rows become messages, figures tell of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.store.making import START_MS, Wall, carry_over, open_store

from dueline.broker.pipeline.pipeline import Pipeline
from dueline.errors import NotFound
from dueline.store import Store
from dueline.store.schema import SCHEDULE_SCHEMA


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "store", Wall())
    yield store
    store.close()


def rows(*due_ms: int) -> pa.RecordBatch:
    messages = [
        {"topic": "orders", "body": b"x", "deliver_at_ms": each, "queue_id": 0, "properties": {}}
        for each in due_ms
    ]
    return pa.RecordBatch.from_pylist(messages, schema=SCHEDULE_SCHEMA)


def stage(pipeline: Pipeline, token: str, *due_ms: int) -> None:
    pipeline.staging.keep(token, SCHEDULE_SCHEMA, iter([rows(*due_ms)]))


def test_staged_rows_are_accepted_all_or_none(store: Store) -> None:
    pipeline = Pipeline(store)
    stage(pipeline, "a", START_MS + 5_000, START_MS + 6_000)
    stage(pipeline, "b", START_MS + 7_000)

    with pytest.raises(NotFound):
        pipeline.put_rows(("a", "nobody"))
    assert pipeline.figures().accepted == 0

    pipeline.put_rows(("a", "b"))

    assert pipeline.figures().accepted == 3
    with pytest.raises(NotFound):
        pipeline.put_rows(("a",))


def test_figures_tell_where_messages_are(store: Store) -> None:
    pipeline = Pipeline(store)
    empty = pipeline.figures()
    assert (empty.pending, empty.at_gate, empty.next_due_ms, empty.gate_next_ms) == (
        0,
        0,
        None,
        None,
    )

    stage(pipeline, "a", START_MS + 5_000, START_MS + 60_000, START_MS + 61_000)
    assert pipeline.figures().staged_bytes > 0
    pipeline.put_rows(("a",))
    carry_over(store, ahead_ms=10_000)

    found = pipeline.figures()
    assert (found.accepted, found.pending, found.at_gate) == (3, 2, 1)
    assert (found.next_due_ms, found.gate_next_ms) == (START_MS + 60_000, START_MS + 5_000)
    assert (found.staged_bytes, found.plan_count) == (0, 0)


def test_parts_that_are_given_are_used(store: Store) -> None:
    own = Pipeline(store)
    other = Pipeline(store, own.delayed, status=own.status, staging=own.staging)

    stage(own, "a", START_MS + 5_000)
    other.put_rows(("a",))

    assert other.status is own.status
    assert other.delayed is own.delayed
    assert own.figures().pending == 1


def test_tasks_are_told_where_the_records_are(store: Store, tmp_path: Path) -> None:
    pipeline = Pipeline(store)

    assert pipeline.delay_log.parent == tmp_path / "store"
    assert {path.stat().st_size for path in pipeline.delay_log.iterdir()} <= {
        pipeline.delay_segment_size_bytes
    }
    assert pipeline.body_size_bytes_max == 4 << 20
