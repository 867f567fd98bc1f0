"""Pages of the ledger are the ledger: every row once, in parts, filtered as a loop would."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.unit.store.making import Wall, carry_over, delayed, int64s, open_store, ordinary

from dueline.broker.waiting import ledger_pages
from dueline.broker.waiting.ledger import LEDGER_SCHEMA, ledger
from dueline.broker.waiting.ledger_pages import LedgerFilter, ledger_page
from dueline.errors import InvalidRequest
from dueline.outcomes import ENDED
from dueline.store import Store
from dueline.store.ended import ENDED as ENDED_STATES
from dueline.store.states import NAMES


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Some of every outcome but dropped and expired, in two topics."""
    wall = Wall()
    with open_store(tmp_path, wall) as store:
        for number in range(24):
            topic = "ab"[number % 2]
            store.put(ordinary(b"not delayed", topic=topic))
            store.put(delayed(1_000 * (number + 1), b"x", topic=topic, KEYS=f"k{number}"))
        store.numbers.cancel(int64s(5, 15, 16))
        store.numbers.move(int64s(20), int64s(wall.now_ms + 90_000))
        wall.advance(7_500)
        carry_over(store, ahead_ms=500)
        store.open_gate()
        carry_over(store, ahead_ms=3_000)
        yield store


def paged(store: Store, wanted: LedgerFilter, limit: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = ledger_page(store, wanted, limit=limit, cursor=cursor)
        assert len(page.rows) <= limit
        found += page.rows
        if page.cursor is None:
            return found
        cursor = page.cursor


def every_row(store: Store) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.Table.from_batches(
        list(ledger(store)), schema=LEDGER_SCHEMA
    ).to_pylist()
    assert {row["outcome"] for row in rows} == {
        *("pending", "carried over", "delivered", "cancelled", "moved"),
    }
    return rows


@pytest.mark.parametrize("limit", [1, 3, 7, 1_000])
def test_pages_are_all_rows_in_order(store: Store, limit: int) -> None:
    assert paged(store, LedgerFilter(), limit) == every_row(store)


@pytest.mark.parametrize("looked", [1, 4])
def test_a_call_looks_at_so_many_rows_and_goes_on(
    store: Store, looked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_pages, "LOOK_COUNT_MAX", looked)

    page = ledger_page(store, LedgerFilter(outcome="delivered", late_ms=10**9), limit=5)
    assert (page.rows, page.cursor is None) == ([], False)
    assert paged(store, LedgerFilter(), 3) == every_row(store)


@pytest.mark.parametrize(
    "wanted",
    [
        LedgerFilter(topic="a"),
        LedgerFilter(topic="nobody"),
        LedgerFilter(outcome="pending"),
        LedgerFilter(outcome="carried over", topic="b"),
        LedgerFilter(outcome="cancelled"),
        LedgerFilter(outcome="moved"),
        LedgerFilter(outcome="delivered", topic="b"),
        LedgerFilter(late_ms=3_000),
        LedgerFilter(late_ms=0, outcome="cancelled"),
    ],
)
def test_filters_mean_what_a_loop_finds(store: Store, wanted: LedgerFilter) -> None:
    expected = [
        row
        for row in every_row(store)
        if wanted.topic in (None, row["topic"])
        and wanted.outcome in (None, row["outcome"])
        and (wanted.late_ms is None or (row["late_ms"] or -1) >= wanted.late_ms)
    ]

    assert paged(store, wanted, 2) == expected


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "!", "e30", base64.b64encode(b"[]").decode()),
        *(
            base64.b64encode(plain).decode()
            for plain in (
                b'["waiting"]',
                b'["waiting", 1, "x"]',
                b'["ended", true]',
                b'["delivered","a",0,-7]',
                b'["nowhere", 1]',
                b"[" * 500,
            )
        ),
    ],
)
def test_a_cursor_of_somebody_else_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidRequest, match="cursor"):
        ledger_page(store, LedgerFilter(), limit=5, cursor=cursor)


def test_every_end_of_a_message_has_its_word() -> None:
    assert {NAMES[state] for state in ENDED_STATES} == set(ENDED)


def test_what_cannot_be_is_refused(store: Store) -> None:
    for wanted, limit, field in (
        (LedgerFilter(outcome="eaten"), 5, "outcome"),
        (LedgerFilter(late_ms=-1), 5, "late_ms"),
        (LedgerFilter(), 0, "limit"),
        (LedgerFilter(), 1_001, "limit"),
    ):
        with pytest.raises(InvalidRequest, match=field):
            ledger_page(store, wanted, limit=limit)
