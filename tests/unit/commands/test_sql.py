"""How rows of Spark look, and what is refused before Spark is started."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.unit.commands.conftest import Run

from dueline.commands.sql import cell, json_row
from dueline.spark import sql

ROWS = pa.table(
    {
        "topic": ["orders", "bills"],
        "body": [b"x", b"\xff"],
        "count": [1_200, None],
        "at": [datetime(2027, 1, 1, tzinfo=UTC)] * 2,
    }
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, int]]:
    """What Spark was asked; it answers ROWS."""
    found: list[tuple[str, str, int]] = []

    def answer(brokers: str, statement: str, *, row_count_max: int) -> pa.Table:
        found.append((brokers, statement, row_count_max))
        return ROWS.slice(0, row_count_max)

    monkeypatch.setattr(sql, "answer_once", answer)
    return found


def test_rows_are_a_table_for_people(asked: list[tuple[str, str, int]], run: Run) -> None:
    ran = run("sql", "select 1", "--broker", "127.0.0.1:1")

    assert asked == [("127.0.0.1:1", "select 1", 101)]
    assert [line.split() for line in ran.lines] == [
        ["topic", "body", "count", "at"],
        ["orders", "x", "1,200", "2027-01-01", "00:00:00.000+00:00"],
        ["bills", "\\xff", "2027-01-01", "00:00:00.000+00:00"],
    ]


def test_rows_are_lines_for_programs(asked: list[tuple[str, str, int]], run: Run) -> None:
    ran = run("sql", "select 1", "--broker", "127.0.0.1:1", "--json")

    first, second = map(json.loads, ran.lines)
    assert first == {"topic": "orders", "body": "x", "count": 1_200, "at": 1_798_761_600_000}
    assert second["body_base64"] == "/w=="


def test_that_there_are_more_rows_is_said(asked: list[tuple[str, str, int]], run: Run) -> None:
    ran = run("sql", "select 1", "--broker", "127.0.0.1:1", "--limit", "1")

    assert "There are more rows; these are the first 1 (--limit)." in ran.out
    assert "bills" not in ran.out


def test_values_of_every_kind_are_shown() -> None:
    assert cell(Decimal("1.50")) == '"1.50"'
    assert json_row({"a": Decimal("1.50"), "b": {"c": [1]}}) == {"a": "1.50", "b": {"c": [1]}}


@pytest.mark.parametrize(
    "statement", ["", "drop table pending", "create table x as select 1", "-- select\ndelete", "("]
)
def test_a_statement_that_does_not_read_is_refused_before_spark_starts(
    statement: str, run: Run
) -> None:
    ran = run("sql", statement, "--broker", "127.0.0.1:1")

    assert ran.code != 0
    assert "expected a statement that reads" in ran.err


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_limit_is_at_least_one(limit: str, run: Run) -> None:
    assert "--limit: expected 1 or more" in run("sql", "select 1", "--limit", limit).err
