"""The store as its owner sees it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.store.making import (
    SMALL,
    START_MS,
    Wall,
    bodies,
    carry_over,
    delayed,
    open_store,
    ordinary,
)

import dueline.store
from dueline.errors import InvalidRequest
from dueline.store import CORNER_START, Corner, Files, Store, bulk
from dueline.store import record as records
from dueline.store.core import DELAY_LOG
from dueline.store.log import LogReader


def test_public_names() -> None:
    assert dueline.store.__all__ == [
        "CORNER_START",
        "Answer",
        "Changed",
        "Corner",
        "DeliverResult",
        "Files",
        "Key",
        "Name",
        "Observer",
        "PendingMessage",
        "PutManyResult",
        "PutResult",
        "ReadResult",
        "ReadStatus",
        "Record",
        "Store",
        "StoreOptions",
        "Window",
    ]


def test_figures(tmp_path: Path) -> None:
    wall = Wall()
    with open_store(tmp_path, wall) as store:
        store.put_all([ordinary(), delayed(5), delayed(9), ordinary(DELAY="2")])
        carry_over(store, ahead_ms=5)

        found = store.stats()

        assert (found["accepted_delayed"], found["pending"], found["at_gate"]) == (3, 2, 1)
        assert found["gate_next_ms"] == store.gate_next_ms == START_MS + 5
        assert found["delay_offsets"] == {"rmq_sys_wheel_timer/0": 2, "SCHEDULE_TOPIC_XXXX/1": 1}
        assert found["commit_log"]["segment_count"] == 1
        assert (store.path, store.options) == (tmp_path, SMALL)


def test_rows_encoded_elsewhere_are_accepted(tmp_path: Path) -> None:
    wall = Wall()
    table = pa.table({"topic": ["orders"] * 3, "body": [b"a", b"b", b"c"], "delay_ms": [3, 2, 1]})
    with open_store(tmp_path, wall) as store:
        core = store._core
        rows = bulk.encode(
            table, now_ms=START_MS, rules=core.rules, ids=core.ids, store_host=core.store_host
        )

        result = store.put_encoded(rows)

        assert (result.first_seq, result.count) == (0, 3)
        assert result.due_ms.tolist() == [START_MS + 3, START_MS + 2, START_MS + 1]
        carry_over(store)
        wall.advance(3)
        store.open_gate()
        assert bodies(store) == [b"c", b"b", b"a"]


def test_rows_that_waited_are_due_as_their_records_say(tmp_path: Path) -> None:
    """Encoded, then late: overdue at once, and the same after a restart."""
    wall = Wall()
    with open_store(tmp_path, wall) as store:
        core = store._core
        table = pa.table({"topic": ["orders"], "body": [b""], "delay_ms": [5]})
        rows = bulk.encode(
            table, now_ms=START_MS, rules=core.rules, ids=core.ids, store_host=core.store_host
        )
        wall.advance(100)

        due_ms = store.put_encoded(rows).due_ms.tolist()

        assert due_ms == [store.next_due_ms()] == [START_MS + 5]
    with open_store(tmp_path, wall) as again:
        assert again.next_due_ms() == START_MS + 5


def test_another_process_may_read_the_delay_log(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        store.put(delayed(5, b"mine"))
        window = store.window(store.next_corner(until_ms=START_MS + 5, row_count_max=9))

        reader = LogReader(Files(), tmp_path / DELAY_LOG, SMALL.delay_segment_size_bytes)
        (data,) = reader.gather(window.units.position, window.units.size).to_pylist()

    assert records.decode(data).body == b"mine"


def test_corner_starts_where_it_is_told_if_nothing_is_due(tmp_path: Path) -> None:
    start = Corner(due_ms=1, seq=2, end=3)
    with open_store(tmp_path, Wall()) as store:
        store.put(delayed(50))

        assert store.next_corner(until_ms=START_MS, row_count_max=5) == CORNER_START
        assert store.next_corner(until_ms=START_MS, row_count_max=5, start=start) == start


def test_rows_of_a_queue_are_read_as_arrays(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        store.put_all([ordinary(b"%d" % number) for number in range(10)])
        found: list[bytes] = []
        offset = 0
        while True:
            batch, next_offset = store.read_rows(
                "orders", 0, offset, count_max=4, size_bytes_max=1 << 20
            )
            if next_offset == offset:
                break
            assert batch.column(0).to_pylist() == [*range(offset, next_offset)]
            found += [records.decode(data).body for data in batch.column(1).to_pylist()]
            offset = next_offset

        assert found == [b"%d" % number for number in range(10)]
        assert store.read_rows("x", 0, 5, count_max=4, size_bytes_max=9)[1] == 5


def test_with_closes_the_store(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        pass

    store.close()
    with open_store(tmp_path, Wall()) as again:
        assert isinstance(again, Store)


def test_failed_open_lets_go_of_the_lock(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        store.put(ordinary())
    segment = tmp_path / "commitlog" / ("0" * 20)
    data = segment.read_bytes()
    segment.write_bytes(data[:100])

    with pytest.raises(InvalidRequest, match="size it was made with"):
        open_store(tmp_path, Wall())

    segment.write_bytes(data)
    with open_store(tmp_path, Wall()) as again:
        assert bodies(again) == [b"body"]
