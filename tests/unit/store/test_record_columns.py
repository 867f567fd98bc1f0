"""Fields of many records against the scalar codec."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.store.making import int64s
from tests.unit.store.recording import make_record
from tests.unit.store.test_record import RECORDS

from dueline.store import control
from dueline.store import record as records
from dueline.store.control import CANCEL, Control
from dueline.store.properties import key_hash
from dueline.store.record import MARK_DELAYED, Record
from dueline.store.record_columns import RecordColumns


@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_columns_are_the_fields(rows: list[Record]) -> None:
    columns = RecordColumns(pa.array([records.seal(row) for row in rows], pa.binary()))

    assert columns.topics.to_pylist() == [row.topic for row in rows]
    assert columns.texts.to_pylist() == [row.properties for row in rows]
    assert columns.is_delayed.tolist() == [bool(row.mark & MARK_DELAYED) for row in rows]
    assert columns.number.tolist() == [row.mark & (1 << 44) - 1 for row in rows]
    assert columns.headers["store_ms"].tolist() == [row.store_ms for row in rows]


def test_controls_are_told_from_messages() -> None:
    cancel = control.encode(Control(kind=CANCEL, numbers=int64s(5)), position=0, store_ms=0)
    message = records.seal(make_record(properties=b"UNIQ_KEY\x01id\x02KEYS\x01a b"))
    columns = RecordColumns(pa.array([message, cancel, message], pa.binary()))

    (found,) = columns.controls()
    hashes, rows = columns.key_hashes()

    assert found.numbers.tolist() == [5]
    assert rows.tolist() == [0, 0, 0, 2, 2, 2]
    assert hashes.tolist() == [key_hash(key) for key in ("id", "a", "b")] * 2
