"""Tickets and the rows that they stand for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.store.making import START_MS, QuickFiles, Wall, delayed, open_store, ordinary

from dueline.broker.backups import Backups
from dueline.broker.pipeline import Pipeline
from dueline.errors import InvalidRequest
from dueline.flight import protocol
from dueline.server.flight.streams import Streams
from dueline.store import Corner, Store

ALL = Corner(due_ms=1 << 60, seq=1 << 40, end=1 << 40)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "store", Wall())
    for number in range(3):
        store.put(delayed(5_000 + number, b"later", KEYS=f"k{number}"))
    store.put(ordinary(b"now"))
    yield store
    store.close()


def rows(streams: Streams, **ticket: Any) -> list[dict[str, Any]]:
    schema, batches = streams.find(protocol.Ticket(**ticket))
    table = pa.Table.from_batches(batches, schema=schema)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def test_a_slice_is_read_with_or_without_its_records(store: Store) -> None:
    pipeline = Pipeline(store)
    streams = Streams(pipeline)
    plan = pipeline.plans.plan(ALL, slice_count_max=1, slice_row_count_min=1).name

    def slice_of(*, units_only: bool) -> list[dict[str, Any]]:
        wanted = protocol.ReadSlice(plan=plan, index=0, run="r", batch=0, units_only=units_only)
        return rows(streams, slice=wanted)

    whole = slice_of(units_only=False)
    assert [each["due_ms"] - START_MS for each in whole] == [5_000, 5_001, 5_002]
    assert all(b"later" in each["record"] for each in whole)
    units = slice_of(units_only=True)
    assert [each["due_ms"] for each in units] == [each["due_ms"] for each in whole]
    assert [each["size"] for each in units] == [
        store._core.delay.size_at(each["position"]) for each in units
    ]
    assert {each["topic"] for each in units} == {"orders"}


def test_pending_found_and_visible_messages_are_rows(store: Store) -> None:
    streams = Streams(Pipeline(store))
    pending = protocol.ReadPending(start_ms=START_MS + 5_001, end_ms=START_MS + 9_000)

    assert len(rows(streams, pending=pending)) == 2
    assert len(rows(streams, pending=pending.changed(row_count_max=1))) == 1
    assert rows(streams, pending=pending.changed(topics=("other",))) == []
    (found,) = rows(streams, found=protocol.FindPending(key="k1"))
    assert found["due_ms"] == START_MS + 5_001
    visible = protocol.ReadMessages(topic="orders", queue_id=0, start=0, end=9)
    assert len(rows(streams, messages=visible)) == 1


def test_backups_are_streams_where_there_are_any(store: Store) -> None:
    backups = Backups(store, files=QuickFiles(), save=lambda: None)
    hold = backups.begin().hold
    streams = Streams(Pipeline(store), backups)
    ticket = protocol.ReadBackup(hold=hold)

    listed = rows(streams, backup=ticket)
    assert [each["path"] for each in listed] == [one.path for one in backups.files(hold)]
    numbers = tuple(range(len(listed)))
    pieces = rows(streams, backup=ticket.changed(files=numbers))
    assert {each["file"] for each in pieces} <= set(numbers)
    assert sum(len(each["data"]) for each in pieces) <= sum(each["size_bytes"] for each in listed)
    assert any(b"later" in each["data"] for each in pieces)
    with pytest.raises(InvalidRequest, match="name of a stream"):
        rows(Streams(Pipeline(store)), backup=ticket)


def test_a_ticket_names_something(store: Store) -> None:
    with pytest.raises(InvalidRequest, match="expected the name of a stream"):
        Streams(Pipeline(store)).find(protocol.Ticket())
