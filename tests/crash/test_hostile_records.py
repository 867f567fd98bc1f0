"""A record that no door lets in, but that stands in the delay log: a dead letter, and no more.

Before a crash the store knows a message's topic and queue from memory, after it from the record.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.store.making import START_MS, Wall, bodies, open_store, read_all, routed

from dueline.message import DEAD_LETTER_TOPIC, decode_properties
from dueline.store import Answer, Store, bulk, restore, stamp
from dueline.store.carrying import carried
from dueline.store.record import MARK_PRESENT

GOOD_TOPIC = b"REAL_TOPIC\x01good-topic"
GOOD_QUEUE = b"REAL_QID\x010"
GOOD_DUE = b"TIMER_OUT_MS\x01%d" % (START_MS + 1_000)


def put_changed(store: Store, old: bytes, new: bytes) -> None:
    """Put a message whose record has other bytes than it should, with right checks."""
    assert len(old) == len(new)
    core = store._core
    table = pa.table({"topic": ["good-topic"], "body": [b"bad"], "delay_ms": [1_000]})
    rows = bulk.encode(
        table, now_ms=START_MS, rules=core.rules, ids=core.ids, store_host=core.store_host
    )
    data = bytes(rows.data)
    assert data.count(old) == 1
    changed = np.frombuffer(data.replace(old, new), dtype=np.uint8).copy()
    stamp.seal(
        changed,
        rows.starts,
        rows.starts + rows.sizes,
        marks=np.full(1, MARK_PRESENT, dtype=np.uint64),
        store_ms=np.zeros(1, dtype=np.int64),
    )
    store.put_encoded(replace(rows, data=changed))


def after_a_crash(path: Path, wall: Wall) -> Store:
    """The store as a new process finds it, while the old one has closed nothing."""
    copy = path.with_name(f"{path.name}-again")
    shutil.copytree(path, copy)
    return open_store(copy, wall)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (GOOD_TOPIC, b"REAL_TOPIC\x01../../evil"),
        (GOOD_TOPIC, b"REAL_TOPIC\x01a\x01b\x01c\x01d\x01ee"),
        (GOOD_TOPIC, b"REAL_TOPIC\x01\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6"),
        (GOOD_TOPIC, b"REAL_TOPIX\x01good-topic"),
        (GOOD_QUEUE, b"REAL_QID\x01x"),
        (GOOD_QUEUE, b"REAL_QID\x01-"),
    ],
    ids=str,
)
def test_it_becomes_a_dead_letter_and_its_neighbours_are_delivered(
    tmp_path: Path, old: bytes, new: bytes
) -> None:
    wall = Wall()
    path = tmp_path / "store"
    first = open_store(path, wall)
    row = {"topic": ["good-topic"], "body": [b"good"], "delay_ms": [1_000]}
    first.put_many(pa.table(row))
    put_changed(first, old, new)
    first.put_many(pa.table(row))

    store = after_a_crash(path, wall)
    corner = store.next_corner(until_ms=1 << 60, row_count_max=10)
    rows = store.read_window(store.window(corner))
    store.deliver(list(carried(rows, routed(rows))))
    wall.now_ms += 2_000
    store.open_gate()

    assert bodies(store, "good-topic") == [b"good", b"good"]
    (letter,) = read_all(store, DEAD_LETTER_TOPIC)
    facts = decode_properties(letter.properties)
    assert facts["DUELINE_ORIGIN"] == "1"
    assert "not a topic to deliver to" in facts["DUELINE_REASON"]
    assert b"bad" in letter.body


@pytest.mark.parametrize(
    ("old", "new"),
    [(GOOD_QUEUE, b"REAL_QID\x01x"), (GOOD_DUE, GOOD_DUE[:-3] + b"abc")],
    ids=str,
)
def test_it_can_be_cancelled(tmp_path: Path, old: bytes, new: bytes) -> None:
    wall = Wall()
    path = tmp_path / "store"
    put_changed(open_store(path, wall), old, new)

    store = after_a_crash(path, wall)
    corner = store.next_corner(until_ms=1 << 60, row_count_max=10)
    (unique_id,) = restore.messages(store.read_window(store.window(corner)))["unique_id"]

    assert store.cancel(unique_id.as_py()) is Answer.CANCELLED
    assert store.pending_count() == 0
