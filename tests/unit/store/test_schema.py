"""Schemas: what leaves the store has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.store.making import Wall, delayed, open_store, ordinary, take_window

from dueline.store import restore, schema
from dueline.store.schema import empty_batch


def test_batches_have_their_schemas(tmp_path: Path) -> None:
    with open_store(tmp_path, Wall()) as store:
        store.put_all([delayed(5), ordinary()])
        window = take_window(store)
        stored, _ = store.read_rows("orders", 0, 0, count_max=9, size_bytes_max=1 << 20)

    assert window.schema.equals(schema.WINDOW_SCHEMA)
    assert stored.schema.equals(schema.STORED_SCHEMA)
    assert restore.messages(window).schema.equals(schema.MESSAGE_SCHEMA)
    assert restore.deliveries(window).schema.equals(schema.DELIVERY_SCHEMA)
    for batch in (window, stored, restore.deliveries(window)):
        batch.validate(full=True)


@pytest.mark.parametrize("name", [name for name in schema.__all__ if name.endswith("_SCHEMA")])
def test_empty_batch_has_the_schema(name: str) -> None:
    wanted = getattr(schema, name)

    batch = empty_batch(wanted)

    assert batch.num_rows == 0
    assert batch.schema.equals(wanted)
