"""Rows between the store and Spark: the columns that are asked for, and no others."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.store.making import Wall, delayed, open_store, take_window

from dueline.message import DEAD_LETTER_TOPIC
from dueline.spark import rows
from dueline.spark.schema import MESSAGE_COLUMNS, ROUTE_COLUMNS, message_columns
from dueline.store import Store
from dueline.store.schema import routed_schema


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = open_store(tmp_path, Wall())
    store.put(delayed(1_000, b"first", TAGS="red", KEYS="k1 k2", size="L"))
    store.put(delayed(2_000, b"second", topic="bills"))
    return store


@pytest.mark.parametrize("names", [("body",), ("tags", "unique_id"), ("flag", "born_host"), ()])
def test_some_columns_are_those_of_all(store: Store, names: tuple[str, ...]) -> None:
    window = take_window(store)
    schema = message_columns(names)

    (whole,) = rows.message_rows(window, "shard")
    (some,) = rows.message_rows(window, "shard", schema)

    assert some.schema.equals(schema)
    assert some.to_pylist() == whole.select(schema.names).to_pylist()


def test_a_route_needs_no_record(store: Store) -> None:
    window = take_window(store)

    routes = rows.route_rows(window.drop_columns(["record"]), "shard")

    assert routes.schema.names == list(ROUTE_COLUMNS)
    assert routes["topic"].to_pylist() == ["orders", "bills"]
    assert routes["shard"].to_pylist() == ["shard"] * 2


def test_what_cannot_be_restored_is_seen_as_a_dead_letter(store: Store) -> None:
    window = take_window(store)
    data = pa.array([b"no record", window["record"][1].as_py()], pa.binary())
    broken = window.set_column(4, window.schema.field(4), data)

    found = [
        row
        for part in rows.message_rows(broken, "shard", message_columns(["tags"]))
        for row in part.to_pylist()
    ]

    assert [row["topic"] for row in found] == [DEAD_LETTER_TOPIC, "bills"]
    assert [row["origin"] for row in found] == [0, 1]


def test_the_sink_passes_on_what_it_is_given(store: Store) -> None:
    (whole,) = rows.message_rows(take_window(store), "shard")
    names = [name for name in MESSAGE_COLUMNS.names if name != "shard"]

    everything = rows.routed(whole.select(names))
    few = rows.routed(whole.select(["origin", "due_ms", "topic", "queue_id", "tags"]))

    assert everything.schema.equals(routed_schema(names))
    assert few.schema.equals(routed_schema(["tags"]))
    assert few["tags"].to_pylist() == ["red", None]
