"""Deliveries of another process: what the log would take, and no reader could use, is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.store.making import Wall, open_store

from dueline.errors import InvalidRequest
from dueline.message import Message
from dueline.store import Store, restore
from dueline.store.schema import DELIVERY_SCHEMA
from dueline.store.staged import check_deliveries


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(tmp_path, Wall())


@pytest.fixture
def rows(store: Store) -> pa.RecordBatch:
    """Three deliveries as the sink makes them."""
    for topic, size in (("orders", 3), ("bills", 300), ("orders", 0)):
        store.put(
            Message(
                topic=topic,
                body=b"x" * size,
                queue_id=1,
                properties={"TIMER_DELAY_MS": "1000", "TAGS": "a", "KEYS": "k1 k2"},
            )
        )
    corner = store.next_corner(until_ms=1 << 60, row_count_max=10)
    return restore.carry(store.read_window(store.window(corner)))


def changed(rows: pa.RecordBatch, **columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array(columns[field.name], field.type) if field.name in columns else rows[field.name]
            for field in DELIVERY_SCHEMA
        ],
        schema=DELIVERY_SCHEMA,
    )


def test_what_the_sink_makes_passes(rows: pa.RecordBatch) -> None:
    check_deliveries(rows)
    check_deliveries(rows.slice(1, 2))
    check_deliveries(rows.slice(0, 0))


def test_every_changed_byte_that_a_reader_would_see_is_refused(rows: pa.RecordBatch) -> None:
    """Queue offset and position are the broker's to write, and have no check."""
    (first, *others) = rows["record"].to_pylist()

    for at in [*range(20), *range(36, len(first))]:
        record = bytearray(first)
        record[at] ^= 1
        with pytest.raises(InvalidRequest, match="row 0"):
            check_deliveries(changed(rows, record=[bytes(record), *others]))


@pytest.mark.parametrize("record", [b"", b"x", b"\xff" * 91, bytes(4_000), b"\0\0\0\x5b" * 40])
def test_bytes_that_are_no_record_are_refused(rows: pa.RecordBatch, record: bytes) -> None:
    first, _, last = rows["record"].to_pylist()
    bad = changed(rows, record=[first, record, last])

    with pytest.raises(InvalidRequest, match="row 1: record"):
        check_deliveries(bad)


@pytest.mark.parametrize(
    "columns",
    [
        {"topic": ["orders", "orders", "orders"]},
        {"topic": ["bills2", "bills", "orders"]},
        {"queue_id": [1, 1, 2]},
        {"due_ms": [1, 2, 3]},
        {"origin": [0, 1, 7]},
        {"topic": ["orders", "bills", "../../evil"]},
        {"topic": ["orders", "bills", "RMQ_SYS_TRANS_OP_HALF_TOPIC"]},
        {"queue_id": [1, 1, 65_535]},
        {"queue_id": [1, 1, -1]},
        {"key_hashes": [[1], [2], list(range(1_000))]},
    ],
    ids=str,
)
def test_a_row_that_says_other_than_its_record_is_refused(
    rows: pa.RecordBatch, columns: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest, match=r"row \d: "):
        check_deliveries(changed(rows, **columns))


def test_many_topics_are_told_apart(store: Store) -> None:
    count = 500
    chance = np.random.default_rng(7)
    topics = [f"t{number}" for number in chance.integers(0, 100, count)]
    store.put_many(pa.table({"topic": topics, "body": [b"x"] * count, "delay_ms": [1_000] * count}))
    corner = store.next_corner(until_ms=1 << 60, row_count_max=count)
    rows = restore.carry(store.read_window(store.window(corner)))
    check_deliveries(rows)

    names = rows["topic"].to_pylist()
    other = next(row for row, name in enumerate(names) if name != names[0])
    names[0], names[other] = names[other], names[0]

    with pytest.raises(InvalidRequest, match="row 0"):
        check_deliveries(changed(rows, topic=names))
