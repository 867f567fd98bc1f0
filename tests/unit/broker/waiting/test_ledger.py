"""The ledger has one row for each message, and says what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.unit.store.making import (
    START_MS,
    Wall,
    carry_over,
    delayed,
    int64s,
    open_store,
    ordinary,
)

from dueline.broker.waiting.ledger import LEDGER_SCHEMA, ledger
from dueline.store import Store


def rows_of(store: Store) -> dict[int, dict[str, Any]]:
    rows = pa.Table.from_batches(list(ledger(store)), schema=LEDGER_SCHEMA).to_pylist()
    assert len({row["number"] for row in rows}) == len(rows), "a message twice"
    return {row["number"]: row for row in rows}


def test_every_message_has_one_row_with_its_outcome(tmp_path: Path) -> None:
    wall = Wall()
    with open_store(tmp_path, wall) as store:
        store.put(ordinary(b"not delayed"))
        for number in range(6):
            store.put(delayed(1_000 * (number + 1), b"x", KEYS=f"k{number}", TAGS="t"))
        wall.advance(5)
        store.numbers.cancel(int64s(3))
        store.numbers.move(int64s(4), int64s(START_MS + 50_000))
        wall.advance(1_495)
        carry_over(store, ahead_ms=500)
        store.open_gate()
        carry_over(store, ahead_ms=2_000)

        rows = rows_of(store)

    assert {number: row["outcome"] for number, row in rows.items()} == {
        0: "delivered",
        1: "carried over",
        2: "carried over",
        3: "cancelled",
        4: "moved",
        5: "pending",
        6: "pending",
    }
    first, cancelled, moved = rows[0], rows[3], rows[6]
    assert (first["due_ms"], first["visible_ms"], first["late_ms"]) == (
        START_MS + 1_000,
        START_MS + 1_500,
        500,
    )
    assert (first["topic"], first["queue_offset"], first["keys"]) == ("orders", 1, "k0")
    assert (cancelled["accepted_ms"], cancelled["ended_ms"]) == (START_MS, START_MS + 5)
    assert (moved["due_ms"], moved["unique_id"]) == (START_MS + 50_000, rows[4]["unique_id"])


def test_an_empty_store_has_an_empty_ledger(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        assert rows_of(store) == {}
