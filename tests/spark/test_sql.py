"""Statements over what a broker has: rows, and errors of one line."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import Broker
from tests.waiting import PATIENCE_S

from dueline.errors import InvalidRequest
from dueline.spark.sql import answer

pytestmark = pytest.mark.spark


@pytest.fixture
def filled(broker: Broker) -> Broker:
    """Three wait, one of them is cancelled."""
    broker.put(b"a", delay_ms=600_000, topic="orders", KEYS="k1")
    broker.put(b"b", delay_ms=700_000, topic="orders", KEYS="k2")
    broker.put(b"c", delay_ms=800_000, topic="bills", KEYS="k3")
    broker.store.cancel("k2")
    return broker


def test_statements_see_what_waits_and_what_became_of_it(
    spark: SparkSession, filled: Broker
) -> None:
    joined = answer(
        spark,
        filled.address,
        """select ledger.keys, outcome, cast(body as string) as body
        from ledger left join pending on pending.unique_id = ledger.unique_id
        order by ledger.keys""",
        row_count_max=10,
    )
    first = answer(
        spark, filled.address, "select keys from pending order by due_ms", row_count_max=1
    )

    assert joined.to_pylist() == [
        {"keys": "k1", "outcome": "pending", "body": "a"},
        {"keys": "k2", "outcome": "cancelled", "body": None},
        {"keys": "k3", "outcome": "pending", "body": "c"},
    ]
    assert first.to_pylist() == [{"keys": "k1"}]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("select colour from pending", "UNRESOLVED_COLUMN"),
        ("select * from nowhere", "TABLE_OR_VIEW_NOT_FOUND"),
        ("select * from pending where (", "PARSE_SYNTAX_ERROR"),
        ("select 1/0 from pending", "DIVIDE_BY_ZERO"),
        ("select count(*) from messages", "view=messages: expected a topic, found none"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    spark: SparkSession, filled: Broker, statement: str, expected: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        answer(spark, filled.address, statement, row_count_max=10)

    assert caught.value.message.startswith("sql: ")
    assert expected in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.slow
def test_the_command_starts_spark_and_prints_lines(filled: Broker) -> None:
    words = ("sql", "select topic, count(*) as n from pending group by topic order by topic")
    ran = subprocess.run(
        [sys.executable, "-m", "dueline", *words, "--broker", filled.address, "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    assert [json.loads(line) for line in ran.stdout.splitlines()] == [
        {"topic": "bills", "n": 1},
        {"topic": "orders", "n": 1},
    ]
