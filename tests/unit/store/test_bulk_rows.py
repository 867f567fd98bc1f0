"""Rows of a table by kernels: byte for byte what arrays make of them, refused for one reason."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from tests.unit.store.making import START_MS
from tests.unit.store.packing import unpacked_rows
from tests.unit.store.test_bulk import HOST, RULES
from tests.unit.store.test_record import V6

from dueline import compiled
from dueline.errors import BrokerError, InvalidRequest
from dueline.message import UniqueIds
from dueline.store import bulk
from dueline.store.block import BLOCK_KERNELS
from dueline.store.bulk_rows import BULK_KERNELS, BulkRows, Finished, Places, UsualRows
from dueline.store.layout import split
from dueline.store.record import is_packed

pytest.importorskip("numba")

TEXTS = st.one_of(st.none(), st.text(st.characters(codec="utf-8", max_codepoint=300), max_size=9))
ROWS = st.tuples(
    st.sampled_from(["t", "a-long-topic"]),
    st.binary(max_size=30),
    st.one_of(st.none(), st.integers(0, 12)),
    st.sampled_from(["deliver_at_ms", "delay_ms", "delay_level", None]),
    st.integers(0, 99_999),
    TEXTS,
    TEXTS,
    st.one_of(TEXTS, st.binary(max_size=20).map(lambda data: data.hex().upper())),
)


@pytest.fixture(scope="module", autouse=True)
def kernels() -> None:
    assert compiled.load([BLOCK_KERNELS, BULK_KERNELS])


def table_of(rows: list[Any]) -> pa.Table:
    def when(name: str, start: int) -> list[int | None]:
        return [start + row[4] if row[3] == name else None for row in rows]

    return pa.table(
        {
            "topic": pa.array([row[0] for row in rows], pa.string()),
            "body": pa.array([row[1] for row in rows], pa.binary()),
            "queue_id": pa.array([row[2] for row in rows], pa.int32()),
            "deliver_at_ms": pa.array(when("deliver_at_ms", START_MS), pa.int64()),
            "delay_ms": pa.array(when("delay_ms", 0), pa.int64()),
            "delay_level": pa.array(when("delay_level", 0), pa.int32()),
            "keys": pa.array([row[5] for row in rows], pa.string()),
            "tags": pa.array([row[6] for row in rows], pa.string()),
            "unique_id": pa.array([row[7] for row in rows], pa.string()),
        }
    )


def encoded(table: pa.Table, host: bytes) -> dict[str, Any]:
    ids = UniqueIds(host=HOST, start_ms=START_MS)
    try:
        rows = bulk.prepare(table, now_ms=START_MS, rules=RULES, ids=ids, store_host=host)
    except BrokerError as error:
        return {"refused": str(error), "details": error.details}
    made = ids.prefix.encode()  # random: of another maker in the other encoding
    return {
        "sizes": rows.sizes.tolist(),
        "due_ms": rows.due_ms.tolist(),
        "ids": [each.replace(made, b"*") for each in rows.unique_ids.to_pylist()],
        "maker": made,
        "rows": rows,
    }


def finished(rows: bulk.Prepared) -> Finished:
    numbers = np.arange(len(rows), dtype=np.int64)
    places = Places(
        positions=7 * numbers + 5, queue_offsets=numbers + 7, store_ms=START_MS + 3, first_seq=11
    )
    room = np.full(rows.room_bytes + 9, 255, dtype=np.uint8)
    found = rows.finish(places, room)
    assert bool((room[rows.room_bytes :] == 255).all())
    return found


def records_of(data: Any, rows: bulk.Prepared) -> list[bytes]:
    """Each record as it will be read."""
    assert list(map(len, split(data.data))) == rows.sizes.tolist()
    return unpacked_rows(data.tobytes(), [7 * row + 5 for row in range(len(rows))])


@given(st.lists(ROWS, max_size=8), st.integers(0, 3), st.sampled_from([HOST, V6]))
def test_kernels_and_arrays_agree(rows: list[Any], skipped: int, host: bytes) -> None:
    table = table_of([("t", b"skipped", 1, None, 0, "k", "g", "i")] * skipped + rows)
    table = table.slice(skipped)
    named = table.set_column(
        8, "unique_id", pa.array([row[7] or f"id-{n}" for n, row in enumerate(rows)], pa.string())
    )

    found = encoded(named, host)
    with compiled.switched_off():
        expected = encoded(named, host)

    assert found.keys() == expected.keys()
    if "refused" in expected:
        assert found == expected
        return
    assert isinstance(found["rows"], UsualRows)
    assert isinstance(expected["rows"], bulk.Bulk)
    one, other = finished(found["rows"]), finished(expected["rows"])
    assert records_of(one.data, found["rows"]) == records_of(other.data, expected["rows"])
    assert {is_packed(each) for each in split(one.data.data)} <= {host == HOST}
    assert one.hashes.tolist() == other.hashes.tolist()
    assert one.owners.tolist() == other.owners.tolist()
    assert found["ids"] == expected["ids"]


@given(st.lists(ROWS, max_size=8))
def test_ids_that_are_missing_are_made(rows: list[Any]) -> None:
    found = encoded(table_of(rows), HOST)
    with compiled.switched_off():
        expected = encoded(table_of(rows), HOST)

    for name in ("refused", "details", "due_ms", "ids"):
        assert found.get(name) == expected.get(name)
    if "ids" in found:
        one, other = finished(found["rows"]), finished(expected["rows"])
        written = records_of(one.data, found["rows"])
        assert list(map(len, written)) == expected["sizes"]
        assert list(map(len, records_of(other.data, expected["rows"]))) == expected["sizes"]
        assert found["rows"].size_bytes_max >= max(expected["sizes"], default=0)
        for each, record in zip(found["rows"].unique_ids.to_pylist(), written, strict=True):
            assert b"UNIQ_KEY\x01" + each in record


def test_properties_that_no_record_can_hold_are_refused() -> None:
    table = pa.table({"topic": ["t", "t"], "body": [b"", b""], "keys": ["", "k" * 32_767]})

    with pytest.raises(InvalidRequest, match="row 1: properties: expected 0 to 32767 bytes"):
        encoded_or_raise(table)


def encoded_or_raise(table: pa.Table) -> bulk.Prepared:
    ids = UniqueIds(host=HOST, start_ms=START_MS)
    return bulk.prepare(table, now_ms=START_MS, rules=RULES, ids=ids, store_host=HOST)


@pytest.mark.parametrize(
    "columns",
    [
        {"properties": pa.array([[("a", "b")]], pa.map_(pa.string(), pa.string()))},
        {"keys": pa.array(["a\x01b"])},
        {"tags": pa.array(["\x02"])},
    ],
)
def test_what_is_not_usual_is_left_to_the_caller(columns: dict[str, Any]) -> None:
    rows = BulkRows(
        columns={"body": pa.array([b"x"]), **columns},
        due_ms=np.array([START_MS], dtype=np.int64),
        level=np.zeros(1, dtype=np.int32),
        names=["t"],
        topic=np.zeros(1, dtype=np.int32),
        queue_id=np.zeros(1, dtype=np.int32),
    )
    ids = UniqueIds(host=HOST, start_ms=START_MS)

    assert UsualRows.of(rows, now_ms=START_MS, ids=ids, store_host=HOST) is None
