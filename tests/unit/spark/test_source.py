"""The data source hands on, by its options; no session is needed for that."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from dueline.errors import InvalidRequest
from dueline.spark.reader import DueReader
from dueline.spark.schema import ROUTE_COLUMNS
from dueline.spark.source import DuelineDataSource
from dueline.spark.writer import DeliverWriter

NOBODY = {"brokers": "127.0.0.1:1"}


def source(**options: str) -> DuelineDataSource:
    return DuelineDataSource({**NOBODY, **options})


def columns(ddl: str) -> list[str]:
    return [part.split()[0].strip("`") for part in ddl.split(",")]


@pytest.mark.parametrize(
    ("options", "has", "has_not"),
    [
        ({}, "body", "deliver_at"),
        ({"view": "pending"}, "deliver_at", "queue_offset"),
        ({"view": "messages"}, "queue_offset", "deliver_at"),
        ({"view": "ledger"}, "visible_ms", "body"),
    ],
)
def test_the_option_says_which_columns_there_are(
    options: dict[str, str], has: str, has_not: str
) -> None:
    found = columns(source(**options).schema())

    assert has in found
    assert has_not not in found


def test_a_batch_read_without_a_view_is_told_which_there_are() -> None:
    with pytest.raises(InvalidRequest, match=r"option view, found none.*pending.*messages"):
        source().reader(StructType())


def test_streams_are_read_and_written() -> None:
    routes = StructType([StructField(name, StringType()) for name in ROUTE_COLUMNS])

    assert isinstance(source().streamReader(routes), DueReader)
    assert isinstance(source().streamWriter(routes, overwrite=False), DeliverWriter)


def test_a_batch_write_schedules_new_messages_unless_it_says_another_action() -> None:
    """Each looks at the columns first, and says in its own words which it wants."""
    with pytest.raises(InvalidRequest, match=r"^bulk write: expected topic, body"):
        source().writer(StructType(), overwrite=False)
    with pytest.raises(InvalidRequest, match="cancel"):
        source(action="cancel").writer(StructType(), overwrite=False)


@pytest.mark.parametrize("use", ["schema", "reader", "writer", "streamReader", "streamWriter"])
def test_a_mistake_in_the_options_is_told_by_every_use(use: str) -> None:
    wrong = source(colour="red")
    arguments = {
        "schema": (),
        "reader": (StructType(),),
        "streamReader": (StructType(),),
    }.get(use, (StructType(), False))

    with pytest.raises(InvalidRequest, match="colour"):
        getattr(wrong, use)(*arguments)
